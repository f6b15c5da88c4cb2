"""Batches give what running a function element by element gives, whatever way is taken; streams are never spoiled.

The way is the fastest that is seen to be right: traced where all that the function uses is known, vmapped where it
is not, single where the function branches on data or has side effects.
"""

import itertools
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import sympy
import torch
from torch import Tensor

from step_runtime.base.errors import RunError, TaskCodeError
from step_runtime.base.functions import Fn
from step_runtime.base.types import Buffer, Scalar, STuple, components_of, layout
from step_runtime.execution.applier import Applier
from step_runtime.execution.deadline import Deadline
from step_runtime.execution.number_formats import element_type, same_numbers
from tests.support.element_functions import (
    FOLDED,
    IN_STEPS,
    LITERAL,
    LOG,
    SETTINGS,
    SIZES,
    TRACED,
    WEIGHTS,
    D,
    F,
    Given,
    V,
    drawn,
    one_by_one,
    same,
    step_by_step,
    way,
)


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


class Step(Given):
    """A fold's step, whose initial state is 0 in the format of its output."""

    def getInit(self) -> Sequence[torch.Tensor]:
        """The first state."""
        return [torch.zeros((), dtype=element_type(part, torch.float64)) for part in components_of(self.output)]


STEPS: dict[str, Callable[..., Sequence[Any]]] = {
    "own": lambda s, x: [s[0] + x[0]],
    "wide": lambda s, x: [s[0].double() + x[0].double()],
    "scaled": lambda s, x: [(s[0].double() * 0.5 + x[0].double() * 3).to(s[0].dtype)],
}


FLOATS, WHOLE = ("fp16", "bf16", "fp8_e4m3", "fp8_e5m2"), ("int8", "int32", "bool")
WAYS = [("own", name) for name in ("fp16", "bf16", *WHOLE)]  # torch adds no fp8
WAYS += [("wide", name) for name in FLOATS]
WAYS += [("scaled", name) for name in (*FLOATS, *WHOLE)]


@pytest.mark.parametrize("scan", [False, True])
@pytest.mark.parametrize(("way", "name"), WAYS)
def test_a_state_is_converted_to_its_format_after_every_element(name: str, way: str, scan: bool) -> None:
    """A fold gives what a loop over its elements gives, whatever its form, at the first call and at later ones."""
    kind = Scalar(name)
    dtype = element_type(kind, torch.float64)
    fn, applier = Step(STEPS[way], kind, kind, [0.0]), Applier(torch.float64)
    for seed in (0, 1):
        generator = torch.Generator().manual_seed(seed)
        data = (torch.randn(3, 70, generator=generator, dtype=torch.float64) * 20).to(dtype)
        (found,) = applier.fold(fn, (data,), 2, 1, SIZES, scan=scan)
        loops = [one_row(STEPS[way], row) for row in data]
        expected = torch.stack([torch.stack(row) for row in loops])
        assert same_numbers(found, expected if scan else expected[:, -1])


def one_row(body: Callable[..., Sequence[Any]], row: torch.Tensor) -> list[torch.Tensor]:
    """The states of a fold of one row, in the row's format."""
    states = [torch.zeros((), dtype=row.dtype)]
    for part in row:
        states.append(body([states[-1]], [part])[0].to(row.dtype))
    return states[1:]


