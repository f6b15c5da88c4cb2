"""A program checked from its files: findings have the place that a person can open, whatever happens to the worker."""

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from pipeline.verification.checking import Checked, CheckRequest, check, checking_pool, outcome
from pipeline.verification.limits import ProgramLimits
from pipeline.verification.pool import LossCode, WorkerLost, WorkerPool
from tests.support.scripted_runs import RIGHT, TASK

WRONG = "E1 = step.Map(fn=fun).apply(E0)\nreturn E1"


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with checking_pool(1, ProgramLimits()) as pool:
        yield pool


def write(folder: Path, text: str) -> str:
    path = folder / "double.yaml"
    path.write_text(text)
    return str(path)


def test_a_program_of_its_own_file_is_reported_there(tmp_path: Path, pool: WorkerPool) -> None:
    """With line and column of that file."""
    request = CheckRequest(write(tmp_path, TASK), WRONG, "wrong.step")
    found = outcome(request, "double", pool.submit(check, request))
    (finding,) = found.verdict.diagnostics
    assert (finding.file, finding.line, finding.column, finding.severity) == ("wrong.step", 1, 18, "error")
    assert found.text.startswith("wrong.step:1:18: ") and found.verdict.task == "double"


@pytest.mark.parametrize(
    ("impl", "line", "column"),
    [
        ("impl: |\n    # first\n\n    E1 = step.Map(fn=fun).apply(E0)\n    return E1\n", 8, 22),
        ("impl: |2\n    E1 = step.Map(fn=fun).apply(E0)\n    return E1\n", 6, 22),
        ("impl: 'return step.Map(fn=fun).apply(E0)'\n", 5, 1),
        ("impl: >\n  return\n  step.Map(fn=fun).apply(E0)\n", 5, 1),
    ],
)
def test_an_impl_is_reported_at_the_files_own_line(impl: str, line: int, column: int, tmp_path: Path) -> None:
    """Of a block that YAML folds or quotes the key's line, with the program's own line as a detail."""
    path = write(tmp_path, TASK + impl)
    found = check(CheckRequest(path))
    finding = found.verdict.diagnostics[0]
    assert (finding.file, finding.line, finding.column) == (path, line, column)
    assert found.text.startswith(f"{path}:{line}:{column}: ")
    assert (column == 1) == any("of `impl`" in detail for detail in finding.details)


def test_a_file_that_can_not_be_used_is_not_a_verdict(tmp_path: Path) -> None:
    """A wrong task, code that fails, and a task without a program."""
    for text, message in [
        (TASK.replace("fp32", "fp31", 1), "double.yaml:2: inputs[0].dtype: unknown dtype"),
        (TASK + "global: 1 / 0\n", "double.yaml:5: global: "),
        (TASK, "this task has no `impl`"),
    ]:
        verdict = check(CheckRequest(write(tmp_path, text))).verdict
        assert not verdict.passed and verdict.stage is None and not verdict.diagnostics
        assert verdict.error is not None and message in verdict.error


def test_warnings_have_code_and_line(tmp_path: Path) -> None:
    """And leave the verdict alone."""
    path = write(tmp_path, TASK.replace('* 2"]', '* 0"]'))
    verdict = check(CheckRequest(path, RIGHT)).verdict
    assert {(warning.code, warning.line, warning.severity) for warning in verdict.warnings} == {
        ("constant-output", 4, "warning")
    }


def test_limits_are_those_of_the_request(tmp_path: Path) -> None:
    """A program beyond one fails; so does none by default."""
    path = write(tmp_path, TASK)
    few = check(CheckRequest(path, RIGHT, limits=ProgramLimits(limit_primitives=1))).verdict
    assert few.passed
    twice = RIGHT.replace("return E1", "return step.Identity().apply(E1)")
    assert check(CheckRequest(path, twice)).verdict.passed
    assert check(CheckRequest(path, twice, limits=ProgramLimits(limit_primitives=1))).verdict.stage == "limits"


def lost(request: CheckRequest, at: str, code: LossCode = "time-limit") -> Checked:
    error = WorkerLost(code, "took too long")
    error.at, error.seconds, error.spent = at, 1.5, 20.0
    future: Future[Checked] = Future()
    future.set_exception(error)
    return outcome(request, "double", future)


def test_a_lost_worker_is_the_tasks_fault_or_a_verdict(tmp_path: Path) -> None:
    """Depending on what it had come to."""
    request = CheckRequest(write(tmp_path, TASK + "global: x = 1\n"), RIGHT, "p.step")
    loading = lost(request, "loading double.yaml \tglobal at M=5")
    assert loading.verdict.error and "double.yaml:5: global: its code took too long at M=5" in loading.verdict.error
    running = lost(request, "abc set 0\tstep.Map(fn=fn)")
    assert running.verdict.stage == "run" and running.verdict.diagnostics[0].details == (
        "it had come to step.Map(fn=fn), 1.5 s before, after 18.5 s",
    )
    assert running.text.startswith("p.step: time-limit: verification took too long\n  it had come to")
    assert (loading.verdict.seconds, running.verdict.seconds) == (20.0, 20.0)


@pytest.mark.parametrize(
    ("code", "at", "advised"),
    [
        ("time-limit", "abc set 0: S0\treference", ["--limit-seconds"]),
        ("time-limit", "abc stress: S0\treference", ["--limit-seconds", "--no-stress"]),
        ("memory-limit", "abc set 0: S0\treference", ["--limit-bytes"]),
        ("crashed", "abc set 0: S0\treference", []),
        ("tampered", "abc set 0: S0\treference", []),
    ],
)
def test_advice_is_of_what_was_exceeded(code: LossCode, at: str, advised: list[str], tmp_path: Path) -> None:
    """No other limit helps, and none helps what changes the verifier."""
    [found] = lost(CheckRequest(write(tmp_path, TASK), RIGHT, "p.step"), at, code).verdict.diagnostics
    assert [word.rstrip(";") for word in (found.hint or "").split() if word.startswith("--")] == advised


def test_a_worker_that_something_else_kills_twice_is_not_a_verdict() -> None:
    """Nothing is known of the program; the control, a crash, is a verdict."""
    verdicts = []
    codes: tuple[LossCode, ...] = ("killed", "crashed")
    for code in codes:
        future: Future[Checked] = Future()
        future.set_exception(WorkerLost(code, "was killed by the system"))
        verdicts.append(outcome(CheckRequest("double.yaml", WRONG), "double", future).verdict)
    killed, crashed = verdicts
    assert (killed.stage, killed.diagnostics) == (None, ())
    assert "twice" in (killed.error or "")
    assert (crashed.stage, crashed.diagnostics[0].code) == ("run", "crashed")
    assert crashed.unknown


def test_without_a_run_only_rules_are_checked(tmp_path: Path) -> None:
    """A program that computes something else breaks none; one that consumes a stream twice does."""
    path = write(tmp_path, TASK)
    assert check(CheckRequest(path, "return E0", run=False)).verdict.passed
    assert check(CheckRequest(path, "return E0")).verdict.stage == "value"
    twice = "E1 = step.Map(fn=fn).apply(E0)\nE2 = step.Map(fn=fn).apply(E0)\nreturn E2"
    assert check(CheckRequest(path, twice, run=False)).verdict.stage == "affine"
