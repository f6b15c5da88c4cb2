"""Truth values of exact numbers: comparisons, and choices by them."""

from __future__ import annotations

import functools
from dataclasses import replace

import torch
from torch import Tensor

from step_runtime.verification.exact import facts
from step_runtime.verification.exact.arithmetic import infinite, logarithmic, multiply, raised, raised_size, subtract
from step_runtime.verification.exact.decisions import signs
from step_runtime.verification.exact.extremes import largest, smallest
from step_runtime.verification.exact.residues import fingerprint, level, moduli, symbols, times
from step_runtime.verification.exact.value import (
    NAN,
    Value,
    aligned,
    common_shape,
    fresh,
    joined,
    opposite,
    same,
    spread,
    united,
)


def invert(value: Value) -> Value:
    """The other truth value."""
    data = (1 - value.data) % moduli(value.data)
    return Value(data, 1 - value.known, torch.bool, bits=True, size=value.size, masks=value.masks)


def both(one: Value, other: Value) -> Value:
    """Whether both hold."""
    return replace(multiply(as_bits(one), as_bits(other), torch.bool), bits=True)


def either(one: Value, other: Value) -> Value:
    """Whether any holds."""
    return invert(both(invert(as_bits(one)), invert(as_bits(other))))


def as_bits(value: Value) -> Value:
    """Whether numbers are not 0."""
    return replace(value, dtype=torch.bool) if value.bits else invert(is_zero(value))


def is_zero(value: Value) -> Value:
    """Whether numbers are 0; the same for opposite ones."""
    if value.bits:
        return invert(value)
    return _decided(_zero(value), value, 0)


def _zero(value: Value) -> Value:
    """Whether numbers are 0, of which none is decided."""
    data = symbols("zero", fingerprint(value.data) + fingerprint(opposite(value.data)))
    nought = (level(value.data) == 0).all(0, keepdim=True) & ~infinite(value)
    certain = nought | ~value.known.isnan()
    data = torch.where(nought, 1, torch.where(certain, 0, data))
    known = torch.where(nought, 1.0, torch.where(certain, 0.0, NAN))
    return Value(data, known, torch.bool, bits=True)


_DECIDED = 1e-12
"""The least size of a float that depends on no data whose sign is that of the exact number."""


def above_zero(value: Value) -> Value:
    """Whether numbers are above 0."""
    return _above(value)


def _above(gap: Value) -> Value:
    """Whether numbers are above others, or 0, by their differences."""
    data = symbols("above", fingerprint(gap.data))
    nought = (level(gap.data) == 0).all(0, keepdim=True) & ~infinite(gap)
    certain = nought | (gap.known.abs() > _DECIDED)
    positive = (gap.known > 0) & ~nought
    data = torch.where(certain, positive.to(data.dtype), data)
    known = torch.where(certain, positive.to(torch.float64), NAN)
    found = Value(data, known, torch.bool, bits=True, gap=gap.data)
    return _decided(found, gap, 1)


def _decided(found: Value, value: Value, sign: int, open_: Tensor | bool = True) -> Value:
    """Whether numbers have a sign, where that is open, and is a decision with a concrete outcome."""
    decided = signs(value.data, found.known.isnan() & open_, value.masks)
    if decided is None:
        return found
    own, there, masks = decided
    bits = (own == sign).to(torch.int64)
    known = torch.where(there, bits.to(torch.float64), found.known)
    masks = masks if value.masks is None else masks | value.masks
    return replace(found, data=torch.where(there, bits, found.data), known=known, gap=None, masks=masks)


def above(one: Value, other: Value) -> Value:
    """Whether the first is larger; of a truth value and a constant, what is left of it."""
    one, other = aligned(one, other)
    if one.bits and (bound := other.constant()) is not None:
        return _bit_above(one, bound.unsqueeze(0))
    if other.bits and (bound := one.constant()) is not None:
        return _bit_below(other, bound.unsqueeze(0))
    return _above(subtract(one, other, torch.float64))


