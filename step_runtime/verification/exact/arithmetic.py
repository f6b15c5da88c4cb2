"""Sums, products, exponentials, logarithms, roots and powers of exact values, with the laws that they keep."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from step_runtime.verification.exact import facts, residues
from step_runtime.verification.exact.constants import constants
from step_runtime.verification.exact.residues import WORLDS, fingerprint, level, moduli, symbols
from step_runtime.verification.exact.value import (
    NONE,
    Unknown,
    Value,
    aligned,
    broadcast,
    fixed,
    fresh,
    larger_degree,
    same,
)

NAN = torch.nan


def atom(name: str, *operands: Value, dtype: torch.dtype, bits: bool = False) -> Value:
    """The result of an operation that is not followed: for each element a symbol, the same for the same operands."""
    operands = tuple(aligned(*operands))
    words = fingerprint(broadcast(*(one.data for one in operands))[0])
    if len(operands) > 1:
        data = broadcast(*(one.data for one in operands))
        for number, one in enumerate(data[1:], 1):
            words = residues.mixed(words + fingerprint(one) * (2 * number + 1))
    found = symbols(name, words)
    known = torch.full((1, *found.shape[1:]), NAN, dtype=torch.float64)
    return Value(found, known, dtype, bits)


def number(value: float, dtype: torch.dtype = torch.float64) -> Value:
    """A constant without dims."""
    return fixed(torch.tensor(value, dtype=torch.float64)).plain(dtype=dtype)


Degree = tuple[float, float]


def added_degree(one: Degree, other: Degree) -> Degree:
    """The degree of a sum."""
    if not one[1] and not other[1]:
        return max(one[0], other[0]), 0.0
    return max(one[0] + other[1], other[0] + one[1]), one[1] + other[1]


def times_degree(one: Degree, other: Degree) -> Degree:
    """The degree of a product."""
    return one[0] + other[0], one[1] + other[1]


def settled(data: Tensor, known: Tensor, dtype: torch.dtype, degree: Degree, *operands: Value) -> Value:
    """A result; where its float is infinite it is that, and where no operand depends on data but it is NaN, no number.

    Raises:
        Unknown: Finite floats give an infinite one, which an exact number is not.
    """
    none, infinite = known.isnan(), known.isinf()
    if bool(infinite.any()):
        given = torch.zeros_like(infinite)
        for operand in operands:
            given = given | operand.known.isinf()
        if bool((infinite & ~given).any()):
            raise Unknown("a constant beyond the range of float64")
        data = torch.where(infinite, constants(torch.where(infinite, known, 0.0)[0]), data)
    for operand in operands:
        none = none & ~operand.known.isnan()
    if bool(none.any()):
        data = torch.where(none, fresh(data), data)
    logged, smooth = any(one.logged for one in operands), all(one.smooth for one in operands)
    return Value(data, known, dtype, degree=degree, logged=logged, smooth=smooth)


def infinite(value: Value) -> Tensor:
    """Which numbers are infinite."""
    return value.known.isinf()


def add(one: Value, other: Value, dtype: torch.dtype) -> Value:
    """A sum; an infinite term makes it infinite, as data are finite."""
    one, other = aligned(one, other)
    data = (one.data + other.data) % moduli(one.data)
    known = one.known + other.known
    for own, open_ in ((one, other), (other, one)):
        known = torch.where(infinite(own) & open_.known.isnan(), own.known, known)
    found = settled(data, known, dtype, added_degree(one.degree, other.degree), one, other)
    found = replace(found, floor=one.lowest + other.lowest if math.inf not in (one.lowest, other.lowest) else -math.inf)
    found = _with_logs(found, one, other) if one.logs is not None or other.logs is not None else found
    if residues.laws() == "turning" and (one.shift is not None or other.shift is not None or _constant(one, other)):
        found = replace(found, shift=(_shift(one) + _shift(other)).broadcast_to(found.known.shape))
    return found


def _constant(*terms: Value) -> bool:
    return any(bool((~term.known.isnan() & (term.known != 0)).any()) for term in terms)


def _shift(value: Value) -> Tensor:
    last = torch.zeros_like(value.known) if value.shift is None else value.shift
    return torch.where(value.known.isfinite(), value.known, last)


def _with_logs(found: Value, *terms: Value) -> Value:
    """A sum whose terms contain logarithms: the logarithm of the product of their exponentials."""
    product, some, degree = None, None, (0.0, 0.0)
    if any(_scaled(term) for term in terms):
        return found
    for term in terms:
        own = raised(term)
        has = term.logs[:1] != NONE if term.logs is not None else torch.zeros_like(term.data[:1], dtype=torch.bool)
        degree = times_degree(degree, raised_degree(term))
        product = own if product is None else product * own % moduli(own)
        some = has if some is None else some | has
    if product is None or some is None:
        return found
    return logarithmic(found, product, some & ~infinite(found), degree, summed=True)


def logarithmic(found: Value, exponentials: Tensor, some: Tensor, degree: Degree, *, summed: bool = False) -> Value:
    """The value in some places of which are the logarithms of these numbers, which have this degree.

    With `summed`, its residues are sums of logarithms already; they stay unless sums are gathered.
    """
    exponentials, data = broadcast(exponentials, found.data)
    one = some & (level(exponentials) == 1).all(0, keepdim=True)
    zero = some & (level(exponentials) == 0).all(0, keepdim=True)
    own = data if summed and residues.laws() != "gathered" else _log_residues(exponentials)
    own = torch.where(one, 0, own)
    own = torch.where(zero, constants(torch.tensor(-torch.inf)).view(-1, *(1,) * (own.dim() - 1)), own)
    known = torch.where(one, 0.0, torch.where(zero, -torch.inf, found.known))
    logs = torch.where(some & ~one & ~zero, exponentials, NONE)
    inner = larger_degree(found.inner, degree)
    return replace(found, data=torch.where(some, own, data), known=known, logs=logs, logged=True, inner=inner)


def _log_residues(numbers: Tensor) -> Tensor:
    found = symbols("log", fingerprint(numbers))
    if residues.laws() != "discrete":
        return found
    nought = numbers[:-WORLDS] == 0
    return torch.cat((found[:WORLDS], torch.where(nought, found[WORLDS:], residues.logarithm(numbers))))


def negative(value: Value) -> Value:
    """The opposite."""
    data = (moduli(value.data) - value.data) % moduli(value.data)
    found = Value(data, -value.known, value.dtype, degree=value.degree, logged=value.logged, smooth=value.smooth)
    if value.logs is not None:
        some = (value.logs[:1] != NONE) & ~infinite(found)
        inverse = residues.inverse(torch.where(some, value.logs, 1))
        found = logarithmic(found, inverse, some, value.inner[::-1], summed=True)
    if value.extremes is not None:
        prime = residues.primes()[residues.compared()]
        turned = torch.where(value.extremes == NONE, NONE, (prime - value.extremes) % prime)
        found = replace(found, extremes=turned, least=not value.least)
    return found if value.shift is None else replace(found, shift=-value.shift)


def subtract(one: Value, other: Value, dtype: torch.dtype) -> Value:
    """A difference."""
    return add(one, negative(other), dtype)


def multiply(one: Value, other: Value, dtype: torch.dtype) -> Value:
    """A product; of two roots the root of the product, of a truth value with itself that.

    0 times a constant that stands for infinity is 0. The product of 0 and infinity itself is undefined, so nothing is
    compared there.
    """
    one, other = aligned(one, other)
    data = one.data * other.data % moduli(one.data)
    known = one.known * other.known
    nothing = (infinite(one) & (other.known == 0)) | (infinite(other) & (one.known == 0))
    known = torch.where(nothing, 0.0, known)
    nought = (level(data) == 0).all(0, keepdim=True) & ~infinite(one) & ~infinite(other)
    known = torch.where(nought & known.isnan(), 0.0, known)
    open_ = (infinite(one) & other.known.isnan()) | (infinite(other) & one.known.isnan())
    if bool(open_.any()):
        data, known = torch.where(open_, fresh(data), data), torch.where(open_, NAN, known)
    found = settled(data, known, dtype, times_degree(one.degree, other.degree), one, other)
    if min(one.lowest, other.lowest) >= 0 or bool(same(one.data, other.data).all()):
        found = replace(found, floor=max(0.0, one.lowest) * max(0.0, other.lowest))
    if one.bits and other.bits:
        found = replace(found, data=torch.where(same(one.data, other.data), one.data, found.data), bits=True)
    if one.roots is not None and other.roots is not None:
        found = _of_roots(found, one, other, one.roots, other.roots)
    for whole, value in ((one, other), (other, one)):
        if value.logs is not None:
            found = _multiple(found, whole, value)
        if value.shift is not None:
            shift = torch.where(whole.known.isfinite(), whole.known * value.shift, 0.0)
            found = replace(found, shift=shift.broadcast_to(found.known.shape))
    return found


def _multiple(found: Value, whole: Value, value: Value) -> Value:
    """A product of a small whole number and a logarithm: the logarithm of a power."""
    if value.logs is None or value.logs.dim() != found.data.dim():
        return found
    numbers = whole.known.broadcast_to(found.known.shape)
    logs = value.logs.broadcast_to(found.data.shape)
    for times in (-4, -3, -2, -1, 1, 2, 3, 4):
        here = (numbers == times) & (logs[:1] != NONE)
        if bool(here.any()):
            base, before = torch.where(here, logs, 1), found.logs
            powers = residues.power(base if times > 0 else residues.inverse(base), abs(times))
            top, bottom = value.inner if times > 0 else value.inner[::-1]
            found = logarithmic(found, powers, here, (abs(times) * top, abs(times) * bottom), summed=True)
            if before is not None and found.logs is not None:
                found = replace(found, logs=torch.where(here, found.logs, before))
    return found


def _of_roots(found: Value, one: Value, other: Value, first: Tensor, second: Tensor) -> Value:
    """A product of roots."""
    both = (first[:1] != NONE) & (second[:1] != NONE)
    equal = both & same(one.data, other.data)
    squares = torch.where(both, first * second % moduli(first), NONE)
    data, degree = found.data, found.degree
    if residues.laws() == "gathered":
        data = torch.where(both, symbols("root", fingerprint(squares)), data)
        degree = (1.0, 0.0) if bool((both & ~equal).all()) else degree
    data = torch.where(equal, first, data)
    degree = larger_degree(degree, one.inner) if bool(equal.any()) else degree
    inner = times_degree(one.inner, other.inner)
    return replace(found, data=data, roots=torch.where(equal, NONE, squares), degree=degree, inner=inner)


def reciprocal(value: Value, dtype: torch.dtype) -> Value:
    """The inverse; of 0 no number.

    Raises:
        Unknown: That of an infinite number, or of what stands for it: 0, by which this would no longer be multiplied.
    """
    if bool(infinite(value).any()):
        raise Unknown("the inverse of an infinite number")
    zero = (level(value.data) == 0).all(0, keepdim=True)
    known = torch.where(zero, NAN, 1 / value.known)
    data = residues.inverse(value.data)
    if bool(zero.any()):
        data = torch.where(zero, fresh(data), data)
    found = settled(data, known, dtype, (value.degree[1], value.degree[0]), value)
    found = replace(found, floor=0.0 if value.lowest > 0 else -math.inf)
    if value.roots is not None and residues.laws() == "gathered":
        some = value.roots[:1] != NONE
        roots = torch.where(some, residues.inverse(value.roots), NONE)
        data = torch.where(some, symbols("root", fingerprint(roots)), found.data)
        degree = (1.0, 0.0) if bool(some.all()) else found.degree
        found = replace(found, data=data, roots=roots, degree=degree, inner=value.inner[::-1])
    return found


def divide(one: Value, other: Value, dtype: torch.dtype) -> Value:
    """A quotient."""
    return multiply(one, reciprocal(other, dtype), dtype)


def raised(value: Value) -> Tensor:
    """The residues of exponentials: products of sums, those of logarithms what these were of, 0 for minus infinity.

    A multiple of a discrete logarithm may be that of an opposite. Its exponential has a base of its own, so that it is
    never the number or its opposite, and products of such exponentials are those of sums.
    """
    base = "scaled" if _scaled(value) else "e"
    upper = residues.exponential(value.data, base)
    last = symbols(f"exp {base}", fingerprint(value.data))[WORLDS * (residues.LEVELS - 1) :]
    nought = (level(value.data) == 0).all(0, keepdim=True)
    found = torch.cat((upper, torch.where(nought, 1, last)))
    if value.logs is not None:
        found = torch.where(value.logs == NONE, found, value.logs)
    return torch.where(value.known == -torch.inf, 0, found)


def raised_degree(value: Value) -> Degree:
    """The degree of the exponentials."""
    return larger_degree((sum(value.degree) + 1, 0.0), value.inner if value.logs is not None else (0.0, 0.0))


def _scaled(value: Value) -> bool:
    """Whether some numbers may have multiples of discrete logarithms, which are those of opposites too."""
    if not value.logged or residues.laws() != "discrete":
        return False
    return value.logs is None or bool((value.known.isnan() & (value.logs[:1] == NONE)).any())


def exponential(value: Value, dtype: torch.dtype) -> Value:
    """The exponential.

    Exponents a/b that differ have equal residues with a probability of the degree of a and b together by the residues
    below the prime there (Schwartz and Zippel); powers of a random base by different exponents are independent numbers,
    of degree 1 and without a denominator. So the degree is one more than the exponent's two, in the numerator alone.
    """
    one = (level(value.data) == 0).all(0, keepdim=True)
    known = torch.where(one, 1.0, value.known.exp())
    powers = raised(value)
    if value.logs is None:
        facts.set_positive(powers)
    return replace(settled(powers, known, dtype, raised_degree(value), value), floor=0.0)


def logarithm(value: Value, dtype: torch.dtype) -> Value:
    """The logarithm."""
    zero = (level(value.data) == 0).all(0, keepdim=True)
    known = torch.where(zero, NAN, value.known.log())
    found = settled(torch.zeros_like(value.data), known, dtype, (1.0, 0.0), value)
    found = replace(found, smooth=value.smooth and value.lowest > 0)
    return logarithmic(found, value.data, ~infinite(value) & ~(value.known < 0), value.degree)


def root(value: Value, dtype: torch.dtype) -> Value:
    """The square root."""
    known = value.known.sqrt()
    whole = ~known.isnan() & ~infinite(value)
    data = symbols("root", fingerprint(value.data))
    if bool(whole.any()):
        data = torch.where(whole, constants(torch.where(whole, known, 0.0)[0]), data)
    found = settled(data, known, dtype, (1.0, 0.0), value)
    # Elsewhere the root of a square is a number or its opposite.
    smooth = value.smooth and value.lowest > 0
    roots = torch.where(known.isnan(), value.data, NONE)
    return replace(found, roots=roots, smooth=smooth, inner=value.degree)


def power(value: Value, exponent: Value, dtype: torch.dtype) -> Value:
    """A power: by small whole and half exponents of products and roots, else the exponential of a multiple of a log."""
    times, base = _only(exponent), _only(value)
    if times is not None and 2 * times == int(2 * times) and abs(times) <= 32:
        return _half_power(value, int(2 * times), dtype)
    if base is not None and residues.smooth(base):
        if _scaled(replace(exponent, logs=None)):
            raise Unknown("a power by a logarithm")
        upper = residues.exponential(exponent.data, str(int(base)))
        last = symbols(f"power of {base}", fingerprint(exponent.data))[WORLDS * (residues.LEVELS - 1) :]
        return settled(torch.cat((upper, last)), base**exponent.known, dtype, exponent.degree, exponent)
    return exponential(multiply(exponent, logarithm(value, dtype), dtype), dtype)


def _only(value: Value) -> float | None:
    """The number that all of a tensor's are, if they depend on no data and are finite."""
    floats = value.constant()
    if floats is None or not floats.numel() or not bool((floats == floats.flatten()[0]).all()):
        return None
    found = float(floats.flatten()[0])
    return found if math.isfinite(found) else None


def _half_power(value: Value, twice: int, dtype: torch.dtype) -> Value:
    factors = [value] * (abs(twice) // 2) + [root(value, dtype)] * (abs(twice) % 2)
    if not factors:
        return Value(torch.ones_like(value.data), torch.ones_like(value.known), dtype, degree=(0.0, 0.0))
    found = factors[0]
    for factor in factors[1:]:
        found = multiply(found, factor, dtype)
    return replace(reciprocal(found, dtype) if twice < 0 else found, dtype=dtype)
