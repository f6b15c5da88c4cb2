"""Constant factors are told apart, except whole numbers and their inverses."""

from __future__ import annotations

from pipeline.lms.embedded.dependence.constants import ConstantFactors
from pipeline.lms.embedded.dependence.paths import CONSTANT, CONSTANTS


def test_a_factor_and_its_inverse_are_one() -> None:
    """Each number has a bit of its own, whatever its sign."""
    found = ConstantFactors()
    assert found.bits(0.9) == found.bits(-1 / 0.9) == 1 << CONSTANT
    assert found.bits(0.99) == 1 << CONSTANT + 1


def test_what_counts_averages_or_masks_leaves_no_trace() -> None:
    """Neither does a value that is not a number."""
    found = ConstantFactors()
    assert not any(map(found.bits, (0, 1, -1.0, 4, 0.25, 1 / 3, 1e9, 1.5e-8, float("inf"), True, None, "0.9")))


def test_numbers_that_are_too_many_leave_no_trace() -> None:
    """Earlier ones keep their bits."""
    found = ConstantFactors()
    bits = [found.bits(place + 1.5) for place in range(CONSTANTS + 2)]
    assert len(set(bits)) == CONSTANTS + 1 and bits[-2:] == [0, 0] and found.bits(1.5) == bits[0]
