"""Batches give what running a function element by element gives, whatever way is taken; streams are never spoiled.

The way is the fastest that is seen to be right: traced where all that the function uses is known, vmapped where it
is not, single where the function branches on data or has side effects.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import sympy
import torch

from step_runtime.base.errors import RunError
from step_runtime.base.types import Buffer, components_of, layout
from step_runtime.execution.applier import Applier
from step_runtime.execution.deadline import Deadline
from step_runtime.language.parser import evaluate, read
from step_runtime.program.limits import Limits
from step_runtime.tasks.reader import loads_task, task_name
from step_runtime.tasks.task import Task
from step_runtime.verification.check import infer_types
from step_runtime.verification.instance import instances
from step_runtime.verification.simulate import simulate
from tests.support.element_functions import DATA, FOLDED, IN_STEPS, SETTINGS, SIZES, TRACED, F, Given, drawn, same
from tests.support.per_element import PerElement


@pytest.mark.parametrize("name", TRACED)
def test_no_element_gives_no_element(name: str) -> None:
    """A batch without elements has the declared layout, before and after a trial."""
    fn, applier = TRACED[name], Applier(torch.float64)
    for shape in ((0,), (3, 0), (2,), (0, 2)):
        found = applier.map(fn, drawn(fn.input, shape), len(shape), SIZES)
        expected = [(*shape, *[int(dim) for dim in layout(part)]) for part in components_of(fn.output)]
        assert [tuple(part.shape) for part in found] == expected


@pytest.mark.parametrize("name", FOLDED)
def test_a_fold_of_nothing_is_the_initial_state(name: str) -> None:
    """Folds without steps give their initial state; without folds there is no result."""
    fn, applier = FOLDED[name], Applier(torch.float64)
    for shape in ((3, 0), (0, 3), (2, 2), (3, 0)):
        found = applier.fold(fn, drawn(fn.input, shape), 2, 1, SIZES, scan=False)
        if shape[1] == 0:
            same(found, [part.expand(shape[0], *part.shape) for part in fn.getInit()])
        assert found[0].shape[0] == shape[0]
        assert applier.fold(fn, drawn(fn.input, shape), 2, 1, SIZES, scan=True)[0].shape[:2] == shape


def test_one_function_at_several_sizes() -> None:
    """A result's layout that only the sizes tell is not that of an earlier trial."""
    dim = sympy.Symbol("D")
    applier = Applier(torch.float64)
    fill = Given(lambda i: [i[0].expand(int(SETTINGS["D"]))], F, Buffer(F, [dim]))
    total = Given(lambda s, i: [s[0] + i[0]], F, Buffer(F, [dim]), [1])
    total.getInit = lambda: [torch.ones(int(SETTINGS["D"]))]  # type: ignore[method-assign]
    for size in (3, 5, 3):
        SETTINGS["D"] = size
        for fn in (fill, total):
            data = (torch.arange(6.0).reshape(2, 3),)
            if fn is fill:
                found = applier.map(fn, data, 2, {"D": size})
                same(tuple(found), [data[0].unsqueeze(-1).expand(2, 3, size)])
            else:
                found = applier.fold(fn, data, 2, 1, {"D": size}, scan=False)
                same(tuple(found), [(data[0].sum(1, keepdim=True) + 1).expand(2, size)])


@pytest.mark.parametrize("body", [IN_STEPS["square"].body, lambda s, i: [s[0] + i[0].item()]], ids=["steps", "single"])
def test_the_time_limit_is_held_between_steps(body: Callable[..., Sequence[Any]]) -> None:
    """A fold of many steps ends soon after its time is up."""
    applier = Applier(torch.float64)
    fn = Given(body, F, F, [0])
    applier.fold(fn, (torch.zeros(1, 70),), 2, 1, SIZES, scan=False)
    applier.deadline = Deadline.after(0.05)
    start = time.process_time()
    with pytest.raises(RunError, match="time-limit"):
        applier.fold(fn, (torch.zeros(1, 1_000_000),), 2, 1, SIZES, scan=False)
    assert time.process_time() - start < 2


def _tasks() -> list[Task]:
    paths = sorted((DATA / "tasks").glob("*/*.yaml"))
    return [loads_task(path.read_text(encoding="utf-8"), task_name(path)) for path in paths]


@pytest.mark.parametrize("task", _tasks(), ids=lambda task: task.name)
def test_every_oracle_gives_what_loops_give_and_all_its_functions_are_traced(task: Task) -> None:
    """The simulator against per-element loops, at the second draw, where nothing is in trial any more."""
    instance = instances(task)[0]
    text = (DATA / "oracles" / f"{task.name}.step").read_text(encoding="utf-8")
    program, _ = evaluate(read(text, Limits()), instance.scope, Limits())
    types, _ = infer_types(program, instance.scope)
    applier, loops = Applier(torch.float64), PerElement()
    for seed in (0, 1):
        inputs = instance.sample_inputs(seed)
        found = simulate(program, types, inputs, instance.sizes, applier)
    expected = loops.simulate(program, types, inputs, instance.sizes)
    for one, other in zip(found, expected, strict=True):
        same(one, other)
    assert {type(found[0]).__name__ for found in applier._modes.values()} == {"Traced"}
