"""Folds that are solved for all steps at once.

Invariant: of a component, every state is computed only where it is returned or where another component needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from step_runtime.base.functions import Fn
from step_runtime.base.types import Scalar, STuple
from step_runtime.execution.modes import ElementFunction
from step_runtime.execution.tracing import Captures, Fold, folds, trace

F = Scalar("float")


class _MaxAndSum(Fn):
    """The running maximum, and the sum of each element less the running maximum; or two sums that stand alone."""

    def __init__(self, *, linked: bool) -> None:
        super().__init__("max and sum", F, STuple((F, F)))
        self.linked = linked

    def apply(self, *args: Any) -> Any:
        (top, total), (element,) = args
        if not self.linked:
            return [top + element, total + element * element]
        return [torch.maximum(top, element), total + (element - top)]

    def getInit(self) -> Any:
        return [torch.tensor(0.0), torch.tensor(0.0)]


@pytest.mark.parametrize(
    ("linked", "scan", "expected"),
    [
        (True, False, [True, False]),
        (False, False, [False, False]),
        (True, True, [True, True]),
        (False, True, [True, True]),
    ],
)
def test_every_state_is_computed_only_where_it_is_needed(
    linked: bool, scan: bool, expected: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scan returns every state; an Accum needs those of a component that another one follows."""
    asked: list[bool] = []

    def recording(*args: Any, every: bool) -> Any:
        asked.append(every)
        return solve(*args, every=every)

    solve = folds.solve
    monkeypatch.setattr(folds, "solve", recording)
    fn = _MaxAndSum(linked=linked)
    example = tuple(torch.tensor(0.0) for _ in range(3))
    tape = trace(ElementFunction(fn, 2, {}, None, lambda: None), example, Captures(fn))
    data = torch.tensor([[3.0, 1.0, 4.0, 1.0, 5.0]])
    fold = Fold(tape, 2)
    assert not fold.sums
    found = fold.run([torch.zeros(1), torch.zeros(1)], [data], [], scan=scan, tick=lambda: None)
    assert asked == expected
    last = [part[:, -1] if scan else part for part in found]
    assert [float(part) for part in last] == ([5.0, 3 - 2 + 1 - 3 + 1] if linked else [14.0, 52.0])


class _Written(Fn):
    """The sum of the squares, by a step that writes into its own tensor."""

    def __init__(self) -> None:
        super().__init__("written", F, F)

    def apply(self, *args: Any) -> Any:
        (total,), (element,) = args
        square = element * element
        return [(total * 1).add_(square)]

    def getInit(self) -> Any:
        return [torch.tensor(0.0)]


@pytest.mark.parametrize("scan", [False, True])
def test_a_step_that_writes_into_a_tensor_is_run_as_a_whole(scan: bool) -> None:
    """No part of it is computed for all steps at once."""
    fn = _Written()
    tape = trace(ElementFunction(fn, 1, {}, None, lambda: None), (torch.tensor(0.0), torch.tensor(0.0)), Captures(fn))
    assert not tape.functional and not Fold(tape, 1).sums
    data = torch.arange(1100.0)[None]  # more than are unbound at a time
    (found,) = Fold(tape, 1).run([torch.zeros(1)], [data], [], scan=scan, tick=lambda: None)
    expected = (data * data).cumsum(1)
    assert torch.equal(found, expected if scan else expected[:, -1])


class _Folded(Fn):
    """A sum of what is computed from an element of one component or two."""

    def __init__(self, of: Callable[..., torch.Tensor], components: int) -> None:
        super().__init__("folded", F if components == 1 else STuple((F,) * components), F)
        self.of = of

    def apply(self, *args: Any) -> Any:
        (total,), element = args
        return [total + self.of(*element)]

    def getInit(self) -> Any:
        return [torch.tensor(0.0)]


@pytest.mark.parametrize(
    ("of", "components", "expected"),
    [(lambda a: a, 1, True), (lambda a: a * a, 1, False), (lambda a, b: a, 2, False), (lambda a, b: a * b, 2, False)],
)
def test_a_fold_that_only_sums_its_input_is_known(
    of: Callable[..., torch.Tensor], components: int, expected: bool
) -> None:
    fn = _Folded(of, components)
    example = tuple(torch.tensor(0.0) for _ in range(1 + components))
    tape = trace(ElementFunction(fn, 1, {}, None, lambda: None), example, Captures(fn))
    assert Fold(tape, 1).sums is expected
