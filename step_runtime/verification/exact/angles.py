"""Sines and cosines.

They are free symbols of their angles, odd and even ones, but for small fractions of pi. Under the laws `turning` they
are made of the exponential of i times the angle: a power of a base drawn at random, times a root of 1 for parts of a
turn that were added. The roots of 1 of some worlds are the inverses of those of the others, so that what is equal in
all worlds is equal with i and with its opposite.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import torch
from torch import Tensor

from step_runtime.verification.exact import residues
from step_runtime.verification.exact.constants import constants, encoded, part_of_turn
from step_runtime.verification.exact.operands import Result, Rule, value_of
from step_runtime.verification.exact.pointwise import Args, Options, odd
from step_runtime.verification.exact.residues import CHANNELS, TURN, WORLDS, moduli
from step_runtime.verification.exact.value import Value

_FLOAT = torch.float64
_FRACTIONS = 24
"""Up to this fraction of half a turn, sines and cosines of multiples are constants."""
_POWERED = CHANNELS - WORLDS
"""The channels on levels that have exponentials of others."""


def circular(name: str) -> Rule:
    """The rule of `sin` or `cos`."""
    symbol = odd(name, even=name == "cos")

    def rule(args: Args, kwargs: Options, result: Result) -> Value:
        angle = value_of(args[0])
        found: Value = symbol([angle], kwargs, result)
        if residues.laws() == "turning":
            found = _of_powers(found, name, angle)
        return _of_fractions(found, name, angle)

    return rule


def cosine_and_sine(angle: Value, result: Result) -> tuple[Value, Value]:
    """The cosine and the sine of an angle, in the places of a complex number."""
    own = Result((_FLOAT,), result.shapes)
    return circular("cos")([angle], {}, own), circular("sin")([angle], {}, own)


def _column(number: float, like: Value) -> Tensor:
    return torch.tensor(encoded(number)).reshape(-1, *(1,) * (like.data.dim() - 1))


def _of_powers(found: Value, name: str, angle: Value) -> Value:
    """`(z + 1 / z) / 2` or `(z - 1 / z) / (2 * i)`, where z is the exponential of i times the angle.

    On the last level they stay symbols. Powers of a base drawn at random by different exponents are independent
    numbers, as for exponentials; that of an opposite exponent is the inverse, so that the degree is that of one
    exponential, without a denominator.
    """
    modulus, parts = moduli(angle.data), _parts_of_turn(residues.primes())
    # Any whole number of parts may be taken from an angle: the one that was added with its last constant.
    count = torch.zeros_like(angle.known) if angle.shift is None else angle.shift * TURN / (2 * math.pi)
    near = (count - count.round()).abs() <= 8 * count.abs().clamp(min=1) * torch.finfo(_FLOAT).eps
    whole = torch.where(near, count.round(), 0.0).to(torch.int64)
    part = _column(2 * math.pi / TURN, angle)
    rest = (angle.data - whole * part) % modulus
    upper = modulus[:_POWERED]
    sides = []
    for sign in (1, -1):
        places = (sign * whole % TURN).expand(_POWERED, *whole.shape[1:])
        turn = parts.gather(1, places.reshape(_POWERED, -1)).reshape(places.shape)
        sides.append(residues.exponential(sign * rest % modulus, "turn") * turn % upper)
    half = (upper + 1) // 2
    if name == "cos":
        data = (sides[0] + sides[1]) * half % upper
    else:
        # 1 / i is the root of three quarters of a turn.
        data = (sides[0] - sides[1]) * half % upper * parts[:, 3 * TURN // 4].reshape(upper.shape) % upper
    degree = (sum(angle.degree) + 1, 0.0)
    return replace(found, data=torch.cat((data, found.data[_POWERED:])), degree=degree)


@cache
def _parts_of_turn(primes: tuple[int, ...]) -> Tensor:
    """The roots of 1 that stand for each number of parts of a turn, `(channels, TURN)`."""
    rows = []
    for channel in range(_POWERED):
        prime, sign = primes[channel // WORLDS], 1 if channel % 2 else -1
        rows.append([pow(part_of_turn(prime), sign * place % TURN, prime) for place in range(TURN)])
    return torch.tensor(rows)


def _of_fractions(found: Value, name: str, angle: Value) -> Value:
    """A sine or cosine; of angles that depend on no data and are fractions of half a turn, a constant."""
    halves = angle.known / math.pi
    for parts in range(1, _FRACTIONS + 1) if bool(halves.isfinite().any()) else ():
        whole = (halves * parts).round()
        near = (halves * parts - whole).abs() <= 8 * whole.abs().clamp(min=1) * torch.finfo(_FLOAT).eps
        if bool(near.any()):
            table = torch.tensor([turn_constant(name, place, parts) for place in range(2 * parts)], dtype=_FLOAT)
            known = table[torch.where(near, whole, 0.0).to(torch.int64) % (2 * parts)]
            data = torch.where(near, constants(known[0]), found.data)
            found = replace(found, data=data, known=torch.where(near, known, found.known))
            halves = torch.where(near, torch.nan, halves)
    return found


def turn_constant(name: str, place: int, parts: int) -> float:
    """The sine or cosine of a fraction of half a turn; that of the angle in the first eighth, so that all agree."""
    quarter = Fraction(place, parts) if name == "sin" else Fraction(place, parts) + Fraction(1, 2)
    quarter %= 2
    sign = -1 if quarter >= 1 else 1
    quarter %= 1
    quarter = min(quarter, 1 - quarter)
    if quarter == Fraction(1, 6):
        return sign * 0.5
    found = math.sin(math.pi * quarter) if quarter <= Fraction(1, 4) else math.cos(math.pi * (Fraction(1, 2) - quarter))
    return sign * found
