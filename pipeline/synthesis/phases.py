"""The phases of a search: what its rounds leave out at first, widened in two dimensions.

A phase is a choice of types and a depth. Widening goes along the diagonals: a phase that is wider by one step in one
dimension comes after all those of which it is a step in neither.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class RoundLimits:
    """How far a round goes from what it starts from.

    Attributes:
        cost: The most that a program may cost.
        meetings: The most ways to choose operands by type that are looked at, the cheapest types first.
        choices: Whether choices of structure cost, and functions that have served cost more; else only functions do.
        free: Whether streams that are given cost nothing, so that a function of many of them is as near as of one.
        once: Whether no function is applied to what it has led to itself, from the seed streams on. Between one
            landmark and the next few programs do that, and there are far fewer such streams.
        together: The candidates of one rule on buckets of the same costs from which on they are left to the end:
            a function of five operands would use up its share of the budget before those of few.
    """

    cost: int
    meetings: int
    choices: bool
    free: bool = False
    once: bool = True
    together: int = sys.maxsize


@dataclass(frozen=True)
class Types:
    """The types of the streams that a phase makes.

    Attributes:
        name: What they add to the declared types.
        spare: How much oftener a dim may occur than in a declared type.
        invented: The dims that elements may have and their stream lacks.
        width: The steps of depth that they are worth: each of these dims multiplies the types.
    """

    name: str
    spare: int
    invented: int
    width: int


@dataclass(frozen=True)
class Depth:
    """How far the rounds of a phase go.

    Attributes:
        name: What limits them.
        limits: The limits of a round.
        share: The share of the whole budget that a round may use.
    """

    name: str
    limits: RoundLimits
    share: float


@dataclass(frozen=True)
class Phase:
    """A choice of types and a depth."""

    types: Types
    depth: Depth

    @property
    def name(self) -> str:
        """As the documentation calls it."""
        return f"{self.depth.name}, {self.types.name}"


DECLARED = Types("declared types", 0, 0, 0)
SPARE = Types("a dim more", 1, 0, 1)
INVENTED = Types("dims of elements", 0, 1, 2)
BOTH = Types("a dim more and dims of elements", 1, 1, 4)
TYPES = (DECLARED, SPARE, INVENTED, BOTH)

_TOGETHER = 2**14
"""Candidates of one rule on streams of the same costs: a tenth of a second where functions are simple."""

NEAR = Depth("a function or two", RoundLimits(5, 4_000, choices=False, free=True, together=_TOGETHER), 0.05)
SHORT = Depth("three functions", RoundLimits(8, 16_000, choices=False, together=_TOGETHER), 0.1)
MIDDLE = Depth("few choices", RoundLimits(11, 8_000, choices=True, together=_TOGETHER), 0.1)
LONG = Depth("more choices", RoundLimits(14, 8_000, choices=True), 0.1)
REPEATED = Depth("functions again", RoundLimits(18, 16_000, choices=True, once=False), 0.2)
UNLIMITED = Depth("no end", RoundLimits(40, 30_000, choices=True, once=False), 0.25)
DEPTHS = (NEAR, SHORT, MIDDLE, LONG, REPEATED, UNLIMITED)


def widening() -> Iterator[Phase]:
    """The phases in their order; where both are as wide, the one of fewer types comes first.

    Dims of elements are structure that types do not force, so that only depths that count choices admit them.
    """
    steps = [
        (number + types.width, types.width, types, depth)
        for number, depth in enumerate(DEPTHS)
        for types in TYPES
        if depth.limits.choices or not types.invented
    ]
    for _, _, types, depth in sorted(steps, key=lambda entry: entry[:2]):
        yield Phase(types, depth)


PHASES = tuple(widening())


def resumed(phase: Phase) -> tuple[Phase, ...]:
    """The phases that follow where one has reached landmarks: the nearest, this one, as more may be there, and all."""
    return tuple(dict.fromkeys((PHASES[0], phase, *PHASES)))
