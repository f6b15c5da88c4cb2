"""The residues of floats: of the simplest numbers beside them."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache, lru_cache

import torch
from torch import Tensor

from step_runtime.verification.exact.residues import CHANNELS, draw

_LARGEST_DENOMINATOR = 1 << 20
_NEAR = 4
"""Units in the last place by which a constant that was computed may be away from the number that is meant."""
_LARGEST_ROOT = 1 << 24
_LARGEST_PART = 1 << 10
"""The multiples of pi, and their denominators, at most."""
_PI = Fraction(31415926535897932384626433832795028842, 10**37)


def constants(values: Tensor) -> Tensor:
    """The residues of floats, of shape `(CHANNELS, ...)`: of the simplest fraction beside each, or a root, or of pi.

    A root of a fraction is recognized if it is the float itself or one of its neighbours. Pi is drawn at random.
    """
    distinct, places = torch.unique(values.reshape(-1).to(torch.float64), return_inverse=True)
    if len(distinct) == 0:
        return torch.zeros(CHANNELS, *values.shape, dtype=torch.int64)
    table = torch.tensor([_encoded(one) for one in distinct.tolist()], dtype=torch.int64)
    return table.T[:, places].reshape(CHANNELS, *values.shape)


def common_denominator(values: Tensor) -> tuple[float, int]:
    """The bits of the largest numerator of some constants, over one denominator, and this."""
    distinct = torch.unique(values)
    meant = [_meaning(one) for one in distinct[distinct.isfinite()].tolist()]
    below = math.lcm(*(part.denominator for _, part in meant)) if meant else 1
    above = max((abs(part.numerator) * (below // part.denominator) for _, part in meant), default=0)
    return float(above.bit_length() + 1), below


def _encoded(value: float) -> list[int]:
    primes = draw().moduli.tolist()
    if not math.isfinite(value):
        sign = 1 if value > 0 else -1
        return [sign * draw().seed(f"infinity {channel}") % prime for channel, prime in enumerate(primes)]
    kind, part = _meaning(value)
    if kind == 0:
        return [draw().seed(f"pi {channel}") * _residue(part, prime) % prime for channel, prime in enumerate(primes)]
    if kind > 1:
        sign = 1 if value > 0 else -1
        return [sign * _root(part, kind, prime) % prime for prime in primes]
    return [_residue(part, prime) for prime in primes]


@lru_cache(1 << 16)
def _meaning(value: float) -> tuple[int, Fraction]:
    """What a float stands for: a fraction (1), its root of some order, or that part of pi (0)."""
    ratio = simplest(value)
    if ratio.denominator > _LARGEST_DENOMINATOR and abs(value) < _LARGEST_ROOT:
        for order in (2, 4):
            radicand = Fraction(value**order).limit_denominator(4096)
            if radicand and abs(float(radicand) ** (1 / order) - abs(value)) <= math.ulp(value):
                return order, radicand
        part = (Fraction(value) / _PI).limit_denominator(_LARGEST_PART)
        if 0 < abs(part) <= _LARGEST_PART and abs(part * _PI - Fraction(value)) <= _NEAR * Fraction(math.ulp(value)):
            return 0, part
    return 1, ratio


def simplest(value: float) -> Fraction:
    """The fraction of the smallest denominator beside a float, within what operations on constants round.

    `1 - 0.8` is `1/5`, as is `0.2`.
    """
    exact, near = Fraction(value), _NEAR * Fraction(math.ulp(value))
    bound = 1
    while bound < exact.denominator:
        found = exact.limit_denominator(bound)
        if found and abs(found - exact) <= near:
            return found
        bound *= 2
    return exact


def _residue(ratio: Fraction, prime: int) -> int:
    return ratio.numerator * pow(ratio.denominator, -1, prime) % prime


def _root(radicand: Fraction, order: int, prime: int) -> int:
    """The second or fourth root, a product of those of the factors."""
    found = 1
    for number, inverted in ((radicand.numerator, False), (radicand.denominator, True)):
        own = 1
        for factor, times in _factors(number):
            own = own * pow(_prime_root(factor, order, prime), times, prime) % prime
        found = found * (pow(own, -1, prime) if inverted else own) % prime
    return found


@cache
def _factors(number: int) -> tuple[tuple[int, int], ...]:
    found, factor = [], 2
    while factor * factor <= number:
        times = 0
        while number % factor == 0:
            number, times = number // factor, times + 1
        found += [(factor, times)] if times else []
        factor += 1
    return (*found, *([(number, 1)] if number > 1 else ()))


def _prime_root(number: int, order: int, prime: int) -> int:
    """A root of a prime number in a field: where there is none, a free symbol, or the square of one."""
    found = number
    for _ in range(order.bit_length() - 1):
        found = _square_root(found, prime)
    free = draw().seed(f"root {number}") % prime
    return found if pow(found, order, prime) == number % prime else free * free % prime if order == 2 else free


def _square_root(number: int, prime: int) -> int:
    """The root that is a square itself, as -1 is none; 0 where there is none."""
    found = pow(number, (prime + 1) // 4, prime)
    return found if found * found % prime == number % prime else 0
