"""Many programs at once: in order, each judged for itself, with files that build servers and editors read."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pipeline import verify
from pipeline.actions import verify_programs as action
from pipeline.actions.verify_programs import findings, summarize, summary_line, verdict_line
from pipeline.base.errors import UsageError, run_command
from pipeline.base.outputs import BatchOutput, Finding, ProgramVerdict
from pipeline.verification.checking import Checked
from pipeline.verification.limits import ProgramLimits
from tests.support.scripted_runs import RIGHT, TASK

WRONG = "return E0"
UNREAD = TASK.replace(
    "data_gen: torch.rand}]", "data_gen: torch.rand}, {name: E9, dtype: fp32, dims: [M], data_gen: torch.rand}]"
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "good.yaml").write_text(TASK)
    (tmp_path / "doubtful.yaml").write_text(UNREAD)
    (tmp_path / "broken.yaml").write_text("inputs: 3\n")
    (tmp_path / "right.step").write_text(RIGHT)
    (tmp_path / "wrong.step").write_text(WRONG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*argv: str) -> int:
    return run_command(verify.NAME, verify.main, argv)


def test_one_bad_file_costs_no_other_its_verdict(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line each in the order of the command line, the findings, the counts; 1 since a program fails."""
    assert run("good.yaml", "right.step", "broken.yaml", "good.yaml", "wrong.step", "good.yaml", "none.step") == 1
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["passed", "unusable", "failed", "unusable"]
    assert "broken.yaml:1: inputs: " in out and "none.step: cannot read the program" in out
    assert lines[-1].startswith("4 programs: 1 passed, 1 failed, 2 unusable in ")


