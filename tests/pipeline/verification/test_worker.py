"""Judging holds these, where a task's own code costs workers:

- a program that comes to what another one was lost at gets its verdict at once, which says so;
- a program that only uses the same function, on other input, is run;
- such verdicts belong to the machine, and are not kept;
- a script's first verdict needs no import that two threads would do at once.
"""

import contextlib
import subprocess
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from pipeline.verification.isolation import answers
from pipeline.verification.pool import WorkerLost, WorkerPool
from pipeline.verification.worker import LOST_BEFORE, WorkerKilled, judge, scopes, verdict_of, verification_pool
from step_runtime.base.errors import Diagnostic, TaskError
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.scope import static_scope
from step_runtime.verification.verify import Verdict, verify
from tests.support.paths import PROJECT
from tests.support.processes import LIMIT

TASK = """
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
HANGING = TASK.replace("BAD", "while input[0] > 0: pass")
ON_INPUT = "return step.Map(fn=fn_picky).apply(E0)"
THE_SAME = "A, B = step.Copy().apply(E0)\nC = step.Map(fn=fn_neg).apply(A)\nreturn step.Map(fn=fn_picky).apply(B)"
ON_OTHERS = "return step.Map(fn=fn_picky).apply(step.Map(fn=fn_neg).apply(E0))"


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerPool]:
    monkeypatch.setattr("pipeline.verification.pool.PATIENCE", 100)  # the machine may be busy
    with verification_pool(1, seconds=LIMIT, memory=2**29) as pool:
        yield pool


def verdict(pool: WorkerPool, content: str, text: str) -> Verdict:
    return verdict_of(pool.submit(judge, "picky", content, text))


def codes(found: Verdict) -> list[str]:
    return [diagnostic.code for diagnostic in found.diagnostics]


def test_what_one_program_was_lost_at_is_not_run_again(pool: WorkerPool) -> None:
    """Neither alone nor with more around it.

    Other input passes, and so does another task of the same names.
    """
    first = verdict(pool, HANGING, ON_INPUT)
    assert codes(first) == ["time-limit"]
    assert first.diagnostics[0].details == ("it had come to step.Map(fn=fn_picky)",)
    for text in (ON_INPUT, THE_SAME):
        again = verdict(pool, HANGING, text)
        assert (again.stage, codes(again)) == ("run", [LOST_BEFORE])
        assert f"took longer than {LIMIT} s" in again.render(text)
        assert again.diagnostics[0].span is not None
    assert verdict(pool, HANGING, ON_OTHERS).passed
    assert verdict(pool, HANGING, "return E9").stage == "parse"
    assert codes(verdict(pool, TASK.replace("BAD", ""), ON_INPUT)) == ["value"]


@pytest.mark.parametrize("bad", ["import os; os._exit(3)", "x = [bytes(2**26) for _ in iter(int, 1)]"])
def test_a_crash_is_not_repeated_either(pool: WorkerPool, bad: str) -> None:
    """Once two workers were lost at one place."""
    content = TASK.replace("BAD", bad)
    assert codes(verdict(pool, content, ON_INPUT))[0] in ("crashed", "memory-limit")
    assert codes(verdict(pool, content, THE_SAME)) == [LOST_BEFORE]


@pytest.mark.parametrize(
    "content",
    [HANGING.replace("E_value = 3", "while True: pass"), TASK.replace('["input', '["while True: pass\\n1", "input')],
)
def test_a_global_or_reference_that_hangs_is_run_once(pool: WorkerPool, content: str) -> None:
    """No program can do anything about it."""
    content = content.replace("BAD", "").replace("""", "input_data['E0'] * -2"]""", '"]')
    assert codes(verdict(pool, content, ON_INPUT)) == ["time-limit"]
    assert codes(verdict(pool, content, ON_OTHERS)) == [LOST_BEFORE]


def test_scopes_come_without_the_author_s_code(pool: WorkerPool) -> None:
    """The names, types, sizes and lists that `global` leaves, from a worker."""
    content = TASK.replace("BAD", "")
    task = loads_task(content)
    found = pool.submit(scopes, "picky", content).result()
    assert [scope.sizes["E"] for scope in found] == [3, 3, 3]
    assert [fn.label for fn in found[0].lists["both"]] == ["fn_neg", "fn_picky"]
    assert found[0].inputs == static_scope(task).inputs
    assert repr(found[0].fns) == repr(static_scope(task).fns)
    assert verify(task, ON_OTHERS).passed


@pytest.mark.parametrize("error", [WorkerLost("crashed", "ended"), WorkerLost("killed", "ended"), TaskError("bad")])
def test_a_verdict_that_is_asked_for_often_keeps_no_frames(error: Exception) -> None:
    """Else all that thousands of samples of one program had in their hands would stay in memory."""
    future: Future[Verdict] = Future()
    future.set_exception(error)
    for _ in range(3):
        with contextlib.suppress(WorkerKilled, TaskError):
            assert verdict_of(future).diagnostics[0].code == "crashed"
    frames = [*traceback.walk_tb(error.__traceback__)]
    assert len(frames) == (2 if isinstance(error, TaskError) else 0)


FIRST_VERDICT = """
import sys
from pipeline.verification.worker import judge, verdict_of, verification_pool
from pipeline.verification.isolation import answers

if __name__ == "__main__":
    known = {{*sys.modules}}
    answers.read({answer!r})
    print({{*sys.modules}} - known)
    with verification_pool(1) as pool:
        print(verdict_of(pool.submit(judge, "picky", {content!r}, "return E0")).stage)
"""


def test_a_script_that_imports_nothing_else_gets_its_first_verdict() -> None:
    """What reading a verdict takes is imported with the worker's module, as the pool's threads read it."""
    answer = answers.returned(Verdict(False, "run", (Diagnostic("run", "x", "y", None, (), ""),)))
    command = [sys.executable, "-c", FIRST_VERDICT.format(content=TASK, answer=answer)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["set()", "value"]