def _bit_above(bit: Value, bound: Tensor) -> Value:
    """Whether a truth value is above a bound."""
    data = torch.where(bound < 0, 1, torch.where(bound < 1, bit.data, 0))
    known = torch.where(bound < 0, 1.0, torch.where(bound < 1, bit.known, 0.0))
    return Value(data, known, torch.bool, bits=True)


def _bit_below(bit: Value, bound: Tensor) -> Value:
    """Whether a truth value is below a bound."""
    other = invert(bit)
    data = torch.where(bound > 1, 1, torch.where(bound > 0, other.data, 0))
    known = torch.where(bound > 1, 1.0, torch.where(bound > 0, other.known, 0.0))
    return Value(data, known, torch.bool, bits=True)


def equal(one: Value, other: Value) -> Value:
    """Whether two are equal."""
    one, other = aligned(one, other)
    for bit, bound in ((one, other), (other, one)):
        if bit.bits and (limit := bound.constant()) is not None:
            limit, turned = limit.unsqueeze(0), invert(bit)
            data = torch.where(limit == 1, bit.data, torch.where(limit == 0, turned.data, 0))
            known = torch.where(limit == 1, bit.known, torch.where(limit == 0, turned.known, 0.0))
            return Value(data, known, torch.bool, bits=True)
    endless = infinite(one) | infinite(other)
    for value, bound in ((one, other), (other, one)):
        if value.lower and (limit := bound.constant()) is not None and bool((limit == -torch.inf).all()):
            exponentials = Value(raised(value), value.known.exp(), torch.float64, size=raised_size(value))
            return is_zero(exponentials)
    gap = subtract(one, other, torch.float64)
    open_ = _zero(gap)
    found = _at_places(open_, one, other)
    found = _decided(found, gap, 0, (found.data == open_.data).all(0, keepdim=True))
    if bool(endless.any()):
        alike = (one.known == other.known).to(torch.float64)
        known = torch.where(endless, alike, found.known)
        data = torch.where(endless, alike.to(torch.int64), found.data)
        found = replace(found, data=data, known=known)
    return found


def _at_places(found: Value, *pair: Value) -> Value:
    """Whether numbers are places; of a place of which the truth values are known, these."""
    for numbers, places in (pair, pair[::-1]):
        kept = facts.places_of(numbers.data) if numbers.dtype == torch.int64 else []
        if places.constant() is None or all(one is None for one in kept):
            continue
        shape = found.data.shape[1:]
        which = torch.arange(len(kept)).reshape(numbers.data.shape[1:]).broadcast_to(shape).reshape(-1).tolist()
        at = places.known[0].broadcast_to(shape).reshape(-1).tolist()
        columns = []
        for spot, (number, place) in enumerate(zip(which, at, strict=True)):
            hot = kept[number]
            own = found.data.flatten(1)[:, spot] if hot is None else torch.zeros(len(found.data), dtype=torch.int64)
            columns.append(hot[:, int(place)] if hot is not None and 0 <= place < hot.shape[1] else own)
        found = replace(found, data=torch.stack(columns, 1).reshape(found.data.shape))
    return found


