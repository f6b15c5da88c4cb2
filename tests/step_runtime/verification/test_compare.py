"""When outputs count as equal, and how a difference is told.

Invariants: `assert_close`'s tolerance decides, NaN equals NaN; what is told of two numbers tells them apart.
"""

from __future__ import annotations

import pytest
import torch

from step_runtime.verification.compare import close, difference


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (1.0, 1.0, True),
        (1.0, 1.0 + 1e-8, True),
        (1.0, 1.0 + 1e-6, False),
        (1e-12, 0.0, True),
        (float("nan"), float("nan"), True),
        (float("nan"), 0.0, False),
        (float("inf"), float("inf"), True),
        (float("inf"), float("-inf"), False),
    ],
)
def test_numbers_are_close_within_the_tolerance(one: float, other: float, alike: bool) -> None:
    """In float64, for numbers and for what is none; only what is not close differs."""
    a, b = (torch.tensor([2.0, number], dtype=torch.float64) for number in (one, other))
    assert close(a, b) == alike
    assert (difference(a, b) is None) == alike


@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (1.5, 2.5, "first at [0]: 1.5, expected 2.5"),
        (1.17949012, 1.17949034, "first at [0]: 1.1794901, expected 1.1794903"),
        (2.0**53, 2.0**53 + 2**31, "first at [0]: 9.007199e+15, expected 9.007201e+15"),
        (float("nan"), 1.0, "1 of them NaN or infinite; first at [0]: nan, expected 1"),
    ],
)
def test_two_numbers_are_told_apart(one: float, other: float, told: str) -> None:
    """Six digits are shown, or as many as it takes."""
    found = difference(torch.tensor([one], dtype=torch.float64), torch.tensor([other], dtype=torch.float64))
    assert found is not None and found.endswith(told)


def test_shapes_are_told() -> None:
    """Numbers of other shapes are not compared."""
    assert difference(torch.ones(2), torch.ones(1, 2)) == "has shape (2,), expected (1, 2)"
