"""A program judged: findings have the place that a person can open, and a lost cell costs a verdict, and no other."""

import contextlib
import io
import json
import subprocess
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import dspy
import pytest

from pipeline import verify
from pipeline.base.errors import run_command
from pipeline.languages import registry
from pipeline.verification.isolation import answers, warden
from pipeline.verification.judge import LOST_BEFORE, Request, judge, scopes, verdict_in, verdict_of
from pipeline.verification.limits import ProgramLimits, checking_pool, verification_pool
from pipeline.verification.metric import Metric
from pipeline.verification.pool import LossCode, WorkerLost, WorkerPool
from step_runtime import verify as verified
from step_runtime.base.errors import STAGES, TaskError
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import static_scope
from step_runtime.verification.verdict import Verdict
from tests.support.languages import COUNTER, install, install_counter
from tests.support.paths import PROJECT
from tests.support.processes import LIMIT
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
    request = Request(path=write(tmp_path, TASK), text=WRONG, program="wrong.step")
    found = verdict_of(request, pool.submit(judge, request))
    (finding,) = found.diagnostics
    assert finding.span and (found.program, finding.span.line, finding.span.column) == ("wrong.step", 1, 18)
    assert found.feedback.startswith("wrong.step:1:18: ") and found.task == "double"


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
    found = judge(Request(path=path))
    finding = found.diagnostics[0]
    assert finding.span and (found.program, finding.span.line, finding.span.column) == (path, line, column)
    assert found.feedback.startswith(f"{path}:{line}:{column}: ")
    assert (column == 1) == any("of `impl`" in detail for detail in finding.details)


def test_a_file_that_can_not_be_used_is_not_a_verdict(tmp_path: Path) -> None:
    """A wrong task, code that fails, and a task without a program."""
    for text, message in [
        (TASK.replace("fp32", "fp31", 1), "double.yaml:2: inputs[0].dtype: unknown dtype"),
        (TASK + "global: 1 / 0\n", "double.yaml:5: global: "),
        (TASK, "this task has no `impl`"),
    ]:
        verdict = judge(Request(path=write(tmp_path, text)))
        assert not verdict.passed and verdict.stage is None and not verdict.diagnostics
        assert verdict.error is not None and message in verdict.error


def test_warnings_have_code_and_line(tmp_path: Path) -> None:
    """And leave the verdict alone."""
    path = write(tmp_path, TASK.replace('* 2"]', '* 0"]'))
    verdict = judge(Request(path=path, text=RIGHT))
    assert {line.partition(": output")[0] for line in verdict.warned()} == {f"{path}:4:1: warning: constant-output"}


def test_limits_are_those_of_the_request(tmp_path: Path) -> None:
    """A program beyond one fails; so does none by default."""
    path = write(tmp_path, TASK)
    assert judge(Request(path=path, text=RIGHT)).passed
    assert judge(Request(path=path, text=RIGHT, limits=ProgramLimits(limit_bytes=1))).stage == "limits"


def test_what_a_call_wrote_over_its_note_is_not_a_note() -> None:
    assert warden.read_note(b"\xff" * warden.NOTE_BYTES) == ("", 0.0, 0.0)


def lost(request: Request, at: str, code: LossCode = "time-limit") -> Verdict:
    error = WorkerLost(code, "took too long")
    error.at, error.seconds, error.spent = at, 1.5, 20.0
    future: Future[Verdict] = Future()
    future.set_exception(error)
    return verdict_of(request, future)


