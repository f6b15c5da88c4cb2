"""A fold is split only where its function's own code proves that it may be, whatever numbers come."""

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import pytest
import torch

from step_runtime.base.types import Buffer, DType, Scalar, STuple
from step_runtime.rewriting.associativity import unproved
from tests.support.element_functions import Given

F = Scalar("float")
FF = STuple((F, F))
V = Buffer(F, [4])
BOUND = 1e6

Body = Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor]], Sequence[Any]]


def _larger(s: Sequence[torch.Tensor], x: Sequence[torch.Tensor]) -> Sequence[Any]:
    return [s[0], s[1]] if s[0] >= x[0] else [x[0], x[1]]


def _online(s: Sequence[torch.Tensor], x: Sequence[torch.Tensor]) -> Sequence[Any]:
    most = torch.maximum(s[0], x[0])
    return [most, s[1] * torch.exp(s[0] - most) + x[1] * torch.exp(x[0] - most)]


PROVED: dict[str, tuple[DType, list[float], Body]] = {
    "a sum": (V, [0], lambda s, x: [s[0] + x[0]]),
    "a sum by torch": (F, [0], lambda s, x: [torch.add(s[0], x[0])]),
    "a product": (F, [1], lambda s, x: [s[0].mul(x[0])]),
    "a maximum": (V, [-inf], lambda s, x: [torch.maximum(s[0], x[0])]),
    "a minimum": (F, [inf], lambda s, x: [torch.min(s[0], x[0])]),
    "a maximum by choice": (F, [-inf], lambda s, x: [torch.where(x[0] > s[0], x[0], s[0])]),
    "the largest and its index": (FF, [-inf, 0], _larger),
    "the last that is not 0": (F, [0], lambda s, x: [torch.where(x[0] == 0, s[0], x[0])]),
    "a logarithm of sums": (F, [-inf], lambda s, x: [torch.logaddexp(s[0], x[0])]),
    "an online softmax": (FF, [-inf, 0], _online),
    "a composition of lines": (FF, [1, 0], lambda s, x: [s[0] * x[0], s[1] * x[0] + x[1]]),
    "a sum of probabilities": (F, [0], lambda s, x: [s[0] + x[0] - s[0] * x[0]]),
    "a constant tensor": (F, [0], lambda s, x: [s[0] + x[0] * torch.tensor(1.0)]),
}
LEFT: dict[str, tuple[DType, list[float], Body]] = {
    "one that resets beyond a bound": (F, [0], lambda s, x: [torch.where(s[0] + x[0] > BOUND, 0.0, s[0] + x[0])]),
    "one that resets at an element": (F, [0], lambda s, x: [torch.where(x[0] > BOUND, x[0], s[0] + x[0])]),
    "one that branches": (F, [0], lambda s, x: [s[0] + x[0] if x[0] < BOUND else x[0]]),
    "one that saturates": (F, [0], lambda s, x: [torch.clamp(s[0] + x[0], -BOUND, BOUND)]),
    "one that saturates by a minimum": (F, [0], lambda s, x: [torch.minimum(s[0] + x[0], torch.tensor(BOUND))]),
    "one that is almost a sum": (F, [0], lambda s, x: [s[0] + x[0] + 1e-15 * s[0] * x[0] * (s[0] - x[0])]),
    "one that wraps": (F, [0], lambda s, x: [torch.remainder(s[0] + x[0], BOUND)]),
    "a difference": (F, [0], lambda s, x: [s[0] - x[0]]),
    "a weighted sum": (F, [0], lambda s, x: [0.5 * s[0] + x[0]]),
    "a sum from 1": (F, [1], lambda s, x: [s[0] + x[0]]),
    "a maximum from 0": (F, [0], lambda s, x: [torch.maximum(s[0], x[0])]),
    "one that moves numbers": (V, [-inf], lambda s, x: [torch.maximum(s[0], x[0].flip(0))]),
    "one that looks at all numbers": (V, [0], lambda s, x: [s[0] + x[0] * (x[0].sum() < BOUND)]),
    "a product of matrices": (V, [0], lambda s, x: [s[0] @ x[0]]),
}


def given(kind: DType, start: list[float], body: Body) -> Given:
    return Given(body, kind, kind, start)


@pytest.mark.parametrize("name", PROVED)
def test_what_is_associative_is_proved(name: str) -> None:
    """Arithmetic, choices by order, and several components at once."""
    assert unproved(given(*PROVED[name]), {}) is None


@pytest.mark.parametrize("name", LEFT)
def test_what_is_not_proved_is_left(name: str) -> None:
    """However few numbers tell it from a sum; the reason is a sentence's end."""
    reason = unproved(given(*LEFT[name]), {})
    assert reason is not None and reason.startswith("it")


def test_a_function_that_remembers_is_left() -> None:
    """Its calls are not what they look like; the control adds the same way."""
    calls: list[int] = []

    def counting(s: Sequence[torch.Tensor], x: Sequence[torch.Tensor]) -> Sequence[Any]:
        calls.append(1)
        return [s[0] + x[0]] if len(calls) < 1000 else [x[0]]

    assert unproved(given(F, [0], counting), {}) == "its code may keep something between calls"
    assert unproved(given(F, [0], lambda s, x: [s[0] + x[0]]), {}) is None


def test_integers_keep_their_low_bits() -> None:
    """Sums that leave the format wrap around, which is associative; comparing such sums is not."""
    whole = Scalar("int8")

    class Start(Given):
        def getInit(self) -> Sequence[torch.Tensor]:
            return [torch.tensor(int(self.init[0]), dtype=torch.int8)]

    def reason(body: Body, start: float) -> str | None:
        return unproved(Start(body, whole, whole, [start]), {})

    assert reason(lambda s, x: [s[0] + x[0]], 0) is None
    assert reason(lambda s, x: [torch.maximum(s[0], x[0])], -128) is None
    assert reason(lambda s, x: [torch.maximum(s[0], x[0])], -127) == "its initial state is not a unit"
    assert reason(lambda s, x: [torch.maximum(s[0] + x[0], x[0])], 0) == "its code compares computed values"
