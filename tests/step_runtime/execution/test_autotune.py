"""The fastest mode that is seen to be right is found, and the trial itself is not observable."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from step_runtime.base.functions import Fn
from step_runtime.execution.applier import Applier
from tests.support.element_functions import (
    LITERAL,
    LOG,
    SIZES,
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
