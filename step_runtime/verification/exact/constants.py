"""The residues of floats: of the simplest numbers beside them."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import torch
from torch import Tensor

from step_runtime.verification.exact import residues
from step_runtime.verification.exact.residues import CHANNELS, TURN, WORLDS, seed

_LARGEST_DENOMINATOR = 1 << 20
_NEAR = 4
"""Units in the last place by which a constant that was computed may be away from the number that is meant."""
_LARGEST_ROOT = 1 << 24
_LARGEST_PART = 1 << 10
"""The multiples of pi, and their denominators, at most."""
_PI = Fraction(31415926535897932384626433832795028842, 10**37)


def constants(values: Tensor) -> Tensor:
    """The residues of floats, read as `encoded` says."""
    flat = values.reshape(-1).to(torch.float64)
    distinct, places = torch.unique(flat, return_inverse=True)
    if len(distinct) == 0:
        return torch.zeros(CHANNELS, *values.shape, dtype=torch.int64)
    table = torch.stack([torch.tensor(encoded(float(one)), dtype=torch.int64) for one in distinct], 1)
    return table[:, places].reshape(CHANNELS, *values.shape)


def encoded(value: float) -> tuple[int, ...]:
    """The residues of a float: of the simplest fraction beside it, the root of a fraction, or a fraction of pi.

    A root is recognized if it is the float itself or one of its neighbours. Pi is a number drawn at random.
    """
    return _encoded(value, residues.drawn(), residues.primes())


@cache
def _encoded(value: float, trial: int, primes: tuple[int, ...]) -> tuple[int, ...]:
    each = [prime for prime in primes for _ in range(WORLDS)]
    if not math.isfinite(value):
        sign = 1 if value > 0 else -1
        return tuple(sign * seed(f"infinity {channel}") % prime for channel, prime in enumerate(each))
    ratio = simplest(value)
    if ratio.denominator > _LARGEST_DENOMINATOR and abs(value) < _LARGEST_ROOT:
        for order in (2, 4):
            radicand = Fraction(value**order).limit_denominator(4096)
            if radicand and abs(float(radicand) ** (1 / order) - abs(value)) <= math.ulp(value):
                sign = 1 if value > 0 else -1
                roots = [sign * _root(radicand, order, prime) % prime for prime in primes]
                return tuple(root for root in roots for _ in range(WORLDS))
        part = (Fraction(value) / _PI).limit_denominator(_LARGEST_PART)
        if abs(part) <= _LARGEST_PART and abs(part * _PI - Fraction(value)) <= _NEAR * Fraction(math.ulp(value)):
            return tuple(seed(f"pi {channel}") * _residue(part, prime) % prime for channel, prime in enumerate(each))
    return tuple(_residue(ratio, prime) for prime in each)


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
    """That of a fraction; a free symbol for a multiple of the prime, which would leave no trace."""
    found = ratio.numerator * pow(ratio.denominator, -1, prime) % prime
    return found if found or not ratio else seed(f"multiple {ratio}") % prime


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
    """A root of a prime number in a field: a free symbol where there is none."""
    found = number
    for _ in range(order.bit_length() - 1):
        found = _square_root(found, prime)
    return found if pow(found, order, prime) == number % prime else seed(f"root {order} {number}") % prime


def _square_root(number: int, prime: int) -> int:
    """A root in a field (Shanks 1973), of two where there are the one that is a square itself; 0 where there is none.

    Those of 2 and 3 are sums of the roots of 1 that stand for parts of a turn, and have their signs.
    """
    if prime % TURN == 1 and number in (2, 3):
        part = part_of_turn(prime)
        return (pow(part, 5 - number, prime) + pow(part, number - 5, prime)) % prime
    if pow(number, (prime - 1) // 2, prime) != 1:
        return 0
    twos = ((prime - 1) & (1 - prime)).bit_length() - 1
    odd = (prime - 1) >> twos
    found, rest = pow(number, (odd + 1) // 2, prime), pow(number, odd, prime)
    step = pow(next(one for one in range(2, prime) if pow(one, (prime - 1) // 2, prime) != 1), odd, prime)
    while rest != 1:
        place, power = 0, rest
        while power != 1:
            place, power = place + 1, power * power % prime
        for _ in range(twos - place - 1):
            step = step * step % prime
        twos, found = place, found * step % prime
        step = step * step % prime
        rest = rest * step % prime
    return found


@cache
def part_of_turn(prime: int) -> int:
    """A root of 1 of the order `TURN`, modulo a prime of `turning`: the exponential of i times a part of a turn."""
    roots = (pow(base, (prime - 1) // TURN, prime) for base in range(2, prime))
    return next(one for one in roots if pow(one, TURN // 2, prime) != 1 and pow(one, TURN // 3, prime) != 1)
