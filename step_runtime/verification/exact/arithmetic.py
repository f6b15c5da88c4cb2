"""Sums, products, exponentials, logarithms, roots and powers of exact values, with the laws that they keep."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from step_runtime.verification.exact import facts, residues
from step_runtime.verification.exact.constants import constants
from step_runtime.verification.exact.facts import ABOVE_0, AT_LEAST_0, FINITE, NOT_0, POWER
from step_runtime.verification.exact.residues import CHANNELS, WORLDS, draw, fingerprint, level, moduli, symbols, times
from step_runtime.verification.exact.value import (
    ENDLESS,
    NAN,
    NONE,
    SYMBOL,
    Size,
    Unknown,
    Value,
    aligned,
    alike,
    broadcast,
    fixed,
    flags,
    larger,
    opposite,
    picked,
    same,
    unknown_floats,
)


def atom(name: str, *operands: Value, bits: bool = False) -> Value:
    """The result of an operation that is not followed: for each element a symbol, the same for the same operands."""
    operands = tuple(aligned(*operands))
    first, *rest = broadcast(*(one.data for one in operands))
    words = fingerprint(first)
    for place, one in enumerate(rest, 1):
        words = residues.mixed(words + fingerprint(one) * (2 * place + 1))
    found = symbols(name, words)
    partial = any(one.partial for one in operands)
    return Value(found, unknown_floats(found), bits=bits, partial=partial).holding(*operands)


def settled(found: Value, *operands: Value) -> Value:
    """A result, with what its operands give it; infinite ones are their floats.

    Raises:
        Unknown: Finite floats give an infinite one, which an exact number is not, or constants give no number.
    """
    found = found.holding(*operands)
    smooth = found.smooth and all(one.smooth for one in operands)
    partial = found.partial or any(one.partial for one in operands)
    lower = None if found.lower is None else found.lower.expand_as(found.known)
    found = found.but(lower=lower, smooth=smooth, partial=partial)
    if found.varies and any(one.varies for one in operands):
        return found
    known = torch.ones_like(found.open)
    given = torch.zeros_like(known)
    for operand in operands:
        known, given = known & ~operand.open, given | operand.infinite
    if bool((found.open & known).any()):
        raise Unknown("what is no number whatever the data are")
    if bool((found.infinite & ~given).any()):
        raise Unknown("a constant beyond the range of float64")
    if not bool(found.infinite.any()):
        return found
    endless = constants(torch.where(found.infinite, found.known, 0.0)[0])
    return found.but(data=torch.where(found.infinite, endless, found.data))


def no_infinite(what: str, *values: Value) -> None:
    """Refuses infinite constants.

    Raises:
        Unknown: There is one.
    """
    if any(value.endless for value in values):
        raise Unknown(f"an infinite number in {what}")


def finite(value: Value, where: Tensor | bool = True) -> None:
    """Requires that what may be minus infinity is not, as its opposite and its multiples are no numbers of ours."""
    if value.lower is not None:
        some = value.open & value.low & where
        facts.require(FINITE, value.data.broadcast_to(-1, *some.shape[1:]), some, torch.zeros_like(some))


def add(one: Value, other: Value) -> Value:
    """A sum; an infinite term makes it infinite, as data are finite.

    Raises:
        Unknown: Two large constants may cancel.
    """
    one, other = aligned(one, other)
    data = (one.data + other.data - moduli(one.data)) % moduli(one.data)
    known = one.known + other.known
    for own, open_ in ((one, other), (other, one)):
        if not own.endless:
            continue
        known = torch.where(own.infinite & open_.open, own.known, known)
        if open_.lower is not None and bool((own.infinite & own.known.isfinite() & (open_.lower & 2 > 0)).any()):
            raise Unknown("a sum of large constants that data choose")
        finite(open_, own.known >= ENDLESS)
    first, second = one.bounds, other.bounds
    ranges = (first[0] + second[0], first[1] + second[1]) if first and second else None
    lower = flags(one.lower, other.lower)
    partial = lower is not None and any(bool((term.known >= ENDLESS).any()) for term in (one, other))
    found = Value(data, known, sign=_added_signs(one, other), partial=partial, lower=lower, range=ranges, smooth=True)
    found = _with_logs(settled(found.but(size=one.size.plus(other.size)), one, other), one, other)
    if draw().laws == "masked":
        for mask, rest in ((one, other), (other, one)):
            found = _absorbed(found, mask, rest)
    if draw().laws == "leading":
        first_term, second_term = (leads(term).broadcast_to(-1, *data.shape[1:]) for term in (one, other))
        # Constants come last, so that their place does not matter.
        last = ~one.open & other.open & (second_term[:1] != NONE)
        lead = torch.where((first_term == NONE) | last, second_term, first_term)
        found = found.but(lead=torch.where(found.signs == 2, lead, NONE))
    return found


def nought(like: Tensor) -> Tensor:
    """The exponential of minus infinity, and of what stands for it, under the laws `masked`."""
    return symbols("the exponential of minus infinity", torch.zeros(2, *(1,) * (like.dim() - 1), dtype=torch.int64))


def _absorbed(found: Value, mask: Value, rest: Value) -> Value:
    """A sum with a mask of 0 and minus infinity, which takes up what is added to it."""
    if mask.lower is None or mask.logs is None or not bool((mask.lower & 4).any()):
        return found
    zero, modulus = nought(found.data), moduli(found.data)
    held = times((mask.logs.clamp(min=0) - zero) % modulus, residues.inverse((1 - zero) % modulus))
    powers = (zero + times(held, (raised(rest) - zero) % modulus) - modulus) % modulus
    here = (mask.lower & 4 > 0) & (mask.logs[:1] != NONE) & ~found.infinite
    found = logarithmic(found, powers, here, raised_size(mask).times(raised_size(rest)).plus(SYMBOL))
    return found.but(lower=None if found.lower is None else found.lower & 3)


def _added_signs(one: Value, other: Value) -> Tensor | None:
    if one.signless and other.signless:
        return None
    first, second = broadcast(one.signs, other.signs)
    found = torch.where((first > 0) & (second > 0), torch.maximum(first, second), torch.zeros_like(first))
    found = torch.where((first < 0) & (second < 0), torch.minimum(first, second), found)
    found = torch.where((one.known == 0).broadcast_to(found.shape), second, found)
    return torch.where((other.known == 0).broadcast_to(found.shape), first, found)


def leads(value: Value) -> Tensor:
    """The first terms of numbers above 0, and their logarithms; `NONE` of others."""
    if value.lead is not None:
        return value.lead
    logs = torch.where(value.known == 1, 0, symbols("log", fingerprint(value.data)))
    return torch.where(value.signs == 2, torch.cat((value.data, logs)), NONE)


def _with_logs(found: Value, *terms: Value) -> Value:
    """A sum whose terms contain logarithms: the logarithm of the product of their exponentials."""
    if all(term.logs is None for term in terms):
        return found
    product, some, size = torch.ones_like(terms[0].data), torch.zeros_like(terms[0].open), Size()
    for term in terms:
        size = size.times(raised_size(term))
        product = times(product, raised(term))
        some = some | (term.logs[:1] != NONE) if term.logs is not None else some
    return logarithmic(found, product, some & ~found.infinite, size, summed=True)


def logarithmic(found: Value, exponentials: Tensor, some: Tensor, size: Size, *, summed: bool = False) -> Value:
    """The value in some places of which are the logarithms of these numbers, which have this size.

    With `summed`, its residues are sums of logarithms already; they stay unless sums are gathered.
    """
    exponentials, data = broadcast(exponentials, found.data)
    one = some & (level(exponentials) == 1).all(0, keepdim=True)
    zero = some & (level(exponentials) == 0).all(0, keepdim=True)
    own = data if summed and not draw().gathers else symbols("log", fingerprint(exponentials))
    own = torch.where(one, 0, own)
    own = torch.where(zero, constants(torch.tensor(-torch.inf)).view(-1, *(1,) * (own.dim() - 1)), own)
    known = torch.where(one, 0.0, torch.where(zero, -torch.inf, found.known))
    logs = torch.where(some & ~one & ~zero, exponentials, NONE)
    return found.but(data=torch.where(some, own, data), known=known, logs=logs, inner=larger(found.inner, size))


def negative(value: Value) -> Value:
    """The opposite."""
    finite(value)
    ranges = None if value.bounds is None else (-value.bounds[1], -value.bounds[0])
    lower, partial = None if value.lower is None else value.lower & 2, value.partial or bool(value.low.any())
    found = Value(opposite(value.data), 0.0 - value.known, value.dtype, sign=-value.signs, range=ranges)
    found = found.but(lower=lower, partial=partial, smooth=value.smooth, size=value.size, masks=value.masks)
    if value.endless:
        found = settled(found, value)
    if value.logs is not None:
        some = (value.logs[:1] != NONE) & ~found.infinite
        inverse = residues.inverse(torch.where(some, value.logs, 1))
        found = logarithmic(found, inverse, some, value.inner.inverse(value.known.numel()), summed=True)
    if value.extremes is not None:
        prime = draw().moduli[:WORLDS].repeat(len(value.extremes) // WORLDS).view(-1, *(1,) * (value.data.dim() - 1))
        turned = torch.where(value.extremes == NONE, NONE, value.extremes.neg() % prime)
        found = found.but(extremes=turned, least=not value.least)
    return found


def subtract(one: Value, other: Value) -> Value:
    """A difference."""
    return add(one, negative(other))


def multiply(one: Value, other: Value) -> Value:
    """A product; of two roots the root of the product, of a truth value with itself that.

    Raises:
        Unknown: One is infinite, and the other one depends on data.
    """
    one, other = aligned(one, other)
    for unit, value in ((one, other), (other, one)):
        if value.logs is not None and bool((unit.known == 1).all()):
            return alike(value, unit)[0].holding(unit)
    if any(own.endless and bool((own.infinite & rest.open).any()) for own, rest in ((one, other), (other, one))):
        raise Unknown("an infinite number times one that depends on data")
    finite(one, other.signs < 2)
    finite(other, one.signs < 2)
    data = times(one.data, other.data)
    nought = (level(data) == 0).all(0, keepdim=True) & ~one.infinite & ~other.infinite
    known = one.known * other.known
    known = torch.where(nought & known.isnan(), 0.0, known)
    equal = same(one.data, other.data)
    signs = broadcast(one.signs, other.signs)
    sign = torch.minimum(*(each.abs() for each in signs)) * signs[0].sign() * signs[1].sign()
    found = Value(
        data,
        known,
        sign=torch.where(equal, torch.maximum(sign, torch.ones_like(sign)), sign),
        range=product_range(one.bounds, other.bounds),
        partial=any(bool((own.low & (scale.signs < 2)).any()) for own, scale in ((one, other), (other, one))),
        lower=flags(one.lower, other.lower),
        smooth=True,
        size=one.size.times(other.size),
    )
    found = settled(found, one, other)
    if draw().laws == "leading" and (one.lead is not None or other.lead is not None or bool((sign == 2).any())):
        found = found.but(lead=_multiplied_leads(one, other, sign))
    if one.bits and other.bits:
        found = found.but(data=torch.where(equal, one.data, found.data), bits=True)
    if one.roots is not None and other.roots is not None:
        found = _of_roots(found, one, other, one.roots, other.roots)
    return found


def product_range(one: tuple[int, int] | None, other: tuple[int, int] | None, count: int = 1) -> tuple[int, int] | None:
    """What sums of so many products lie between."""
    ends = [] if one is None or other is None else [count * first * second for first in one for second in other]
    return (min(ends), max(ends)) if ends else None


def _multiplied_leads(one: Value, other: Value, sign: Tensor) -> Tensor:
    first, second = broadcast(leads(one), leads(other))
    there = (sign == 2) & (first[:1] != NONE) & (second[:1] != NONE)
    first, second = (torch.where(there, each, 0) for each in (first, second))
    terms = times(first[:CHANNELS], second[:CHANNELS])
    sums = (first[CHANNELS:] + second[CHANNELS:] - moduli(terms)) % moduli(terms)
    return torch.where(there, torch.cat((terms, sums)), NONE)


def _of_roots(found: Value, one: Value, other: Value, first: Tensor, second: Tensor) -> Value:
    """A product of roots."""
    both = (first[:1] != NONE) & (second[:1] != NONE)
    equal = both & same(one.data, other.data)
    squares = torch.where(both, times(torch.where(both, first, 0), torch.where(both, second, 0)), NONE)
    data, size = found.data, found.size
    if draw().gathers:
        data = torch.where(both, symbols("root", fingerprint(squares)), data)
        size = SYMBOL if bool((both & ~equal).all()) else size
    data = torch.where(equal, first, data)
    size = larger(size, one.inner) if bool(equal.any()) else size
    roots = torch.where(equal, NONE, squares)
    return found.but(data=data, roots=roots, size=size, inner=one.inner.times(other.inner))


def reciprocal(value: Value) -> Value:
    """The inverse, of a number that is required not to be 0.

    Raises:
        Unknown: That of an infinite number.
    """
    no_infinite("a quotient", value)
    finite(value)
    value = value.but(known=torch.where(value.known == 0, NAN, value.known))
    # That a number is not 0 says the same of its opposite.
    least = torch.minimum(level(value.data), level(opposite(value.data)))
    above = value.signs.abs() == 2
    partial = facts.require(NOT_0, least, value.open & ~above, value.open & above)
    data = residues.inverse(value.data)
    sign = (2 * value.signs.sign()).to(torch.int8)
    size = value.size.inverse(value.known.numel())
    found = settled(Value(data, 1 / value.known, sign=sign, partial=partial, smooth=True, size=size), value)
    if value.roots is not None and draw().gathers:
        some = value.roots[:1] != NONE
        roots = torch.where(some, residues.inverse(torch.where(some, value.roots, 1)), NONE)
        data = torch.where(some, symbols("root", fingerprint(roots)), found.data)
        size = SYMBOL if bool(some.all()) else found.size
        found = found.but(data=data, roots=roots, size=size, inner=value.inner.inverse(value.known.numel()))
    return found


def raised(value: Value) -> Tensor:
    """The residues of exponentials: products of sums, those of logarithms what these were of, 0 for minus infinity."""
    upper = residues.exponential(value.data)
    last = symbols("exp", fingerprint(value.data))[-WORLDS:]
    found = torch.cat((upper, torch.where(value.zero, 1, last)))
    if value.logs is not None:
        found = torch.where(value.logs == NONE, found, value.logs)
    return torch.where(value.known <= -ENDLESS, 0, found)


def raised_size(value: Value) -> Size:
    """The size of the exponentials.

    Exponents that differ have equal residues with the probability of their difference by the prime below; powers of a
    random base by different exponents count as independent numbers, of degree 1 and without a denominator.
    """
    size = value.size.cleared()
    own = Size(size.degree + 1, size.bits + 1)
    return own if value.logs is None else larger(own, value.inner)


def exponential(value: Value) -> Value:
    """The exponential; where a number may be the logarithm of 0, it may be 0.

    Raises:
        Unknown: That of plus infinity.
    """
    if bool((value.known >= ENDLESS).any()):
        raise Unknown("the exponential of an infinite number")
    known = torch.where(value.zero, 1.0, value.known.exp())
    powers = raised(value)
    sign = torch.where((value.known <= -ENDLESS) | value.low, 1, 2).to(torch.int8)
    found = settled(Value(powers, known, sign=sign, smooth=True, size=raised_size(value)), value)
    if draw().laws == "leading":
        found = found.but(lead=torch.where(sign.eq(2), torch.cat(broadcast(powers, value.data)), NONE))
    return found


def logarithm(value: Value, *, required: bool = True) -> Value:
    """The logarithm, of a number that is required to be above 0.

    Raises:
        Unknown: That of an infinite number, or of a constant below 0.
    """
    no_infinite("a logarithm", value)
    above = value.signs == 2
    need = value.open if required else torch.zeros_like(value.open)
    partial = facts.require(ABOVE_0, value.data, need & ~above, need & above) or bool(value.zero.any())
    known = torch.where(value.zero, 0.0, value.known.log())
    found = settled(Value(torch.zeros_like(value.data), known, partial=partial, smooth=not partial), value)
    if draw().laws == "leading":
        own = leads(value)
        there = own[:1] != NONE
        terms = torch.where(there, own[:CHANNELS], 1)
        rest = symbols("log", fingerprint(times(value.data, residues.inverse(terms))))
        rest = torch.where(same(terms, value.data) & there, 0, rest)
        data = (rest + torch.where(there, own[CHANNELS:], 0) - moduli(rest)) % moduli(rest)
        found = found.but(data=data, size=value.size)
    return logarithmic(found, value.data, torch.ones_like(value.open), value.size, summed=draw().laws == "leading")


def root(value: Value) -> Value:
    """The square root.

    Raises:
        Unknown: That of an infinite number, or of a constant below 0.
    """
    no_infinite("a root", value)
    known = value.known.sqrt()
    partial = facts.require(AT_LEAST_0, value.data, value.open & (value.signs < 1), value.open & (value.signs >= 1))
    data = symbols("root", fingerprint(value.data))
    if not bool(value.open.all()):
        data = torch.where(value.open, data, constants(known.nan_to_num(0.0)[0]))
    sign = torch.where(value.signs == 2, 2, 1).to(torch.int8)
    # Elsewhere the root of a square is a number or its opposite.
    smooth = bool((value.signs == 2).all())
    found = settled(Value(data, known, sign=sign, partial=partial, smooth=smooth), value)
    return found.but(roots=torch.where(value.open, value.data, NONE), inner=value.size)


def power(value: Value, exponent: Value) -> Value:
    """A power: by whole and half exponents of products and roots; of positive numbers the exponential of a multiple.

    Other powers are exponentials too, but may be negative, and have a domain of their own.

    Raises:
        Unknown: A power of what may be infinite.
    """
    no_infinite("a power", value, exponent)
    count = _only(exponent)
    if count is not None and 2 * count == int(2 * count) and abs(count) <= _LARGEST_POWER:
        return _half_power(value, int(2 * count))
    counts = sorted({*exponent.known.flatten().tolist()})
    if len(counts) <= 64 and all(math.isfinite(own) and own == round(own) for own in counts):
        value, exponent = alike(value, exponent)
        found = _half_power(value, 2 * int(counts[0])).plain()
        for own in counts[1:]:
            found = picked(exponent.known == own, _half_power(value, 2 * int(own)).plain(), found).holding(exponent)
        return found
    if bool((value.signs == 2).all()):
        return exponential(multiply(exponent, logarithm(value)))
    value, exponent = aligned(value, exponent)
    base_ = value.but(data=torch.where(value.zero, 1, value.data), known=unknown_floats(value.data))
    exponents = multiply(exponent, logarithm(base_, required=False))
    known = value.known**exponent.known
    open_, nothing = known.isnan(), torch.zeros_like(known, dtype=torch.bool)
    # Where it is defined depends on the base and on the exponent, but for its sign.
    least = exponent.plain().but(data=torch.minimum(exponent.data, opposite(exponent.data)))
    own = torch.where(value.zero, atom("power", value, exponent).data, raised(exponents))
    powers = torch.where(open_, own, constants(known.nan_to_num(0.0)[0]))
    facts.require(NOT_0, torch.minimum(level(powers), level(opposite(powers))), nothing, open_ & ~value.zero)
    facts.require(POWER, atom("power", value, least).data, open_, nothing)
    return settled(Value(powers, known, partial=True, size=raised_size(exponents)), value, exponent)


_LARGEST_POWER = 1 << 20


def _only(value: Value) -> float | None:
    """The number that all of a tensor's are, if they depend on no data."""
    floats = value.constant()
    if floats is None or not floats.numel() or not bool((floats == floats.flatten()[0]).all()):
        return None
    return float(floats.flatten()[0])


def _half_power(value: Value, twice: int) -> Value:
    """A power by half of a whole number, by squares."""
    if not twice:
        ones = fixed(torch.ones(value.shape)).but(bits=False, partial=value.partial)
        return ones.parts(lambda part: part.expand(part.shape[0], value.batch, *value.shape))
    found = root(value) if twice % 2 else None
    square = value
    for place, bit in enumerate(reversed(f"{abs(twice) // 2:b}")):
        square = multiply(square, square) if place else square
        if bit == "1":
            found = square if found is None else multiply(found, square)
    assert found is not None
    return reciprocal(found) if twice < 0 else found
