"""Sums, products, exponentials, logarithms, roots and powers of exact values, with the laws that they keep."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from step_runtime.verification.exact import facts, residues
from step_runtime.verification.exact.constants import constants
from step_runtime.verification.exact.facts import ABOVE_0, AT_LEAST_0, FINITE, NOT_0, POWER
from step_runtime.verification.exact.residues import CHANNELS, WORLDS, draw, fingerprint, level, moduli, symbols, times
from step_runtime.verification.exact.value import (
    NAN,
    NONE,
    SYMBOL,
    Size,
    Unknown,
    Value,
    aligned,
    broadcast,
    fixed,
    fresh,
    larger,
    number,
    opposite,
    same,
)


def atom(name: str, *operands: Value, dtype: torch.dtype, bits: bool = False) -> Value:
    """The result of an operation that is not followed: for each element a symbol, the same for the same operands."""
    first, *rest = broadcast(*(one.data for one in aligned(*operands)))
    words = fingerprint(first)
    for place, one in enumerate(rest, 1):
        words = residues.mixed(words + fingerprint(one) * (2 * place + 1))
    found = symbols(name, words)
    known = torch.full((1, *found.shape[1:]), NAN, dtype=torch.float64)
    return Value(found, known, dtype, bits, partial=any(one.partial for one in operands))


def settled(found: Value, *operands: Value) -> Value:
    """A result; where its float is infinite it is that, and where no operand depends on data but it is NaN, no number.

    Raises:
        Unknown: Finite floats give an infinite one, which an exact number is not.
    """
    broken = found.broken or any(one.broken for one in operands)
    found = replace(found, endless=any(one.endless for one in operands), broken=broken)
    none, endless = found.known.isnan(), found.known.isinf()
    data = found.data
    if bool(endless.any()):
        given = torch.zeros_like(endless)
        for operand in operands:
            given = given | operand.known.isinf()
        if bool((endless & ~given).any()):
            raise Unknown("a constant beyond the range of float64")
        data = torch.where(endless, constants(torch.where(endless, found.known, 0.0)[0]), data)
    for operand in operands:
        none = none & ~operand.known.isnan()
    if bool(none.any()):
        return replace(found, data=torch.where(none, fresh(data), data), partial=True, broken=True)
    smooth = all(one.smooth for one in operands) and found.smooth
    return replace(found, data=data, smooth=smooth, partial=found.partial or any(one.partial for one in operands))


def infinite(value: Value) -> Tensor:
    """Which numbers are infinite."""
    return value.known.isinf()


def finite(value: Value, where: Tensor | bool = True) -> None:
    """Requires that what may be minus infinity is not, as its opposite and its multiples are no numbers of ours."""
    if value.lower:
        some = value.known.isnan() & where
        facts.require(FINITE, value.data.broadcast_to(-1, *some.shape[1:]), some, torch.zeros_like(some))


def add(one: Value, other: Value, dtype: torch.dtype) -> Value:
    """A sum; an infinite term makes it infinite, as data are finite."""
    one, other = aligned(one, other)
    data = (one.data + other.data - moduli(one.data)) % moduli(one.data)
    known = one.known + other.known
    for own, open_ in ((one, other), (other, one)):
        beside = infinite(own) & open_.known.isnan()
        if open_.broken:
            data = torch.where(beside, fresh(data), data)
        else:
            known = torch.where(beside, own.known, known)
    ranges = None
    if (first := one.bounds) is not None and (second := other.bounds) is not None:
        ranges = first[0] + second[0], first[1] + second[1]
    sign = _added_signs(one, other)
    for own, open_ in ((one, other), (other, one)):
        finite(open_, own.known == torch.inf)
    lower, size = one.lower or other.lower, one.size.plus(other.size)
    partial = lower and bool((one.known == torch.inf).any() | (other.known == torch.inf).any())
    found = Value(data, known, dtype, sign=sign, partial=partial, lower=lower, range=ranges, smooth=True, size=size)
    found = _with_logs(settled(found, one, other), one, other)
    if draw().laws == "leading":
        first_term, second_term = (leads(term).broadcast_to(-1, *data.shape[1:]) for term in (one, other))
        # Constants come last, so that their place does not matter.
        last = ~one.known.isnan() & other.known.isnan() & (second_term[:1] != NONE)
        lead = torch.where((first_term == NONE) | last, second_term, first_term)
        found = replace(found, lead=torch.where(sign == 2, lead, NONE))
    return found


def _added_signs(one: Value, other: Value) -> Tensor:
    first, second = broadcast(one.signs, other.signs)
    found = torch.where((first > 0) & (second > 0), torch.maximum(first, second), torch.zeros_like(first))
    found = torch.where((first < 0) & (second < 0), torch.minimum(first, second), found)
    found = torch.where((one.known == 0).broadcast_to(found.shape), second, found)
    return torch.where((other.known == 0).broadcast_to(found.shape), first, found)


def leads(value: Value) -> Tensor:
    """The first terms of numbers above 0, and their logarithms; `NONE` of others."""
    sign = value.signs
    if value.lead is not None:
        return value.lead
    own = torch.cat((value.data, symbols("log", fingerprint(value.data))))
    one = (value.known == 1).broadcast_to(1, *own.shape[1:])
    own = torch.where(one & (torch.arange(2 * CHANNELS) >= CHANNELS).view(-1, *(1,) * (own.dim() - 1)), 0, own)
    return torch.where((sign == 2).broadcast_to(1, *own.shape[1:]), own, NONE)


def _with_logs(found: Value, *terms: Value) -> Value:
    """A sum whose terms contain logarithms: the logarithm of the product of their exponentials."""
    if all(term.logs is None for term in terms):
        return found
    product, some, size = torch.ones_like(terms[0].data), torch.zeros_like(terms[0].known, dtype=torch.bool), Size()
    for term in terms:
        size = size.times(raised_size(term))
        product = times(product, raised(term))
        some = some | (term.logs[:1] != NONE) if term.logs is not None else some
    return logarithmic(found, product, some & ~infinite(found), size, summed=True)


def logarithmic(found: Value, exponentials: Tensor, some: Tensor, size: Size, *, summed: bool = False) -> Value:
    """The value in some places of which are the logarithms of these numbers, which have this size.

    With `summed`, its residues are sums of logarithms already; they stay unless sums are gathered.
    """
    exponentials, data = broadcast(exponentials, found.data)
    one = some & (level(exponentials) == 1).all(0, keepdim=True)
    zero = some & (level(exponentials) == 0).all(0, keepdim=True)
    own = data if summed and draw().laws != "gathered" else symbols("log", fingerprint(exponentials))
    own = torch.where(one, 0, own)
    own = torch.where(zero, constants(torch.tensor(-torch.inf)).view(-1, *(1,) * (own.dim() - 1)), own)
    known = torch.where(one, 0.0, torch.where(zero, -torch.inf, found.known))
    logs = torch.where(some & ~one & ~zero, exponentials, NONE)
    return replace(found, data=torch.where(some, own, data), known=known, logs=logs, inner=larger(found.inner, size))


def negative(value: Value) -> Value:
    """The opposite."""
    finite(value)
    ranges = None if value.bounds is None else (-value.bounds[1], -value.bounds[0])
    known = 0.0 - value.known
    own = {"sign": -value.signs, "range": ranges, "partial": value.partial or value.lower, "endless": value.endless}
    own |= {"broken": value.broken}
    found = Value(opposite(value.data), known, value.dtype, smooth=value.smooth, size=value.size, **own)  # type: ignore[arg-type]
    if value.logs is not None:
        some = (value.logs[:1] != NONE) & ~infinite(found)
        inverse = residues.inverse(torch.where(some, value.logs, 1))
        found = logarithmic(found, inverse, some, value.inner.inverse(), summed=True)
    if value.extremes is not None:
        prime = draw().moduli[:WORLDS].repeat(len(value.extremes) // WORLDS).view(-1, *(1,) * (value.data.dim() - 1))
        turned = torch.where(value.extremes == NONE, NONE, value.extremes.neg() % prime)
        found = replace(found, extremes=turned, least=not value.least)
    return found


def subtract(one: Value, other: Value, dtype: torch.dtype) -> Value:
    """A difference."""
    return add(one, negative(other), dtype)


def multiply(one: Value, other: Value, dtype: torch.dtype) -> Value:
    """A product; of two roots the root of the product, of a truth value with itself that.

    The product of an infinite number and one that depends on data is no number.
    """
    one, other = aligned(one, other)
    finite(one, other.signs < 2)
    finite(other, one.signs < 2)
    data = times(one.data, other.data)
    # As -1e30 is, what is infinite may be a large constant, of which no times is 0.
    nothing = infinite(one) & (other.known == 0) & (not one.endless)
    nothing = nothing | (infinite(other) & (one.known == 0) & (not other.endless))
    known = torch.where(nothing, 0.0, one.known * other.known)
    nought = (level(data) == 0).all(0, keepdim=True) & ~infinite(one) & ~infinite(other)
    known = torch.where(nought & known.isnan(), 0.0, known)
    open_ = (infinite(one) & other.known.isnan()) | (infinite(other) & one.known.isnan())
    endless = bool(open_.any())
    if endless or one.broken or other.broken:
        none = open_ | (nought if one.broken or other.broken else False)
        data, known = torch.where(none, fresh(data), data), torch.where(none, NAN, known)
    alike = same(one.data, other.data)
    signs = broadcast(one.signs, other.signs)
    sign = torch.minimum(*(each.abs() for each in signs)) * signs[0].sign() * signs[1].sign()
    found = Value(
        data,
        known,
        dtype,
        sign=torch.where(alike, torch.maximum(sign, torch.ones_like(sign)), sign),
        range=_multiplied(one.bounds, other.bounds),
        broken=endless,
        partial=endless
        or bool(nothing.any())
        or any(value.lower and not bool((scale.signs == 2).all()) for value, scale in ((one, other), (other, one))),
        lower=one.lower or other.lower,
        smooth=True,
        size=one.size.times(other.size),
    )
    found = settled(found, one, other)
    if draw().laws == "leading" and (one.lead is not None or other.lead is not None or bool((sign == 2).any())):
        found = replace(found, lead=_multiplied_leads(one, other, sign))
    if one.bits and other.bits:
        found = replace(found, data=torch.where(alike, one.data, found.data), bits=True)
    if one.roots is not None and other.roots is not None:
        found = _of_roots(found, one, other, one.roots, other.roots)
    for whole, value in ((one, other), (other, one)):
        if value.logs is not None:
            found = _multiple(found, whole, value)
    return found


def _multiplied(one: tuple[int, int] | None, other: tuple[int, int] | None) -> tuple[int, int] | None:
    ends = [] if one is None or other is None else [first * second for first in one for second in other]
    return (min(ends), max(ends)) if ends else None


def _multiplied_leads(one: Value, other: Value, sign: Tensor) -> Tensor:
    first, second = broadcast(leads(one), leads(other))
    there = (sign == 2) & (first[:1] != NONE) & (second[:1] != NONE)
    first, second = (torch.where(there, each, 0) for each in (first, second))
    terms = times(first[:CHANNELS], second[:CHANNELS])
    sums = (first[CHANNELS:] + second[CHANNELS:] - moduli(terms)) % moduli(terms)
    return torch.where(there, torch.cat((terms, sums)), NONE)


def _multiple(found: Value, whole: Value, value: Value) -> Value:
    """A product of a small whole number and a logarithm: the logarithm of a power."""
    if value.logs is None or value.logs.dim() != found.data.dim():
        return found
    numbers, logs = whole.known.broadcast_to(found.known.shape), value.logs.broadcast_to(found.data.shape)
    for count in (-4, -3, -2, -1, 1, 2, 3, 4):
        here = (numbers == count) & (logs[:1] != NONE)
        if bool(here.any()):
            base, before = torch.where(here, logs, 1), found.logs
            powers = residues.power(base if count > 0 else residues.inverse(base), abs(count))
            inner = value.inner if count > 0 else value.inner.inverse()
            found = logarithmic(found, powers, here, Size(*(abs(count) * own for own in inner)), summed=True)
            if before is not None and found.logs is not None:
                found = replace(found, logs=torch.where(here, found.logs, before))
    return found


def _of_roots(found: Value, one: Value, other: Value, first: Tensor, second: Tensor) -> Value:
    """A product of roots."""
    both = (first[:1] != NONE) & (second[:1] != NONE)
    equal = both & same(one.data, other.data)
    squares = torch.where(both, times(torch.where(both, first, 0), torch.where(both, second, 0)), NONE)
    data, size = found.data, found.size
    if draw().laws == "gathered":
        data = torch.where(both, symbols("root", fingerprint(squares)), data)
        size = SYMBOL if bool((both & ~equal).all()) else size
    data = torch.where(equal, first, data)
    size = larger(size, one.inner) if bool(equal.any()) else size
    roots = torch.where(equal, NONE, squares)
    return replace(found, data=data, roots=roots, size=size, inner=one.inner.times(other.inner))


def reciprocal(value: Value, dtype: torch.dtype) -> Value:
    """The inverse; of 0 no number.

    Raises:
        Unknown: That of an infinite number.
    """
    if bool(infinite(value).any()):
        raise Unknown("the inverse of an infinite number")
    finite(value)
    zero = (level(value.data) == 0).all(0, keepdim=True)
    open_ = value.known.isnan()
    # That a number is not 0 says the same of its opposite.
    least = torch.minimum(level(value.data), level(opposite(value.data)))
    partial = facts.require(NOT_0, least, open_ & (value.signs.abs() < 2), open_ & (value.signs.abs() == 2)) or bool(
        zero.any()
    )
    data = residues.inverse(value.data)
    if bool(zero.any()):
        data = torch.where(zero, fresh(data), data)
    sign = torch.where(value.signs.abs() == 2, value.signs, torch.zeros_like(value.signs))
    sign = torch.where(value.signs == 1, 2, torch.where(value.signs == -1, -2, sign)).to(torch.int8)
    known = torch.where(zero, NAN, 1 / value.known)
    found = Value(data, known, dtype, sign=sign, partial=partial, smooth=True, size=value.size.inverse())
    found = replace(found, broken=bool(zero.any()))
    found = settled(found, value)
    if draw().laws == "leading" and value.lead is not None:
        there = value.lead[:1] != NONE
        terms = residues.inverse(torch.where(there, value.lead[:CHANNELS], 1))
        lead = torch.cat((terms, opposite(value.lead[CHANNELS:].clamp(min=0))))
        found = replace(found, lead=torch.where(there, lead, NONE))
    if value.roots is not None and draw().laws == "gathered":
        some = value.roots[:1] != NONE
        roots = torch.where(some, residues.inverse(torch.where(some, value.roots, 1)), NONE)
        data = torch.where(some, symbols("root", fingerprint(roots)), found.data)
        size = SYMBOL if bool(some.all()) else found.size
        found = replace(found, data=data, roots=roots, size=size, inner=value.inner.inverse())
    return found


def divide(one: Value, other: Value, dtype: torch.dtype) -> Value:
    """A quotient."""
    return multiply(one, reciprocal(other, dtype), dtype)


def raised(value: Value) -> Tensor:
    """The residues of exponentials: products of sums, those of logarithms what these were of, 0 for minus infinity."""
    upper = residues.exponential(value.data)
    last = symbols("exp", fingerprint(value.data))[-WORLDS:]
    nought = (level(value.data) == 0).all(0, keepdim=True)
    found = torch.cat((upper, torch.where(nought, 1, last)))
    if value.logs is not None:
        found = torch.where(value.logs == NONE, found, value.logs)
    return torch.where(value.known == -torch.inf, 0, found)


def raised_size(value: Value) -> Size:
    """The size of the exponentials.

    Exponents that differ have equal residues with the probability of their difference by the prime below; powers of a
    random base by different exponents are independent numbers, of degree 1 and without a denominator.
    """
    own = Size(value.size.degree + 1, 0.0, value.size.bits + 1, 0.0)
    return own if value.logs is None else larger(own, value.inner)


def exponential(value: Value, dtype: torch.dtype) -> Value:
    """The exponential."""
    one = (level(value.data) == 0).all(0, keepdim=True)
    known = torch.where(one, 1.0, value.known.exp())
    powers = raised(value)
    if value.logs is None and not value.lower:
        facts.set_positive(powers)
    # Where a number may be the logarithm of 0, its exponential may be 0.
    sign = torch.full_like(known, 1 if value.lower else 2)
    sign = torch.where(value.known.eq(-torch.inf), 1, sign)
    found = Value(powers, known, dtype, sign=sign.to(torch.int8), smooth=True, size=raised_size(value))
    if draw().laws == "leading":
        lead = torch.where(sign.eq(2), torch.cat(broadcast(powers, value.data)), NONE)
        found = replace(found, lead=lead)
    return settled(found, value)


def logarithm(value: Value, dtype: torch.dtype, *, required: bool = True) -> Value:
    """The logarithm, of a number that is required to be above 0."""
    zero = (level(value.data) == 0).all(0, keepdim=True)
    known = torch.where(zero, NAN, value.known.log())
    open_ = value.known.isnan()
    open_ = open_ if required else torch.zeros_like(open_)
    partial = facts.require(ABOVE_0, value.data, open_ & (value.signs < 2), open_ & (value.signs == 2))
    partial = partial or bool(zero.any())
    found = Value(torch.zeros_like(value.data), known, dtype, partial=partial, smooth=not partial)
    found = settled(found, value)
    some = ~infinite(value) & ~(value.known < 0)
    if draw().laws == "leading":
        own = leads(value)
        there = own[:1] != NONE
        terms = torch.where(there, own[:CHANNELS], 1)
        rest = symbols("log", fingerprint(times(value.data, residues.inverse(terms))))
        rest = torch.where(same(terms, value.data) & there, 0, rest)
        data = (rest + torch.where(there, own[CHANNELS:], 0) - moduli(rest)) % moduli(rest)
        found = replace(found, data=torch.where(some, data, found.data), size=value.size)
    return logarithmic(found, value.data, some, value.size, summed=draw().laws == "leading")


def root(value: Value, dtype: torch.dtype) -> Value:
    """The square root."""
    known = value.known.sqrt()
    whole = ~known.isnan() & ~infinite(value)
    open_ = value.known.isnan()
    partial = facts.require(AT_LEAST_0, value.data, open_ & (value.signs < 1), open_ & (value.signs >= 1))
    data = symbols("root", fingerprint(value.data))
    if bool(whole.any()):
        data = torch.where(whole, constants(torch.where(whole, known, 0.0)[0]), data)
    sign = torch.where(value.signs == 2, 2, 1).to(torch.int8)
    # Elsewhere the root of a square is a number or its opposite.
    smooth = bool((value.signs == 2).all())
    found = settled(Value(data, known, dtype, sign=sign, partial=partial, smooth=smooth), value)
    roots = torch.where(known.isnan(), value.data, NONE)
    return replace(found, roots=roots, inner=value.size)


def power(value: Value, exponent: Value, dtype: torch.dtype) -> Value:
    """A power: by whole and half exponents of products and roots; of positive numbers the exponential of a multiple.

    Other powers are exponentials too, but may be negative, and have a domain of their own.

    Raises:
        Unknown: A power of what may be infinite.
    """
    count, base = _only(exponent), _only(value)
    if bool(infinite(value).any()) or bool(infinite(exponent).any()):
        raise Unknown("a power of an infinite number, or by one")
    if count is not None and 2 * count == int(2 * count) and abs(count) <= _LARGEST_POWER:
        return _half_power(value, int(2 * count), dtype)
    if (
        exponent.constant() is not None
        and len(_distinct(exponent)) <= 64
        and (exponent.known == exponent.known.round()).all()
    ):
        return _several_powers(value, exponent, dtype)
    if base is not None and _smooth(base):
        upper = residues.exponential(exponent.data, str(int(base)))
        last = symbols(f"power of {base}", fingerprint(exponent.data))[-WORLDS:]
        nought = (level(exponent.data) == 0).all(0, keepdim=True)
        known = base**exponent.known
        data = torch.cat((upper, torch.where(nought, 1, last)))
        sign = torch.full_like(known, 2, dtype=torch.int8)
        size = Size(exponent.size.degree + 1, 0.0, exponent.size.bits + 1, 0.0)
        return settled(Value(data, known, dtype, sign=sign, smooth=True, size=size), exponent)
    if bool((value.signs == 2).all()):
        return exponential(multiply(exponent, logarithm(value, dtype), dtype), dtype)
    log = logarithm(value, dtype, required=False)
    exponents = multiply(exponent, log, dtype)
    known = value.known**exponent.known
    fits = known.isfinite()
    powers = torch.where(fits, constants(torch.where(fits, known, 0.0)[0]), raised(exponents))
    # Where it is defined depends on the base and on the exponent, but for its sign.
    least = replace(exponent.plain(), data=torch.minimum(exponent.data, opposite(exponent.data)))
    nothing = torch.zeros_like(fits)
    facts.require(NOT_0, torch.minimum(level(powers), level(opposite(powers))), nothing, ~fits)
    facts.require(POWER, atom("power", value, least, dtype=dtype).data, ~fits, nothing)
    return Value(powers, torch.where(fits, known, NAN), dtype, partial=True, size=raised_size(exponents))


_LARGEST_POWER = 1 << 20


def _distinct(value: Value) -> list[float]:
    return sorted({*value.known.flatten().tolist()})


def _several_powers(value: Value, exponent: Value, dtype: torch.dtype) -> Value:
    """Powers by whole numbers that depend on no data."""
    value, exponent = aligned(value, exponent)
    found: Value | None = None
    for count in _distinct(exponent):
        own, here = power(value, number(count), dtype), exponent.known == count
        if found is not None:
            data, known, sign = (
                torch.where(here, one, other)
                for one, other in ((own.data, found.data), (own.known, found.known), (own.signs, found.signs))
            )
            partial, size = own.partial or found.partial, larger(own.size, found.size)
            own = replace(own, data=data, known=known, sign=sign, partial=partial, size=size)
        found = own.plain()
    assert found is not None
    return found


def _smooth(base: float) -> bool:
    """Whether a whole number is a square modulo all primes, by its factors."""
    if base != int(base) or not 1 < base < 1 << 40:
        return False
    rest = int(base)
    for factor in (2, 3, 5):
        while rest % factor == 0:
            rest //= factor
    return math.isqrt(rest) ** 2 == rest


def _only(value: Value) -> float | None:
    """The number that all of a tensor's are, if they depend on no data and are finite."""
    floats = value.constant()
    if floats is None or not floats.numel() or not bool((floats == floats.flatten()[0]).all()):
        return None
    found = float(floats.flatten()[0])
    return found if math.isfinite(found) else None


def _half_power(value: Value, twice: int, dtype: torch.dtype) -> Value:
    """A power by half of a whole number, by squares."""
    if not twice:
        ones = replace(fixed(torch.ones(value.shape, dtype=dtype)), partial=value.partial)
        return ones.parts(lambda part: part.expand(part.shape[0], value.batch, *value.shape))
    found = root(value, dtype) if twice % 2 else None
    square = value
    for place, bit in enumerate(reversed(f"{abs(twice) // 2:b}")):
        square = multiply(square, square, dtype) if place else square
        if bit == "1":
            found = square if found is None else multiply(found, square, dtype)
    assert found is not None
    return replace(reciprocal(found, dtype) if twice < 0 else found, dtype=dtype)
