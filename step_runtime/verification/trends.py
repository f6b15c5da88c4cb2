"""How a form of sizes goes on beyond the sizes that are looked at one by one.

Along a line some dims share one size and the others stay, and a form is a polynomial in that size, give or take
another: sums and products keep it exact, a quotient is off by less than 1. From `DENSE` on the form is *settled* if
this leaves it one kind, if it only grows or only falls (bisection finds its kinds then), or if it repeats with a period
that is seen whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, lcm
from operator import add, floordiv, mul, sub
from typing import Any

import numpy as np
import sympy

from step_runtime.base.shapes import Sizes
from step_runtime.base.sized import Form, names_in

DENSE = 2**16
"""Sizes of a dim up to which each is looked at."""
_EXACT = 2**53
"""Whole numbers below it are exact in float64."""
_SIZE = sympy.Symbol("size")
_HALF = sympy.Rational(1, 2)


def values_of(form: Form, sizes: Mapping[str, Any]) -> Any:
    """A form's values at an array of sizes, NaN where it divides by 0; None if they are not exact in float64."""
    if not isinstance(form, tuple):
        return sizes[form] if isinstance(form, str) else form if isinstance(form, int) else None
    operation, *operands = form
    left, right = (values_of(each, sizes) for each in operands)
    if left is None or right is None:
        return None
    left, right = np.broadcast_arrays(np.asarray(left, float), np.asarray(right, float))
    if operation is floordiv:
        right = np.where(right == 0, np.nan, right)
    by_element = {min: np.minimum, max: np.maximum}
    found = by_element[operation](left, right) if operation in by_element else operation(left, right)
    return None if np.any(np.abs(found) >= _EXACT) else found


def is_tangled(form: Form) -> bool:
    """Whether a product or quotient of several dims subtracts: lines through few sets of sizes don't show its kinds."""
    if not isinstance(form, tuple):
        return False
    operation, left, right = form
    several = bool(names_in(left) and names_in(right)) and len(names_in(form)) > 1
    subtracts = operation in (mul, floordiv) and several and (_subtracts(left) or _subtracts(right))
    return subtracts or is_tangled(left) or is_tangled(right)


def _subtracts(form: Form) -> bool:
    if isinstance(form, tuple):
        return form[0] is sub or any(map(_subtracts, form[1:]))
    return isinstance(form, int) and form < 0


@dataclass(frozen=True)
class _Trend:
    """A polynomial in the size that a form equals, give or take one without negative coefficients."""

    centre: sympy.Poly
    radius: sympy.Poly

    @property
    def exact(self) -> bool:
        return bool(self.radius.is_zero)

    def at_least(self, least: int) -> bool:
        return _never_negative(self.centre - self.radius - least)

    def at_most(self, most: int) -> bool:
        return _never_negative(most - self.centre - self.radius)


def is_settled(form: Form, sizes: Sizes, line: Sequence[str], kinds: range) -> bool:
    """Whether all kinds of a form along a line are seen by looking up to `DENSE` and by bisection beyond."""
    trend = _trend(form, sizes, line)
    if trend is None:
        return False
    bounded = trend.centre.degree() < 1 and trend.radius.degree() < 1
    return (
        trend.at_least(kinds[-1])
        or trend.at_most(kinds[0])
        or _monotone(form, sizes, line)
        or (bounded and _period(form) <= DENSE)
    )


def _monotone(form: Form, sizes: Sizes, line: Sequence[str]) -> bool:
    trend = _trend(form, sizes, line)
    if trend is not None and trend.exact:
        slope = trend.centre.diff(_SIZE)
        return _never_negative(slope) or _never_negative(-slope)
    return isinstance(form, tuple) and not names_in(form[2]) & {*line} and _monotone(form[1], sizes, line)


def _trend(form: Form, sizes: Sizes, line: Sequence[str]) -> _Trend | None:
    if not isinstance(form, tuple):
        value = (_SIZE if form in line else sizes[form]) if isinstance(form, str) else form
        return _Trend(_poly(value), _poly(0)) if isinstance(value, int | sympy.Symbol) else None
    operation, *operands = form
    one, other = (_trend(each, sizes, line) for each in operands)
    if one is None or other is None:
        return None
    (p, r), (q, s) = (one.centre, one.radius), (other.centre, other.radius)
    if operation is add:
        return _Trend(p + q, r + s)
    if operation is sub:
        return _Trend(p - q, r + s)
    if operation is mul:
        return _Trend(p * q, _absolute(p) * s + _absolute(q) * r + r * s)
    if operation is floordiv:
        return _quotient(one, other)
    smaller = _Trend(q - p, r + s).at_least(0), _Trend(p - q, r + s).at_least(0)
    if not any(smaller):
        return None
    return one if smaller[0] is (operation is min) or all(smaller) else other


def _quotient(one: _Trend, other: _Trend) -> _Trend | None:
    p, q = one.centre, other.centre
    if not other.exact or q.is_zero:
        return None
    if q.degree() < 1:
        if one.exact and p.degree() < 1:
            return _Trend(_poly(floor(p.eval(0) / q.eval(0))), _poly(0))
        return _Trend(p * (1 / q.eval(0)) - _HALF, one.radius * abs(1 / q.eval(0)) + _HALF)
    if not one.exact or p.degree() > 1 or q.degree() > 1 or not _never_negative(q):
        return None
    # Two lines: their quotient goes from its value here to that of their slopes, without turning back.
    ends = sorted(map(floor, (p.eval(DENSE) / q.eval(DENSE), p.coeff_monomial(_SIZE) / q.coeff_monomial(_SIZE))))
    return _Trend(_poly(sum(ends) * _HALF), _poly((ends[1] - ends[0]) * _HALF))


def _period(form: Form) -> int:
    """Of a bounded form: sizes after which it repeats, or too many to be seen."""
    if not isinstance(form, tuple):
        return 1
    operation, left, right = form
    if operation is floordiv and isinstance(right, int):
        return _period(left) * abs(right)
    return lcm(_period(left), _period(right)) if operation in (add, sub, mul) else DENSE + 1


def _poly(value: Any) -> sympy.Poly:
    return sympy.Poly(value, _SIZE, domain="QQ")


def _absolute(polynomial: sympy.Poly) -> sympy.Poly:
    return sympy.Poly([abs(each) for each in polynomial.all_coeffs()], _SIZE, domain="QQ")


def _never_negative(polynomial: sympy.Poly) -> bool:
    """Whether it is at least 0 from `DENSE` on, since around there no coefficient is negative."""
    return all(each >= 0 for each in polynomial.shift(DENSE).all_coeffs())
