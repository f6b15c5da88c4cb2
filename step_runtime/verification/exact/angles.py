"""Sines and cosines: free symbols of their angles, odd and even ones, but for small fractions of pi."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import torch

from step_runtime.verification.exact.constants import constants
from step_runtime.verification.exact.operands import Result, Rule, value_of
from step_runtime.verification.exact.pointwise import Args, Options, odd
from step_runtime.verification.exact.value import Value

_FLOAT = torch.float64
_FRACTIONS = 24
"""Up to this fraction of half a turn, sines and cosines of multiples are constants."""


def circular(name: str) -> Rule:
    """The rule of `sin` or `cos`."""
    symbol = odd(name, even=name == "cos")

    def rule(args: Args, kwargs: Options, result: Result) -> Value:
        angle = value_of(args[0])
        return _of_fractions(symbol([angle], kwargs, result), name, angle)

    return rule


def cosine_and_sine(angle: Value, result: Result) -> tuple[Value, Value]:
    """The cosine and the sine of an angle, in the places of a complex number."""
    own = Result((_FLOAT,), result.shapes)
    return circular("cos")([angle], {}, own), circular("sin")([angle], {}, own)


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
