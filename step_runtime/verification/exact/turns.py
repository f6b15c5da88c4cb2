"""Numbers modulo constants, as `x - floor(x)` and `remainder` give them: what sines take of angles.

A number that was rounded to a whole one differs from 0 by whole multiples of 1. Sums, and products with constants, say
the same of what they give, so that a number is known to differ from a simpler one by whole multiples of a period.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from step_runtime.verification.exact import residues
from step_runtime.verification.exact.residues import moduli
from step_runtime.verification.exact.value import NONE, Value

_LARGEST = 1 << 20
"""The multiple of a period that is seen to be one, at most."""


def whole(value: Value, some: Tensor) -> Value:
    """A value, some of whose numbers are whole and depend on data."""
    if not bool(some.any()):
        return value
    return replace(
        value,
        turned=torch.where(some, torch.zeros_like(value.data), NONE),
        period=torch.where(some, torch.ones_like(value.data), NONE),
    )


def added(found: Value, one: Value, other: Value) -> Value:
    """A sum of two values of as many dims, with what is known of their periods."""
    if one.shift is not None or other.shift is not None or (residues.laws() == "turning" and _constant(one, other)):
        found = replace(found, shift=(_shift(one) + _shift(other)).broadcast_to(found.known.shape))
    if one.turned is None and other.turned is None:
        return found
    turned = (_base(one) + _base(other)) % moduli(found.data)
    period = _common(one.period, other.period).broadcast_to(found.data.shape)
    return _known(found, torch.where(period == NONE, NONE, turned), period)


def scaled(found: Value, constant: Value, value: Value) -> Value:
    """A product of two values of as many dims, where the first is a constant, with what is known of the second."""
    if value.shift is not None:
        shift = torch.where(constant.known.isfinite(), constant.known * value.shift, 0.0)
        found = replace(found, shift=shift.broadcast_to(found.known.shape))
    if value.turned is None or value.period is None:
        return found
    some = constant.known.isfinite() & (value.period[:1] != NONE)
    if not bool(some.any()):
        return found
    turned, period = (
        torch.where(some, part * constant.data % moduli(part), NONE) for part in (value.turned, value.period)
    )
    return _known(found, turned, period)


def negated(found: Value, value: Value) -> Value:
    """The opposite, with what is known of the value."""
    if value.shift is not None:
        found = replace(found, shift=-value.shift)
    if value.turned is None or value.period is None:
        return found
    modulus = moduli(value.turned)
    return replace(
        found,
        turned=torch.where(value.turned == NONE, NONE, (modulus - value.turned) % modulus),
        period=value.period,
    )


def reduced(value: Value, period: Tensor) -> Value:
    """A value or, where it differs from a simpler one by whole multiples of a period, that one."""
    if value.turned is None or value.period is None:
        return value
    some = _multiple(value.period, period)
    return value.plain(data=torch.where(some, value.turned, value.data), shift=value.shift)


def _known(found: Value, turned: Tensor, period: Tensor) -> Value:
    return found if bool((period == NONE).all()) else replace(found, turned=turned, period=period)


def _base(value: Value) -> Tensor:
    return value.data if value.turned is None else torch.where(value.turned == NONE, value.data, value.turned)


def _common(one: Tensor | None, other: Tensor | None) -> Tensor:
    """The period of a sum: that of a term beside a term without, or that of which the other is a whole multiple."""
    if one is None or other is None:
        found = other if one is None else one
        assert found is not None
        return found
    both = torch.where(_multiple(other, one), one, torch.where(_multiple(one, other), other, NONE))
    return torch.where(one == NONE, other, torch.where(other == NONE, one, both))


def _multiple(number: Tensor, period: Tensor) -> Tensor:
    """Whether constants are whole multiples of others that are not 0, `(1, ...)`: in all residues by one factor."""
    modulus = moduli(number)
    factors = number * residues.inverse(torch.where(period == NONE, 0, period)) % modulus
    opposites = (modulus - factors) % modulus
    some = [(each == each[:1]).all(0, keepdim=True) & (each[:1] <= _LARGEST) for each in (factors, opposites)]
    return (some[0] | some[1]) & (factors[:1] != 0) & (number[:1] != NONE)


def _constant(*values: Value) -> bool:
    """Whether some of the numbers are constants that are not 0."""
    return any(bool((value.known.nan_to_num(0.0) != 0).any()) for value in values)


def _shift(value: Value) -> Tensor:
    known = value.known.nan_to_num(0.0, 0.0, 0.0)
    return known if value.shift is None else torch.where(value.known.isnan(), value.shift, known)