def test_the_exit_code_says_the_worst(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 if every program passes, 2 if none fails but a file can't be used."""
    assert run("good.yaml", "right.step", "doubtful.yaml", "right.step") == 0
    assert run("good.yaml", "right.step", "broken.yaml") == 2


def test_strict_makes_warnings_fail(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a stage of their own; one program or many."""
    assert run("doubtful.yaml", "right.step", "--strict", "--json") == 1
    assert json.loads(capsys.readouterr().out)["stage"] == "warnings"
    assert run("doubtful.yaml", "right.step", "good.yaml", "right.step", "--strict") == 1
    assert "failed    doubtful.yaml right.step: warnings" in capsys.readouterr().out


def test_json_junit_and_sarif_agree(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The object validates, and the files count the same."""
    files = ("--junit", "junit.xml", "--sarif", "found.sarif")
    assert run("good.yaml", "right.step", "good.yaml", "wrong.step", "broken.yaml", "--json", *files) == 1
    output = BatchOutput.model_validate_json(capsys.readouterr().out)
    summary = output.summary
    assert (summary.programs, summary.passed, summary.failed, summary.unusable) == (3, 1, 1, 1)
    suite = ElementTree.parse(folder / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")
    results = json.loads((folder / "found.sarif").read_text())["runs"][0]["results"]
    assert [result["ruleId"] for result in results][:1] == [output.programs[1].diagnostics[0].code]


def test_what_is_saved_is_verified_again(folder: Path) -> None:
    """Only that; until the user ends it."""
    said: list[str] = []
    failed = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        if text.startswith("watching") and not failed.is_set():
            failed.set()
            (folder / "program.step").write_text(RIGHT)
        elif text.startswith("watching"):
            raise KeyboardInterrupt

    (folder / "program.step").write_text(WRONG)
    settings = action.Batch("float64", ProgramLimits())
    with pytest.raises(KeyboardInterrupt):
        action.watch(settings, ["good.yaml", "program.step", "doubtful.yaml", "right.step"], None, say)
    lines = [line for line in said if line.startswith(("passed", "failed"))]
    assert [line.split()[:2] for line in lines] == [
        ["failed", "good.yaml"],
        ["passed", "doubtful.yaml"],
        ["passed", "good.yaml"],
    ]
    assert [line.split()[1:] for line in said if "changed:" in line] == [["changed:", "program.step"]]


def test_one_program_that_can_not_be_used_is_an_error(folder: Path) -> None:
    """As it is the only one."""
    settings = action.Batch("float64", ProgramLimits())
    with pytest.raises(UsageError, match=r"broken\.yaml:1"):
        action.run_single(settings, action.resolve(["broken.yaml", "right.step"])[0], None)


def test_options_for_one_program_need_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And watching prints no object."""
    assert run("*.yaml", "--explain") == 2
    assert run("good.yaml", "--watch", "--json") == 2
    assert "--watch" in json.loads(capsys.readouterr().out)["error"]["message"]
    assert run("good.yaml", "--watch", "--cost") == 2
    assert "--cost: shows one program; omit --watch" in capsys.readouterr().err


WARNING = Finding(severity="warning", stage="task", code="equal-dims", message="both 4", file="t.yaml", line=2)
ERROR = Finding(severity="error", stage="type", code="zip-shape", message="differ", file="p", line=1, column=2)


def verdict(**fields: object) -> ProgramVerdict:
    values = {"task": "t", "task_file": "t.yaml", "program": "p", "passed": True, "stage": None}
    return ProgramVerdict.model_validate({**values, **fields})


PASSED, WARNED = verdict(), verdict(warnings=(WARNING,))
FAILED = verdict(passed=False, stage="type", diagnostics=(ERROR, ERROR))
UNUSABLE = verdict(passed=False, error="t.yaml:1: odd")


def test_a_line_says_verdict_name_and_reason() -> None:
    """Of several findings with one code the code once."""
    assert verdict_line("x", PASSED) == "passed    x"
    assert verdict_line("x", WARNED) == "passed    x  (1 warning)"
    assert verdict_line("x", FAILED) == "failed    x: type: zip-shape"
    assert verdict_line("x", UNUSABLE) == "unusable  x"
    strict = verdict(passed=False, stage="warnings", warnings=(WARNING,))
    assert verdict_line("x", strict) == "failed    x: warnings: equal-dims  (1 warning)"


def test_what_failed_is_given_in_full() -> None:
    """Warnings with their place; a program that passes without any gives nothing."""
    assert findings(Checked(PASSED, "x: passed")) == []
    assert findings(Checked(FAILED, "the findings")) == ["the findings"]
    assert findings(Checked(WARNED, "x: passed")) == ["t.yaml:2: warning: equal-dims: both 4"]


def test_the_summary_counts_every_program_once() -> None:
    """And shows only what there is."""
    summary = summarize([PASSED, WARNED, FAILED, UNUSABLE], 1.25)
    assert summary_line(summary) == "4 programs: 2 passed, 1 failed, 1 unusable, 1 warning in 1.2 s"
    assert summary_line(summarize([PASSED], 0.0)) == "1 program: 1 passed, 0 failed in 0.0 s"


def test_an_unknown_verdict_is_counted_apart(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What differs only where the reference has no numbers: exit code 4, skipped; a program that fails weighs more."""
    zero = (
        "inputs: [{name: E0, dtype: fp32, dims: [M], data_gen: torch.randn}]\n"
        "fns: [{name: f, func_name: fn_f, apply: 'return [input[0] * 2]', input_dtype: fp32, output_dtype: fp32}]\n"
        "outputs: [{name: S, dtype: fp32, dims: [M], data_transform: [\"input_data['E0'] / 0\"]}]\n"
    )
    (folder / "zero.yaml").write_text(zero)
    (folder / "double.step").write_text("return step.Map(fn=fn_f).apply(E0)")
    assert run("zero.yaml", "double.step", "good.yaml", "right.step", "--junit", "junit.xml") == 4
    out = capsys.readouterr().out
    assert "unknown   zero.yaml double.step: value: non-finite-reference" in out
    assert "2 programs: 1 passed, 0 failed, 1 unknown in " in out
    assert ElementTree.parse(folder / "junit.xml").getroot().get("skipped") == "1"
    assert run("zero.yaml", "double.step", "good.yaml", "wrong.step") == 1
    capsys.readouterr()
    assert run("zero.yaml", "double.step", "--json") == 4
    assert json.loads(capsys.readouterr().out)["unknown"] is True