def test_a_lost_worker_is_the_tasks_fault_or_a_verdict(tmp_path: Path) -> None:
    """Depending on what it had come to."""
    request = Request(path=write(tmp_path, TASK + "global: x = 1\n"), text=RIGHT, program="p.step")
    loading = lost(request, "loading double.yaml \tglobal at M=5")
    assert loading.error and "double.yaml:5: global: its code took too long at M=5" in loading.error
    running = lost(request, "abc set 0\tstep.Map(fn=fn)")
    assert running.stage == "run" and running.diagnostics[0].details == (
        "it had come to step.Map(fn=fn), 1.5 s before, after 18.5 s",
    )
    assert running.feedback.startswith("p.step: time-limit: verification took too long\n  it had come to")
    assert (loading.seconds, running.seconds) == (20.0, 20.0)


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
    request = Request(path=write(tmp_path, TASK), text=RIGHT, program="p.step")
    [found] = lost(request, at, code).diagnostics
    assert [word.rstrip(";") for word in (found.hint or "").split() if word.startswith("--")] == advised


def test_without_a_run_only_rules_are_checked(tmp_path: Path) -> None:
    """A program that computes something else breaks none; one that consumes a stream twice does."""
    path = write(tmp_path, TASK)
    assert judge(Request(path=path, text="return E0", run=False)).passed
    assert judge(Request(path=path, text="return E0")).stage == "value"
    twice = "E1 = step.Map(fn=fn).apply(E0)\nE2 = step.Map(fn=fn).apply(E0)\nreturn E2"
    assert judge(Request(path=path, text=twice, run=False)).stage == "affine"


PICKY = """
global: |
  E_value = 3
  both = [fn_neg, fn_picky]
inputs: [{name: E0, dtype: fp32, dims: [M], data_gen: torch.ones}]
fns:
- {name: Neg, apply: "return [-input[0]]", input_dtype: fp32, output_dtype: fp32, func_name: fn_neg}
- name: Picky
  apply: |
    BAD
    return [input[0] * 2]
  input_dtype: fp32
  output_dtype: fp32
  func_name: fn_picky
outputs: [{name: S0, dtype: fp32, dims: [M], data_transform: ["input_data['E0'] * -2"]}]
"""
HANGING = PICKY.replace("BAD", "while input[0] > 0: pass")
ON_INPUT = "return step.Map(fn=fn_picky).apply(E0)"
THE_SAME = "A, B = step.Copy().apply(E0)\nC = step.Map(fn=fn_neg).apply(A)\nreturn step.Map(fn=fn_picky).apply(B)"
ON_OTHERS = "return step.Map(fn=fn_picky).apply(step.Map(fn=fn_neg).apply(E0))"


@pytest.fixture
def limited(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerPool]:
    monkeypatch.setattr("pipeline.verification.pool.PATIENCE", 100)  # the machine may be busy
    with verification_pool(1, seconds=LIMIT, memory=2**29) as pool:
        yield pool


def verdict(pool: WorkerPool, content: str, text: str) -> Verdict:
    request = Request(task="picky", statement=content, text=text)
    return verdict_in(STAGES, request, pool.submit(judge, request))


def codes(found: Verdict) -> list[str]:
    return [diagnostic.code for diagnostic in found.diagnostics]


def test_what_one_program_was_lost_at_is_not_run_again(limited: WorkerPool) -> None:
    """Neither alone nor with more around it.

    Other input passes, and so does another task of the same names.
    """
    first = verdict(limited, HANGING, ON_INPUT)
    assert codes(first) == ["time-limit"]
    assert first.diagnostics[0].details[0].startswith("it had come to step.Map(fn=fn_picky), ")
    for text in (ON_INPUT, THE_SAME):
        again = verdict(limited, HANGING, text)
        assert (again.stage, codes(again)) == ("run", [LOST_BEFORE])
        assert f"took longer than {LIMIT} s" in again.feedback
        span = again.diagnostics[0].span
        assert span is not None and span.line == text.count("\n") + 1
    assert verdict(limited, HANGING, ON_OTHERS).passed
    assert verdict(limited, HANGING, "return E9").stage == "parse"
    assert codes(verdict(limited, PICKY.replace("BAD", ""), ON_INPUT)) == ["value"]


