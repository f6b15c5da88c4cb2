"""Solutions are simplified for people, each verified; no objective is given up, and no failure loses a solution."""

from __future__ import annotations

import pytest

from optimizers import Entry, TokenCount
from pipeline.rewriting.simplification import code_lines
from pipeline.running.readable_solutions import readable_solutions
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task
from step_runtime.verification.verify import verify
from tests.support.paths import PROJECT

GEMM = loads_task((PROJECT / "data/tasks/gemm/0.yaml").read_text(), "gemm/0")
LONG = """\
E2 = step.Streamify().apply(step.Bufferize(a=1).apply(E0))
E3 = step.Bufferize(a=1).apply(E1)
E4 = step.Repeat(n=M).apply(E3)
E5 = step.Map(fn=fn_mul).apply((E2, step.Streamify().apply(E4)))
return step.Accum(fn=fn_add, b=1).apply(E5)
"""


def entry(task: Task, impl: str) -> Entry:
    return Entry(str(task.name), {"task": task}, {"impl": impl}, 1, 2, 0.7, 0, 0.7, 0, TokenCount())


def passes(task: Task, text: str) -> bool:
    return verify(task, text).passed


def test_solutions_are_simpler_and_pass() -> None:
    """With the types of streams as comments; the entry holds the answer."""
    solved = entry(GEMM, LONG)
    (text,) = readable_solutions([solved], passes, None, 2).values()
    assert passes(GEMM, text) and code_lines(text) <= code_lines(LONG)
    assert text.count("Bufferize") == 1 and "# fp32" in text
    assert solved.outputs["impl"] == LONG


def test_no_text_costs_more_than_the_answer() -> None:
    """Where a run has an objective: the same graph stays, only its text is another."""
    asked = []

    def fewest_buffers(task: Task, text: str) -> float:
        asked.append(text)
        return -text.count("Bufferize")

    (text,) = readable_solutions([entry(GEMM, LONG)], passes, fewest_buffers, 2).values()
    assert text.count("Bufferize") == LONG.count("Bufferize") and "# fp32" in text
    assert any(shorter.count("Bufferize") == 1 for shorter in asked)


def test_a_solution_that_cannot_be_simplified_stays(caplog: pytest.LogCaptureFixture) -> None:
    """A verifier that fails, and a text that is as simple as can be, keep the answers; others go on."""

    def lost(task: Task, text: str) -> bool:
        if task.name == "lost":
            raise OSError("the worker is lost")
        return passes(task, text)

    found = readable_solutions([entry(GEMM.named("lost"), LONG), entry(GEMM, LONG)], lost, None, 2)
    assert list(found) == ["gemm/0"]
    assert caplog.messages == ["lost: the solution is recorded as it was sampled: the worker is lost"]
    assert readable_solutions([entry(GEMM, found["gemm/0"])], passes, None, 2) == {}