def choose(test: Value, one: Value, other: Value, dtype: torch.dtype) -> Value:
    """One of two by a truth value: the larger or the lesser one, if the test compares the two."""
    test, one, other = aligned(as_bits(test), one, other)
    shape = common_shape(*(value.data.shape[1:] for value in (test, one, other)))
    one, other = spread(one, shape[0], shape[1:]), spread(other, shape[0], shape[1:])
    held = [spread(value, shape[0], shape[1:]).masks for value in (test, one, other)]
    masks = functools.reduce(of_either, held)
    if test.constant() is not None:
        places = torch.where(spread(test, shape[0], shape[1:]).known == 1, 0, 1)
        pair = joined([one, other], 0, torch.stack)
        return replace(pair.parts(lambda part: _picked(part, places)), dtype=dtype, masks=masks)
    data, known = _mixture(test, one, other)
    size = test.size.times(one.size.plus(other.size))
    open_ = test.known.isnan()
    partial = (
        one.partial or other.partial or bool((open_ & ((one.known == torch.inf) | (other.known == torch.inf))).any())
    )
    lower = one.lower or other.lower or bool((open_ & (infinite(one) | infinite(other))).any())
    bits, ranges = one.bits and other.bits, united(one.bounds, other.bounds)
    both_signs = torch.minimum(one.signs.abs(), other.signs.abs())
    sign = torch.where(one.signs.sign() == other.signs.sign(), both_signs * one.signs.sign(), 0)
    found = Value(
        data, known, dtype, bits, sign=sign, partial=partial, lower=lower, range=ranges, masks=masks, size=size
    )
    found = replace(_masked(found, test, one, other), endless=one.endless or other.endless)
    found = replace(found, broken=found.broken or one.broken or other.broken)
    return found if test.gap is None else _extreme_choice(found, test.gap, one, other)


def of_either(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    """The masks of what depends on both."""
    return other if one is None else one if other is None else one | other


def _picked(part: Tensor, places: Tensor) -> Tensor:
    """The numbers of `(rows, batch, 2, *shape)` at places `(1, batch, *shape)` along the pairs."""
    return part.gather(2, places.unsqueeze(2).expand(part.shape[0], *places.shape[1:2], 1, *places.shape[2:])).squeeze(
        2
    )


def _mixture(test: Value, one: Value, other: Value) -> tuple[Tensor, Tensor]:
    modulus = moduli(test.data)
    gap = (one.data - other.data) % modulus
    data = (other.data + times(test.data, gap) - modulus) % modulus
    equal_ = same(one.data, other.data) & ~infinite(one) & ~infinite(other)
    known = torch.where(test.known == 1, one.known, torch.where(test.known == 0, other.known, NAN))
    known = torch.where(test.known.isnan() & equal_, one.known, known)
    data = torch.where(test.known == 1, one.data, torch.where(test.known == 0, other.data, data))
    return data, known


def _masked(found: Value, test: Value, one: Value, other: Value) -> Value:
    """Where data choose minus infinity: the logarithm of a number that is multiplied by the truth value."""
    open_ = test.known.isnan()
    lower = open_ & ((one.known == -torch.inf) | (other.known == -torch.inf))
    upper = open_ & ((one.known == torch.inf) | (other.known == torch.inf))
    if bool(upper.any()):
        found = replace(found, data=torch.where(upper, fresh(found.data), found.data), broken=True)
    lower = lower & ~upper
    if bool(lower.any()):
        modulus = moduli(found.data)
        mixture = (raised(other) + times(test.data, (raised(one) - raised(other)) % modulus) - modulus) % modulus
        size = test.size.times(raised_size(one).plus(raised_size(other)))
        found = logarithmic(found, mixture, lower.broadcast_to(1, *found.data.shape[1:]), size)
    return found


def _extreme_choice(found: Value, gap: Tensor, one: Value, other: Value) -> Value:
    """Where the test compares what is chosen: an extreme."""
    difference = (one.data - other.data) % moduli(found.data)
    open_ = found.known.isnan()
    larger = same(difference, gap) & open_
    lesser = same(difference, opposite(gap)) & open_
    if bool(larger.any()):
        most = largest(one, other, found.dtype)
        found = replace(found, data=torch.where(larger, most.data, found.data))
        if bool(larger.all()):
            found = replace(found, extremes=most.extremes, least=most.least)
    if bool(lesser.any()):
        least = smallest(one, other, found.dtype)
        found = replace(found, data=torch.where(lesser, least.data, found.data))
        if bool(lesser.all()):
            found = replace(found, extremes=least.extremes, least=least.least)
    return found