@pytest.mark.parametrize("bad", ["import os; os._exit(3)", "x = [bytes(2**26) for _ in iter(int, 1)]"])
def test_a_crash_is_not_repeated_either(limited: WorkerPool, bad: str) -> None:
    """Once two workers were lost at one place."""
    content = PICKY.replace("BAD", bad)
    assert codes(verdict(limited, content, ON_INPUT))[0] in ("crashed", "memory-limit")
    assert codes(verdict(limited, content, THE_SAME)) == [LOST_BEFORE]


@pytest.mark.parametrize(
    "content",
    [HANGING.replace("E_value = 3", "while True: pass"), PICKY.replace('["input', '["while True: pass\\n1", "input')],
)
def test_a_global_or_reference_that_hangs_is_run_once(limited: WorkerPool, content: str) -> None:
    """No program can do anything about it."""
    content = content.replace("BAD", "").replace("""", "input_data['E0'] * -2"]""", '"]')
    assert codes(verdict(limited, content, ON_INPUT)) == ["time-limit"]
    assert codes(verdict(limited, content, ON_OTHERS)) == [LOST_BEFORE]


def test_scopes_come_without_the_author_s_code(limited: WorkerPool) -> None:
    """The names, types, sizes and lists that `global` leaves, from a worker."""
    content = PICKY.replace("BAD", "")
    task = loads_task(content)
    found = limited.submit(scopes, "picky", content).result()
    assert [scope.sizes["E"] for scope in found] == [3, 3, 3]
    assert [fn.label for fn in found[0].lists["both"]] == ["fn_neg", "fn_picky"]
    assert found[0].inputs == static_scope(task).inputs
    assert repr(found[0].fns) == repr(static_scope(task).fns)
    assert verified(task, ON_OTHERS).passed


@pytest.mark.parametrize("error", [WorkerLost("crashed", "ended"), WorkerLost("killed", "ended"), TaskError("bad")])
def test_a_verdict_that_is_asked_for_often_keeps_no_frames(error: Exception) -> None:
    """Else all that thousands of samples of one program had in their hands would stay in memory."""
    future: Future[Verdict] = Future()
    future.set_exception(error)
    for _ in range(3):
        with contextlib.suppress(WorkerLost, TaskError):
            assert verdict_in(STAGES, Request(), future).diagnostics[0].code == "crashed"
    frames = [*traceback.walk_tb(error.__traceback__)]
    assert len(frames) <= 3


FIRST_VERDICT = """
import sys
from pipeline.verification.judge import Request, judge, verdict_of
from pipeline.verification.limits import verification_pool
from pipeline.verification.isolation import warden
from pipeline.verification.isolation import answers

if __name__ == "__main__":
    known = {{*sys.modules}}
    answers.read({answer!r})
    print({{*sys.modules}} - known)
    with verification_pool(1) as pool:
        request = Request(task="picky", statement={content!r}, text="return E0")
        print(verdict_of(request, pool.submit(judge, request)).stage)
"""


