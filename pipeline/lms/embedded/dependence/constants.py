"""Constant factors: which number a value is multiplied by, or divided by, tells operands apart."""

from __future__ import annotations

from pipeline.lms.embedded.dependence.paths import CONSTANT, CONSTANTS

_LARGEST = 1e4
"""A number from this size on masks, or guards."""
_WHOLE = 1e-6


class ConstantFactors:
    """Numbers constant factors in order of appearance. Those that are too many leave no trace.

    Whole numbers leave none, either, as factors or as divisors: these count, or average, which calls do as well.
    """

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def bits(self, value: object) -> int:
        """The partner that a value is where something is multiplied by it, or divided, as bits."""
        if not isinstance(value, int | float) or not 1 / _LARGEST < abs(value) < _LARGEST:
            return 0
        amount = max(abs(value), 1 / abs(value))
        if abs(amount - round(amount)) < _WHOLE * amount:
            return 0
        place = self._places.setdefault(f"{amount:.5g}", len(self._places))
        return 1 << CONSTANT + place if place < CONSTANTS else 0
