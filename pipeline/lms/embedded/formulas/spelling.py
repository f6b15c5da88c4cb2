"""Operations of PyTorch in terms of those that tapes have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.lms.embedded.formulas.formats import EXACT, TESTS, TO
from pipeline.lms.embedded.formulas.operations import ABOVE, GUARDED, PLACE, VALUE
from pipeline.lms.embedded.formulas.tape import NO_TRACE, Nodes, Tape

Values = NDArray[np.float64]

_TINY = 1e-4
"""Constants that are smaller only guard a division or a logarithm."""
_LARGEST_POWER = 8


class TooMany(Exception):
    """A tape has too many formulas."""


def spelled(tape: Tape, op: str, nodes: Sequence[Nodes], values: Sequence[Values]) -> Nodes | None:
    """What an operation gives of operands, of which known constants have values and others NaN.

    None if there are too many formulas. An operation that is not known by its name gives a symbol of its own for each
    set of operands.
    """
    try:
        found = _Spelling(tape, values).of(op, list(nodes))
        if op in TESTS:
            tape.formats.within(found, 0, 1)
        return _rounded(tape, op, found, tape.formats.common(nodes, values))
    except TooMany:
        return None


def spelled_along(tape: Tape, op: str, nodes: Nodes) -> Nodes | None:
    """As `spelled`, along the last dim."""
    try:
        found = _along(_Spelling(tape, ()), op, nodes)
        return _rounded(tape, op, found, tape.formats.common([nodes], [np.full(nodes.shape, np.nan)]))
    except TooMany:
        return None


def _along(spelling: _Spelling, op: str, nodes: Nodes) -> Nodes:
    match op:
        case "mean":
            return spelling.call("multiply", spelling.along("sum", nodes), spelling.number(1.0 / nodes.shape[-1]))
        case "any":
            return spelling.opposite(spelling.along("prod", spelling.opposite(nodes)))
    return spelling.ranked(op, nodes) if op.startswith((VALUE, PLACE)) else spelling.along(op, nodes)


def _rounded(tape: Tape, op: str, nodes: Nodes, kind: str | None) -> Nodes | None:
    """What an operation gives of numbers of a narrow format, which is of this format, too."""
    if kind is None or op in TESTS or op.startswith(TO):
        return nodes
    if op not in EXACT:
        return tape.converted(kind, nodes)
    tape.formats.convert(kind, nodes)
    return nodes


class _Spelling:
    """Spells one operation."""

    def __init__(self, tape: Tape, values: Sequence[Values]) -> None:
        self._tape = tape
        self._values = values

    def of(self, op: str, nodes: list[Nodes]) -> Nodes:
        """What an operation gives."""
        if op.startswith(TO):
            return self.some(self._tape.converted(op.removeprefix(TO), nodes[0]))
        if op in _SPECIAL:
            return _SPECIAL[op](self, nodes)
        spell = _SPELLED.get(op)
        return spell(self, *nodes) if spell else self.call(op, *nodes)

    def call(self, op: str, *nodes: Nodes) -> Nodes:
        """An operation that tapes have.

        Raises:
            TooMany: There are too many formulas.
        """
        return self.some(self._tape.apply(op, *nodes))

    def along(self, op: str, nodes: Nodes) -> Nodes:
        """As `call`, along the last dim."""
        return self.some(self._tape.along(op, nodes))

    def ranked(self, op: str, nodes: Nodes) -> Nodes:
        """As `along`, for an operation that compares elements."""
        return self.some(self._tape.ranked(op, nodes))

    @staticmethod
    def some(found: Nodes | None) -> Nodes:
        """Formulas.

        Raises:
            TooMany: There were too many.
        """
        if found is None:
            raise TooMany
        return found

    def number(self, value: float) -> Nodes:
        """A constant."""
        return self._tape.constants(value)

    def plus(self, one: Nodes, other: Nodes) -> Nodes:
        """A sum."""
        return self.call("add", one, other)

    def minus(self, one: Nodes, other: Nodes) -> Nodes:
        """A difference."""
        return self.call("subtract", one, other)

    def times(self, one: Nodes, other: Nodes) -> Nodes:
        """A product."""
        return self.call("multiply", one, other)

    def negative(self, node: Nodes) -> Nodes:
        """The opposite of a number."""
        return self.minus(self.number(0.0), node)

    def opposite(self, node: Nodes) -> Nodes:
        """What is missing to one, as of a truth value."""
        return self.minus(self.number(1.0), node)

    def beside_one(self, node: Nodes) -> Nodes:
        """One more."""
        return self.plus(self.number(1.0), node)

    def inverse(self, node: Nodes) -> Nodes:
        """One divided by it."""
        return self.call("inverse", node)

    def exp(self, node: Nodes) -> Nodes:
        """An exponential."""
        return self.call("exp", node)

    def log(self, node: Nodes) -> Nodes:
        """A logarithm."""
        return self.call("log", node)

    def size(self, node: Nodes) -> Nodes:
        """An absolute value."""
        return self.times(node, self.call("sign", node))

    def sigmoid(self, node: Nodes) -> Nodes:
        """The logistic function."""
        return self.inverse(self.beside_one(self.exp(self.negative(node))))

    def tanh(self, node: Nodes) -> Nodes:
        """The hyperbolic tangent."""
        twice = self.exp(self.plus(node, node))
        return self.times(self.minus(twice, self.number(1.0)), self.inverse(self.beside_one(twice)))

    def above(self, one: Nodes, other: Nodes) -> Nodes:
        """Whether one number is larger than another one."""
        return self.call(ABOVE, one, other)

    def is_zero(self, node: Nodes) -> Nodes:
        """Whether a number is zero."""
        return self.call("eq", self.times(node, node))

    def limited(self, one: Nodes, limit: Nodes, *, above: bool) -> Nodes:
        """The larger, or the smaller, one of a number and a limit."""
        own = self.times(self.above(one, limit), self.minus(one, limit))
        return self.plus(limit, own) if above else self.minus(one, own)

    # --- where constants among the operands matter ---

    def sum(self, nodes: list[Nodes]) -> Nodes:
        """A sum, to which tiny constants add nothing but a guard."""
        terms = []
        for values, own in zip(self._values, nodes, strict=True):
            tiny = np.abs(values) < _TINY
            terms.append(np.where(tiny, self._tape.guards(np.where(tiny, values, 0.0)), own) if tiny.any() else own)
        return self.plus(*terms)

    def product(self, nodes: list[Nodes]) -> Nodes:
        """A product, in which one leaves no trace and minus one turns the sign, also of a logarithm."""
        found = self.times(*nodes)
        for values, other in zip(self._values, nodes[::-1], strict=True):
            if (values == -1.0).any():
                found = np.where(values == -1.0, self.negative(other), found)
            if (values == 1.0).any():
                found = np.where(values == 1.0, other, found)
        return found

    def quotient(self, nodes: list[Nodes]) -> Nodes:
        """A quotient."""
        known = self._values[1]
        if np.isnan(known).any():
            return self.times(nodes[0], self.inverse(nodes[1]))
        return self.times(nodes[0], self._tape.constants(1.0 / np.where(known == 0, np.nan, known)))

    def power(self, nodes: list[Nodes]) -> Nodes:
        """A power."""
        values = self._values[1]
        if np.isnan(values).any():
            return self.exp(self.times(nodes[1], self.log(nodes[0])))
        found = None
        for exponent in np.unique(values).tolist():
            own = self._raised(nodes[0], exponent)
            found = own if found is None else np.where(values == exponent, own, found)
        assert found is not None
        return found

    def _raised(self, node: Nodes, exponent: float) -> Nodes:
        if exponent < 0:
            return self.inverse(self._raised(node, -exponent))
        if exponent == 0.5:
            return self.call("sqrt", node)
        if exponent != int(exponent) or exponent > _LARGEST_POWER:
            return self.exp(self.times(self.number(exponent), self.log(node)))
        return reduce(self.times, [node] * int(exponent)) if exponent else self.number(1.0)

    def extreme(self, nodes: list[Nodes], *, largest: bool) -> Nodes:
        """The larger, or the smaller, one of two values; a constant is a limit, and a tiny one only a guard."""
        known = [not np.isnan(values).any() for values in self._values]
        if not any(known):
            return self.call("largest" if largest else "smallest", *nodes)
        one, limit = nodes[::-1] if known[0] else nodes
        values = self._values[0 if known[0] else 1]
        guards, limited = (np.abs(values) < _TINY) & (values > 0), self.limited(one, limit, above=largest)
        if guards.any():
            guarded = np.where(values < NO_TRACE, one, self.call(GUARDED, one, limited))
            return np.where(guards, guarded, limited)
        self._tape.formats.limited(limited, one, values, above=largest)
        return limited


_SPECIAL: dict[str, Callable[[_Spelling, list[Nodes]], Nodes]] = {
    "add": _Spelling.sum, "multiply": _Spelling.product, "divide": _Spelling.quotient, "power": _Spelling.power,
    "maximum": lambda spell, nodes: spell.extreme(nodes, largest=True),
    "minimum": lambda spell, nodes: spell.extreme(nodes, largest=False),
}  # fmt: skip
_SPELLED: dict[str, Callable[..., Any]] = {
    "same": lambda _, node: node, "negative": _Spelling.negative, "absolute": _Spelling.size,
    "square": lambda spell, node: spell.times(node, node), "sigmoid": _Spelling.sigmoid, "tanh": _Spelling.tanh,
    "silu": lambda spell, node: spell.times(node, spell.sigmoid(node)),
    "softplus": lambda spell, node: spell.log(spell.beside_one(spell.exp(node))),
    "logsigmoid": lambda spell, node: spell.negative(spell.log(spell.beside_one(spell.exp(spell.negative(node))))),
    "relu": lambda spell, node: spell.limited(node, spell.number(0.0), above=True),
    "rsqrt": lambda spell, node: spell.inverse(spell.call("sqrt", node)),
    "log1p": lambda spell, node: spell.log(spell.beside_one(node)),
    "expm1": lambda spell, node: spell.minus(spell.exp(node), spell.number(1.0)),
    "log2": lambda spell, node: spell.times(spell.log(node), spell.number(1.0 / log(2.0))),
    "log10": lambda spell, node: spell.times(spell.log(node), spell.number(1.0 / log(10.0))),
    "exp2": lambda spell, node: spell.exp(spell.times(node, spell.number(log(2.0)))),
    "gt": _Spelling.above, "lt": lambda spell, one, other: spell.above(other, one),
    "ge": lambda spell, one, other: spell.opposite(spell.above(other, one)),
    "le": lambda spell, one, other: spell.opposite(spell.above(one, other)),
    "eq": lambda spell, one, other: spell.is_zero(spell.minus(one, other)),
    "ne": lambda spell, one, other: spell.opposite(spell.is_zero(spell.minus(one, other))),
    "is true": lambda spell, node: spell.opposite(spell.is_zero(node)), "is zero": _Spelling.is_zero,
    "not": _Spelling.opposite, "and": _Spelling.times,
    "or": lambda spell, one, other: spell.opposite(spell.times(spell.opposite(one), spell.opposite(other))),
}  # fmt: skip
"""Operations by their names, spelled by their operands alone."""
