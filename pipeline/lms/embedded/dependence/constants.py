"""Constant factors: the numbers that values are multiplied or divided by tell operands apart."""

from __future__ import annotations

from pipeline.lms.embedded.dependence.paths import CONSTANT, CONSTANTS

_LARGEST = 1e4
"""Numbers from this size on mask, and their inverses guard."""
_WHOLE = 1e-6
"""The relative distance up to which a number is whole."""


class ConstantFactors:
    """Numbers constant factors in order of appearance, up to a limit.

    A whole number leaves no trace, as a factor or as a divisor: it counts or averages, as calls do without naming it.
    """

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def bits(self, value: object) -> int:
        """The partner that a value is as a factor or as a divisor, as bits; 0 if it leaves no trace."""
        if not isinstance(value, int | float) or not 1 / _LARGEST < abs(value) < _LARGEST:
            return 0
        amount = max(abs(value), 1 / abs(value))
        if abs(amount - round(amount)) < _WHOLE * amount:
            return 0
        place = self._places.setdefault(f"{amount:.5g}", len(self._places))
        return 1 << CONSTANT + place if place < CONSTANTS else 0
