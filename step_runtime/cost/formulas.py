"""A program's cost as polynomials in its dims.

What follows from the types alone (elements, traffic, what primitives hold) is computed in sympy by the same rules that
give the numbers. Other figures are fitted: a polynomial of degree 2 at most in each dim is found through exact values,
and is given only if it holds at other sizes too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import pairwise, product
from typing import TypeAlias

import sympy

from step_runtime.base.measures import symbolic_measure
from step_runtime.base.shapes import Dim, Sizes
from step_runtime.base.types import StreamType
from step_runtime.cost.chip import Chip
from step_runtime.cost.model import off_chip_streams
from step_runtime.program.graph import Program

Values: TypeAlias = Mapping[str, float]
"""Figures by name, at some sizes."""

MAX_DEGREE = 2
"""Of a fitted polynomial, in each dim."""


@dataclass(frozen=True)
class TypeFormulas:
    """What follows from a program's types, without spills.

    The elements of each stream, the bytes between chip and memory, and those that each primitive holds, queues aside.
    """

    elements: tuple[Dim, ...]
    traffic: Dim
    memory: tuple[Dim, ...]


def type_formulas(program: Program, types: Sequence[StreamType], chip: Chip) -> TypeFormulas:
    """The polynomials that a program's types give."""
    measure = symbolic_measure(chip.scalar_bits)
    held = [
        node.op.memory([types[i] for i in node.inputs], [types[i] for i in node.outputs], measure)
        for node in program.nodes
    ]
    moved = [types[i] for i in off_chip_streams(program)]
    traffic = sum(measure.elements(stream) * measure.bits(stream.dtype) for stream in moved)
    return TypeFormulas(
        tuple(sympy.expand(measure.elements(stream)) for stream in types),
        sympy.expand(sympy.sympify(traffic) / 8),
        tuple(sympy.expand(sympy.sympify(bits) / 8) for bits in held),
    )


def fitted(
    figures: Callable[[Sizes], Values | None], base: Sizes, symbols: Sequence[str], checks: Sequence[Sizes]
) -> dict[str, Dim | None]:
    """The figures as polynomials in the dims.

    Args:
        figures: The figures at some sizes, or None at sizes that the program is not made for.
        base: Sizes that it is made for. Values are taken at small multiples of them.
        symbols: The dims to vary. One that can't be varied alone is a constant of the program.
        checks: Other sizes at which the polynomials must hold.

    Returns:
        A polynomial for each figure; None where there is none of degree 2 or less in each dim, or where it is not known
        to hold at sizes that it was not fitted to.
    """

    @cache
    def at(*factors: int) -> Values | None:
        return figures({**base, **{name: base[name] * k for name, k in zip(symbols, factors, strict=True)}})

    ones = [1] * len(symbols)
    start = at(*ones)
    if start is None:
        return {}
    lines = {name: _line(at, place, ones) for place, name in enumerate(symbols)}
    free = [name for name in symbols if lines[name] is not None]
    found: dict[str, Dim | None] = {}
    for figure in start:
        degrees = {name: _degree([values[figure] for values in lines[name] or []]) for name in free}
        grid = [range(1, degrees[name] + 2) if name in degrees else range(1, 2) for name in symbols]
        points = {factors: at(*factors) for factors in product(*grid)}
        known = {factors: values[figure] for factors, values in points.items() if values is not None}
        complete = len(known) == len(points) and max(degrees.values(), default=0) <= MAX_DEGREE
        found[figure] = _interpolated(known, base, symbols, grid) if complete else None
    return _confirmed(found, figures, [{**base, **{name: 3 * base[name] for name in free}}, *checks])


def _line(at: Callable[..., Values | None], place: int, ones: Sequence[int]) -> list[Values] | None:
    """The figures at one to four times one dim; None if the program is not made for that."""
    values = [at(*ones[:place], k, *ones[place + 1 :]) for k in range(1, MAX_DEGREE + 3)]
    known = [each for each in values if each is not None]
    return known if len(known) == len(values) else None


def _degree(values: Sequence[float]) -> int:
    """The degree of the polynomial through equidistant values."""
    degree, row = 0, [Fraction(value) for value in values]
    while len(row) > 1 and any(value != row[0] for value in row):
        row = [after - before for before, after in pairwise(row)]
        degree += 1
    return degree


def _interpolated(
    values: Mapping[tuple[int, ...], float], base: Sizes, symbols: Sequence[str], grid: Sequence[range]
) -> Dim:
    """Lagrange's polynomial through the values on a grid of multiples of the base."""
    total: Dim = sympy.Integer(0)
    for factors, value in values.items():
        exact = Fraction(value)
        term: Dim = sympy.Rational(exact.numerator, exact.denominator)
        for name, own, factors_of in zip(symbols, factors, grid, strict=True):
            for other in factors_of:
                if other != own:
                    term *= (sympy.Symbol(name) - other * base[name]) / sympy.Integer((own - other) * base[name])
        total += term
    return sympy.expand(total)


def _confirmed(
    found: Mapping[str, Dim | None], figures: Callable[[Sizes], Values | None], checks: Sequence[Sizes]
) -> dict[str, Dim | None]:
    """The polynomials that hold at all further sizes for which the program is made, of which there must be one."""
    confirmed = dict.fromkeys(found, 0)
    for sizes in checks:
        values = figures(sizes)
        for name, formula in found.items():
            if values is not None and formula is not None:
                holds = formula.subs({dim: sizes[dim.name] for dim in formula.free_symbols}) == sympy.nsimplify(
                    values[name], rational=True
                )
                confirmed[name] = confirmed[name] + 1 if holds and confirmed[name] >= 0 else -1
    return {name: formula if confirmed[name] > 0 else None for name, formula in found.items()}
