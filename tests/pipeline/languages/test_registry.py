"""Languages are found by entry points; what is wrong with one is said in words."""

import sys
from pathlib import Path

import pytest

from pipeline.base.errors import UsageError
from pipeline.base.languages import DEFAULT, declared, known
from pipeline.languages import registry
from tests.support.languages import install


@pytest.fixture(autouse=True)
def forgetting(monkeypatch: pytest.MonkeyPatch) -> None:
    registry.find.cache_clear()


def test_the_project_declares_its_own_first() -> None:
    """STeP, which a command without `--language` uses."""
    assert DEFAULT in declared()
    assert registry.find(DEFAULT).name == DEFAULT
    assert known(DEFAULT) == DEFAULT
    assert registry.module_of(DEFAULT) == "pipeline.step.language"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("THERE = 1", "names nothing"),
        ("LANGUAGE = object()", "is no `pipeline.languages.Language`"),
        (
            "from pipeline.languages import Language\nclass Bare(Language):\n    task = judge = 1\nLANGUAGE = Bare()",
            "lacks name, stages, folder",
        ),
        ("from pipeline.step.language import STEP as LANGUAGE", "calls itself 'step'"),
        ("import pipeline.no_such_module", r"broken_language\.py:1: ModuleNotFoundError: .*no_such_module"),
        ("\nfrom pipeline.languages import Nothing", r"broken_language\.py:2: ImportError: cannot import name"),
        ("import json\n\njson.loads('{')", r"broken_language\.py:3: JSONDecodeError: Expecting property name"),
        ("class Bare(:", r"broken_language\.py:1: invalid syntax"),
    ],
)
def test_an_entry_point_that_is_no_language_is_refused_in_words(
    code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is wrong with it."""
    install(tmp_path, monkeypatch, "broken", code)
    assert "broken" in declared()
    with pytest.raises(UsageError, match=message):
        registry.find("broken")
    sys.modules.pop("broken_language", None)


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    """As a usage error, exit code 2."""
    with pytest.raises(UsageError, match=r"no language 'fortran'; expected one of .*step"):
        registry.find("fortran")
