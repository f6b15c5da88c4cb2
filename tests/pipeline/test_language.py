"""A language of one's own: the skeleton works, the example keeps what it must, and faults are named."""

import json
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pipeline import language, verify
from pipeline.actions import new_language
from pipeline.base.errors import run_command
from pipeline.languages import registry
from tests.support.languages import declare
from tests.support.paths import PROJECT


@pytest.fixture(autouse=True)
def forgetting() -> None:
    registry.find.cache_clear()


def run(*argv: str) -> int:
    return run_command(language.NAME, language.main, argv)


def skeleton(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> Path:
    """The skeleton of a language of a name, installed; the folder of its module."""
    assert run("new", name, "-o", str(folder)) == 0
    module = f"{name.replace('-', '_')}_language"
    declare(folder, monkeypatch, name, f"{module}:LANGUAGE")
    return folder / module


def test_a_skeleton_is_written_and_keeps_all_that_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As JSON, in words and as JUnit XML; its own task is verified. What pip compiles of the template is left out."""
    template = shutil.copytree(new_language.TEMPLATE, tmp_path / "template")
    (template / "MODULE/__pycache__").mkdir()
    (template / "MODULE/__pycache__/__init__.cpython-311.pyc").write_bytes(b"\xa7\r")
    monkeypatch.setattr(new_language, "TEMPLATE", template)
    skeleton(tmp_path / "new", monkeypatch, "my-own")
    assert "python -m pipeline.language check my-own" in capsys.readouterr().out
    junit = tmp_path / "report.xml"
    assert run("check", "my-own", "--seconds", "1", "--json", "--junit", str(junit)) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["passed"], found["broken"], found["skipped"]) == (True, 0, 0)
    assert {case["property"] for case in found["cases"]} >= {"oracles", "near-misses", "keys", "cells", "answers"}
    suite = ElementTree.fromstring(junit.read_text())
    assert suite.get("tests") == str(found["held"]) and suite.get("failures") == "0"

    program = tmp_path / "p.txt"
    program.write_text("add 1\nadd 2\n")
    assert run_command(verify.NAME, verify.main, ["three", str(program), "--language", "my-own"]) == 0


def test_the_example_of_five_instructions_keeps_all_that_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report ends with the counts."""
    shutil.copytree(PROJECT / "examples/stack/stack_language", tmp_path / "stack_language")
    declare(tmp_path, monkeypatch, "stack", "stack_language:STACK")
    assert run("check", "stack", "--seconds", "1") == 0
    out = capsys.readouterr().out
    assert "held    near-misses: 6 of 6" in out and out.endswith("cases: 120 held, 0 broken\n")


_KEY = 'return f"value {_value(text)}" if all(map(_LINE.fullmatch, text.splitlines())) else f"text {text}"'
FAULTS = {
    _KEY: 'return "one"',
    "    def check(": "    def extract(self, answer: str) -> str:\n        return answer.strip()\n\n    def check(",
    "if value == task.content": "import random\n        if random.random() < 0.5 and value == task.content",
    '        """What the text shows to be wrong, with its place; runs nothing."""': "        exec('1')",
    "executes = False": "executes = True",
}


def test_what_a_language_breaks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys that are always equal, answers that are not unwrapped, verdicts by chance, code that runs in the caller."""
    module = skeleton(tmp_path / "new", monkeypatch, "faulty") / "__init__.py"
    text = module.read_text()
    for right, wrong in FAULTS.items():
        assert right in text
        text = text.replace(right, wrong)
    module.write_text(text)
    (module.parent / "oracles/three.txt").unlink()
    (module.parent / "near-misses/nowhere").mkdir()
    for number in range(8):  # so that chance gives a right program two verdicts
        shutil.copy(module.parent / "oracles/less.txt", module.parent / f"same/less.{number}")
    capsys.readouterr()
    assert run("check", "faulty", "--seconds", "1", "--json") == 1
    cases = json.loads(capsys.readouterr().out)["cases"]
    broken = {case["property"]: case["message"] for case in cases if case["outcome"] == "broken"}
    skipped = {
        (f"{case['property']}/{case['name']}", case["message"]) for case in cases if case["outcome"] == "skipped"
    }
    assert broken["keys"] == "its key is the oracle's, and it is wrong"
    assert broken["files"] == "expected a stage (parse, value)"
    assert ("oracles/three", "no oracle is shown for it") in skipped
    assert broken["attacks"] == "the language executes programs, and shows none that tries to escape"
    assert broken["nothing runs here"] == "it caused code that is run"
    assert "repeatable" in broken


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["new", "No_Name"], "is no name of a language"),
        (["new", "step"], "there is a language 'step' already"),
        (["check", "nothing"], "no language 'nothing'"),
    ],
)
def test_bad_names_are_refused(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With exit code 2 and one line."""
    assert run(*argv) == 2
    assert message in capsys.readouterr().err


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that holds something is refused."""
    (tmp_path / "mine.txt").write_text("mine")
    assert run("new", "mine", "-o", str(tmp_path)) == 2
    assert "is not empty" in capsys.readouterr().err