def test_a_script_that_imports_nothing_else_gets_its_first_verdict() -> None:
    """What reading a verdict takes is imported with the worker's module, as the pool's threads read it."""
    answer = answers.returned(judge(Request(task="picky", statement=PICKY, text="return E9")))
    command = [sys.executable, "-c", FIRST_VERDICT.format(content=PICKY, answer=answer)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["set()", "value"]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    registry.find.cache_clear()
    return install_counter(tmp_path, monkeypatch)


def test_verdicts_are_reached_in_workers_and_shared_by_key(data: Path) -> None:
    """A crash and a fault of the language say nothing of a program; programs of one key share a pass."""
    language = registry.find("counter")
    task = language.task((data / "tasks/two.yaml").read_text(), "two", "two.yaml")
    with verification_pool(1, seconds=5, language="counter") as pool:
        metric = Metric(pool, language=language)

        def judged(text: str) -> tuple[object, ...]:
            reward = metric(dspy.Example(task=task), dspy.Prediction(impl=text))
            return reward.score, reward.stage, reward.codes, bool(reward.get("unscored"))

        assert judged("up\nup") == (1.0, None, [], False)
        assert judged("up\ndown\nup\nup") == (1.0, None, [], False)
        assert judged("up") == (0.0, "value", ["value"], False)
        assert judged("upward") == (0.0, "parse", ["word"], False)
        assert judged("crash") == (0.0, "run", ["crashed"], True)
        assert judged("fail") == (0.0, "run", ["internal"], True)
        assert metric.findings(task, "up\nup") == ()
        assert metric.verdict(task, "up\ndown\nup\nup").passed


def run(*argv: str) -> int:
    return run_command(verify.NAME, verify.main, [*argv, "--language", "counter"])


def test_the_command_verifies_by_names_of_the_languages_own_tasks(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A task's own solution, and a program from standard input with its place."""
    assert run("deep/minus") == 0
    assert capsys.readouterr().out == "deep/minus: passed\n"
    monkeypatch.setattr("sys.stdin", io.StringIO("up\nleft\n"))
    assert run("two", "-") == 1
    out = capsys.readouterr().out
    assert out == "two:2:1: word: expected up or down, found 'left'\n  left\n  ^^^^\n"
    assert run(str(data / "tasks"), "--json") == 2  # one of them has no program
    found = json.loads(capsys.readouterr().out)
    assert [each["passed"] for each in found["programs"]] == [True, False]


def test_what_the_language_does_not_offer_is_refused(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With its name and exit code 2, and so is a task that it can't read."""
    for option in ("--explain", "--values", "--exact"):
        assert run("deep/minus", option) == 2
        assert f"{option}: the language `counter` does not offer this" in capsys.readouterr().err
    (data / "tasks/bad.yaml").write_text("goal: bad\nwant: two\n")
    assert run("bad") == 2
    assert "bad.yaml:2: want: expected int, found 'two'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "options", "code", "said"),
    [
        ("hang", ["--limit-seconds", "0.3"], 4, "time-limit: verification took longer than"),
        ("nothing", [], 4, "internal: the language counter failed: TypeError: `judge` gave None, expected a Verdict"),
        ("silent", [], 4, "`judge` gave no diagnostic with a failure, expected one or more"),
        ("strings", [], 4, "internal: the language counter failed: ValidationError: "),
        ("crash", [], 4, "hint: `judge` of the language `counter` may be at fault, and not the program"),
        ("nowhere", [], 4, "`judge` gave the stage 'elsewhere', expected one of parse, run, value"),
    ],
)
def test_limits_hold_and_faults_are_said_whatever_the_language_does(
    word: str, options: list[str], code: int, said: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the worker; a fault of the language is an unknown verdict that names the member."""
    program = tmp_path / "p.txt"
    program.write_text(f"{word}\n")
    assert run("two", str(program), *options) == code
    assert said in "".join(capsys.readouterr())


def test_a_language_that_runs_programs_needs_confined_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a sandbox, the command ends with exit code 2, and nothing is judged."""
    registry.find.cache_clear()
    install_counter(tmp_path, monkeypatch)
    running = COUNTER.replace('name = "counter"', 'name = "running"\n    executes = True')
    install(tmp_path, monkeypatch, "running", running)
    task = str(tmp_path / "counter/tasks/deep/minus.yaml")
    monkeypatch.setenv("ADAPTIVE_STEP_SANDBOX", "off")
    assert run_command(verify.NAME, verify.main, [task, "--language", "running"]) == 2
    assert "its programs run as Python, and only where confined: the sandbox is off" in capsys.readouterr().err
    monkeypatch.setenv("ADAPTIVE_STEP_SANDBOX", "auto")
    assert run_command(verify.NAME, verify.main, [task, "--language", "running"]) == 0
