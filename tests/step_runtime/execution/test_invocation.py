"""What an author's function returns is held to its declaration: components, layouts and kinds, and its time."""

import time
from math import inf
from typing import Any

import pytest
import torch

import step_runtime as step
from step_runtime.execution.deadline import PATIENCE, Deadline
from tests.support.streams import Apply, D, F, K, M, N, Sum, counted

WRONG_RESULTS = [
    (lambda x: [x], "returned 1 component; expected 2"),
    (lambda x: [x, x, x], "returned 3 components; expected 2"),
    (lambda x: x, "returned Tensor"),
    (lambda x: None, "returned NoneType"),
    (lambda x: [x, x], r"component 1 of apply has shape \(\); expected \(2,\)"),
    (lambda x: [torch.zeros(1), torch.zeros(2)], r"component 0 of apply has shape \(1,\); expected \(\)"),
    (lambda x: [x, torch.zeros(1)], r"component 1 of apply has shape \(1,\); expected \(2,\)"),
    (lambda x: [x, "zeros"], "component 1 of apply is a str"),
    (lambda x: [x, torch.zeros(2) / {}["no"]], "raised KeyError"),
]


@pytest.mark.parametrize(("code", "quoted"), WRONG_RESULTS)
def test_what_a_function_returns_is_held_to_its_declaration(code: Any, quoted: str) -> None:
    """Components and layouts are those declared, or the error names function, component and both shapes."""
    fn = Apply(code, F, step.STuple((F, step.Buffer(F, [D]))))
    with pytest.raises(step.TaskCodeError, match=quoted) as caught:
        step.Map(fn=fn).apply(counted(M))
    assert "function Apply" in str(caught.value)


def test_an_initial_state_is_held_to_the_declaration() -> None:
    """`getInit` gives the declared layout, not something that would broadcast to it."""
    fn = Sum("Sum", F, step.Buffer(F, [K]))
    with pytest.raises(step.TaskCodeError, match=r"component 0 of getInit has shape \(2,\); expected \(4,\)"):
        step.Accum(fn=fn, b=1).apply(counted(M, N))


def test_processor_time_that_is_used_up_is_named() -> None:
    """With the limit that was set."""
    deadline = Deadline.after(0.01)
    end = time.thread_time() + 0.02
    while time.thread_time() < end:
        pass
    assert deadline.passed() == "0.01 s of processor time"


def test_time_that_passes_elsewhere_does_not_count() -> None:
    """Until the clock has gone much further."""
    assert Deadline(5.0, time.thread_time() + 5.0, inf, 0.0).passed() is None
    assert Deadline(5.0, inf, time.monotonic() - 1, 0.0).passed() == f"{PATIENCE * 5} s by the clock"
    assert Deadline.at(time.monotonic() + 600).passed() is None
