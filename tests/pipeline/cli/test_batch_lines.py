"""Many verdicts as text: a line each that says what failed first, and counts that add up."""

from __future__ import annotations

from pipeline.base.outputs import Finding, ProgramVerdict
from pipeline.cli.batch_lines import findings, line, summarize, summary_line
from pipeline.verification.checking import Checked

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
    assert line("x", PASSED) == "passed    x"
    assert line("x", WARNED) == "passed    x  (1 warning)"
    assert line("x", FAILED) == "failed    x: type: zip-shape"
    assert line("x", UNUSABLE) == "unusable  x"


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
