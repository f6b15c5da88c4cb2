"""The docs hold: examples in them work as they stand, and links lead somewhere."""

import re
import shlex
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import pytest

from pipeline.base.errors import UsageError
from pipeline.cli.options import Parser
from pipeline.languages import language as seam
from step_runtime import loads_task, verify
from step_runtime.base.syntax import BUILTINS
from step_runtime.primitives import PRIMITIVES
from step_runtime.program.limits import Limits
from tests.support.paths import PROJECT

CURRENT = [
    *sorted(PROJECT.glob("*.md")),
    *sorted((PROJECT / "docs").rglob("*.md")),
    *(PROJECT / folder / "README.md" for folder in ("benchmarks", "data/language-templates/texts", "tests/support")),
]
PAGES = [*CURRENT, *sorted((PROJECT / "experiments").rglob("*.md"))]
MADE_BY_THE_BUILD = {"commands.md"}


def blocks(page: Path, label: str) -> list[str]:
    return re.findall(rf"^```{label}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", [PROJECT / "README.md", PROJECT / "docs" / "tasks.md"], ids=lambda page: page.name)
def test_a_task_shown_is_one(page: Path) -> None:
    """And where it has a program, that passes."""
    task = loads_task(blocks(page, "yaml")[0], "shown", source=page.name)
    if task.impl is not None:
        assert verify(task).passed


def test_a_task_with_a_program_is_shown() -> None:
    """So that the test above verifies one."""
    assert "impl: |" in blocks(PROJECT / "docs" / "tasks.md", "yaml")[0]


def test_the_page_on_the_language_names_all_of_it() -> None:
    """Primitives, what is built in, and bounds."""
    text = (PROJECT / "docs" / "language.md").read_text(encoding="utf-8")
    assert [name for name in (*PRIMITIVES, *BUILTINS) if f"`{name}" not in text] == []
    limits = Limits()
    for bound in (f"{limits.characters:,} characters", f"nested {limits.depth} deep", f"| {limits.primitives:,} |"):
        assert bound in text
    assert f"{limits.bytes // 2**30} GiB" in text and f"{limits.seconds:.0f} seconds" in text


def test_the_page_on_languages_names_every_member() -> None:
    text = (PROJECT / "docs" / "languages.md").read_text(encoding="utf-8")
    members = [name for name in (*seam.Language.__annotations__, *vars(seam.Language)) if not name.startswith("_")]
    assert [name for name in members if f"`{name}" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_links_lead_to_files_and_headings(page: Path) -> None:
    """Those within the project; of the site's pages, within the site."""
    broken, docs = [], PROJECT / "docs"
    for link, _, heading in re.findall(r"\]\(([^)#:\s]*)(#([^)\s]+))?\)", page.read_text(encoding="utf-8")):
        target = (page.parent / link).resolve() if link else page
        found = target.is_file() and (target.is_relative_to(docs) or not page.is_relative_to(docs))
        if target.name not in MADE_BY_THE_BUILD and not (found and (not heading or heading in headings(target))):
            broken.append(f"{link}#{heading}")
    assert broken == []


def headings(page: Path) -> list[str]:
    """The addresses of a page's headings, as MkDocs and GitHub give them."""
    named = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", each).strip().lower().replace(" ", "-") for each in named]


class Parsed(Exception):
    """A command line was accepted."""


def accept(parser: Parser, argv: Sequence[str] | None) -> NoReturn:
    parser.parse_args(argv)
    raise Parsed


@pytest.mark.parametrize("page", CURRENT, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_commands_shown_have_these_options(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line of a page that starts a module names one that exists, and options that it takes."""
    monkeypatch.setattr(Parser, "given", accept)
    text = page.read_text(encoding="utf-8").replace("\\\n", " ").replace("adaptive-step ", "python -m pipeline.")
    text = re.sub(r"--language (NAME|mine|stack)\b", "--language step", text)
    for module, rest in re.findall(r"^(?:[A-Z_]+=\S* *|    )*python -m (\S+)(.*)$", text, re.MULTILINE):
        if module.startswith("pipeline.") and "$" not in rest:
            with pytest.raises((Parsed, SystemExit, UsageError)) as ended:
                import_module(module).main(shlex.split(rest, comments=True))
            assert isinstance(ended.value, Parsed | SystemExit) or "there is no such file" in str(ended.value)
        else:
            assert find_spec(module) is not None, f"{module}{rest}"