@pytest.mark.parametrize("steps", [3, 70])
def test_a_wide_state_of_narrow_elements_is_not_rounded(steps: int) -> None:
    """Sums of bf16 numbers, of their products with a scale, and decaying ones are exact in an fp32 state."""
    kind = Scalar("bf16")
    data = torch.rand(4, steps, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    applier = Applier(torch.float64)
    wide = data.double()
    for body, expected in (
        (lambda s, x: [s[0] + x[0]], wide.sum(1)),
        (lambda s, x: [s[0] + x[0].double() * x[0].double()], (wide * wide).sum(1)),
        (lambda s, x: [s[0] - x[0] - x[0]], -2 * wide.sum(1)),
    ):
        fn = Given(body, kind, F, [0.0])  # type: ignore[arg-type]
        for _ in range(2):
            (found,) = applier.fold(fn, (data,), 2, 1, SIZES, scan=False)
            assert found.dtype == torch.float64
            torch.testing.assert_close(found, expected, rtol=1e-14, atol=0)


def test_data_is_taken_in_the_formats_of_a_function() -> None:
    """As a search keeps all numbers in one type; a function of bools sees bools."""
    fn = Given(lambda x: [~x[0] & (x[1] == 3)], STuple((Scalar("bool"), Scalar("int8"))), Scalar("bool"))
    (found,) = Applier(torch.float64).map(fn, (torch.tensor([0.0, 1.0, 0.0]), torch.tensor([3.0, 3.0, 2.0])), 1, SIZES)
    assert found.tolist() == [True, False, False]


TWICE = [LITERAL * 2]
ALSO_TWICE = TWICE[0]
COUNTER = itertools.count()
VMAPPED: dict[str, Callable[..., Sequence[Any]]] = {
    "reads a weight into Python": lambda i: [i[0] * WEIGHTS["w"].tolist()[0]],
    "branches on a weight": lambda i: [i[0] if WEIGHTS["w"][0] > 0 else -i[0]],
    "a weight in two places": lambda i: [i[0] * TWICE[0][1] * ALSO_TWICE[1]],
}


@pytest.mark.parametrize("name", VMAPPED)
def test_what_a_trace_does_not_see_is_run_at_every_batch(name: str) -> None:
    """What Python reads of a weight is read again."""
    fn, applier = Given(VMAPPED[name], F, F), Applier(torch.float64)
    data = drawn(F, (6,))
    for sign in (1, -1):
        WEIGHTS["w"] = torch.tensor([2.0 * sign, 1, 1, 1])
        same(tuple(applier.map(fn, data, 1, SIZES)), one_by_one(fn, data, 1))
    assert way(applier) == "Vmapped"


def _counts(element: Sequence[Tensor]) -> list[Tensor]:
    LOG.append(0.0)
    return [element[0] + len(LOG)]


def _counts_globally(element: Sequence[Tensor]) -> list[Tensor]:
    global CALLS  # noqa: PLW0603 - this is what the test is about
    CALLS = CALLS + 1
    return [element[0] + CALLS]


CALLS = 0


class Counting(Given):
    """Keeps count in an attribute."""

    def apply(self, *args: Sequence[Tensor]) -> Sequence[Tensor]:
        self.calls = getattr(self, "calls", 0) + 1
        return [args[-1][0] + self.calls]


def _late(element: Sequence[Tensor]) -> list[Tensor]:
    WEIGHTS["w"].add_(1)
    return [element[0] + WEIGHTS["w"][0]]


SIDE_EFFECTS: dict[str, Callable[[], Fn]] = {
    "list": lambda: Given(_counts, F, F),
    "global": lambda: Given(_counts_globally, F, F),
    "attribute": lambda: Counting(_counts, F, F),
    "iterator": lambda: Given(lambda i: [i[0] + next(COUNTER)], F, F),
    "random": lambda: Given(lambda i: [i[0] + random.random()], F, F),
    "torch.rand": lambda: Given(lambda i: [i[0] + torch.rand(())], F, F),
    "weight in place": lambda: Given(_late, F, F),
}


@pytest.mark.parametrize("name", SIDE_EFFECTS)
def test_side_effects_happen_once_per_element_in_stream_order(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each element sees what its predecessors left, from the first one on."""
    results = []
    for run in (Applier(torch.float64).map, lambda fn, data, dims, _: one_by_one(fn, data, dims)):
        monkeypatch.setitem(globals(), "CALLS", 0)
        monkeypatch.setitem(globals(), "COUNTER", itertools.count())
        LOG.clear()
        WEIGHTS["w"] = torch.zeros(D)
        random.seed(1)
        torch.manual_seed(1)
        results.append(tuple(run(SIDE_EFFECTS[name](), (torch.zeros(3, 4),), 2, SIZES)))
    same(*results)


def test_side_effects_of_a_fold_happen_fold_after_fold() -> None:
    """The order is that of the stream, not step after step of all folds."""
    fn = Given(lambda s, i: [s[0] + _counts(i)[0]], F, F, [0])
    found = Applier(torch.float64).fold(fn, (torch.zeros(3, 4),), 2, 1, SIZES, scan=True)
    LOG.clear()
    same(found, step_by_step(fn, (torch.zeros(3, 4),), 2, 1, scan=True))


def _writes(element: Sequence[Tensor]) -> list[Tensor]:
    element[0].mul_(2)
    return [element[0]]


SINGLE: dict[str, Callable[..., Sequence[Any]]] = {
    "if": lambda i: [i[0] if i[0].sum() > 0 else -i[0]],
    "item": lambda i: [i[0] * i[0][0].item()],
    "python number": lambda i: [i[0] * float(i[0].max())],
    "writes into its input": _writes,
}


@pytest.mark.parametrize("name", SINGLE)
def test_what_no_batch_takes_is_right_and_spoils_no_stream(name: str) -> None:
    """Branches on data, and writes into the input, which no other reader of the stream sees."""
    fn, applier = Given(SINGLE[name], V, V), Applier(torch.float64)
    for _ in range(2):
        data = drawn(V, (3, 5))
        before = data[0].clone()
        found = tuple(applier.map(fn, data, 2, SIZES))
        assert torch.equal(data[0], before)
        same(found, one_by_one(fn, data, 2))
    assert way(applier) == ("Vmapped" if name == "writes into its input" else "Sequential")


TABLE = torch.arange(4.0, dtype=torch.float64)


@pytest.mark.parametrize(
    "fn",
    [
        Given(lambda x: [TABLE[x[0].long()]], F, F),
        Given(lambda s, x: [s[0] + TABLE[x[0].long()]], F, F, [1]),
        Given(lambda s, x: [s[0] * 2 + TABLE[x[0].long()]], F, F, [1]),
    ],
    ids=["map", "sum", "steps"],
)
def test_what_fails_for_some_data_names_the_function_however_it_runs(fn: Given) -> None:
    """A first batch finds the fastest way to run it; an index out of range is the function's failure then, too."""
    applier = Applier(torch.float64)

    def run(data: Tensor) -> torch.Tensor:
        if fn.init:
            return applier.fold(fn, (data,), 2, 1, SIZES, scan=False)[0]
        return next(iter(applier.map(fn, (data,), 2, SIZES)))

    good = torch.arange(20.0, dtype=torch.float64).reshape(2, 10) % 4
    before = [run(good) for _ in range(2)][1]
    with pytest.raises(TaskCodeError, match="function given raised IndexError"):
        run(good + 1)
    assert torch.equal(run(good), before)
