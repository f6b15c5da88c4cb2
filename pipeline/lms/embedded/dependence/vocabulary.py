"""What calls of PyTorch do to flows: which operations a path passes, and what it is multiplied by.

Calls that are made of simpler ones are defined elsewhere (`symbolic.definitions`); a call that nobody defines is an
operation of its own name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

from pipeline.lms.embedded.dependence import names
from pipeline.lms.embedded.dependence.paths import (
    ABS,
    CHOICE,
    COMPARED,
    EXP,
    FALLS,
    LARGEST,
    LIMITED,
    LOG,
    LOOPED,
    MINUS,
    NOTHING,
    OPERATIONS,
    ORDERED,
    OVER,
    ROOT,
    ROUNDED,
    SUM,
    TIMES,
    UNSIGNED,
    ZERO,
    Flow,
    factors,
    leaves,
    logarithm,
    nonlinear,
    product,
    tagged,
    union,
    unshifted,
)


@dataclass(frozen=True)
class Elements:
    """A sequence of unknown length: what is known of each element."""

    item: Any


Value: TypeAlias = Any
"""A Flow, a number, a string, None, a tuple of values, or something that can be called."""

ARGUMENT = 128
"""Leaves from this number on are the arguments of a function."""
STATE = 256
"""Leaves from this number on are states, and variables that a loop changes."""


class Vocabulary:
    """Maps calls to flows. Every operation that leaves a mark has a bit, numbered in order of appearance.

    `position` is the flow of a position, which nothing but counting gives.
    """

    def __init__(self, position: Flow) -> None:
        self.position = position
        self._bits: dict[str, int] = {
            "sum": SUM, "minus": MINUS, "largest": LARGEST, "exp": EXP, "over": OVER, "choice": CHOICE, "log": LOG,
            "root": ROOT, "abs": ABS, "compared": COMPARED, "ordered": ORDERED, "rounded": ROUNDED, "limited": LIMITED,
            "looped": LOOPED,
        }  # fmt: skip
        self.opaque = 0
        """The tags of the calls that nobody defines."""
        self._known: dict[str, Callable[[str, Sequence[Value]], Value]] = {}
        for known, method in (
            (names.SAME, self._same), (names.ZEROS, self._zeros), (names.CONSTANT, self._constant),
            (names.JOINED, self._join), (names.SUMMED, self._sum),
            (names.PRODUCTS, self._product), (names.CONTRACTIONS, self._product), (names.LARGEST, self._largest),
            (names.ORDERED, self._order), (names.COMPARED, self._compare), (names.EQUAL, self._compare),
            (names.INDICES, self._indices),
            (names.ROUNDED, self._round), (names.POSITIONS, self._positions),
            (("sub",), self._sub), (("div",), self._div), (("negative",), self._negative), (("pow",), self._pow),
            (("exp",), self._exp), (("log",), self._log), (("where",), self._where), (("abs",), self._abs),
            (("norm",), self._norm),
            (("gather",), self._gather), (("scatter",), self._gather), (("reduced",), self._reduce),
            (("take", "masked_select", "select"), self._take),
            (("broadcast_tensors", "meshgrid"), self._each),
        ):  # fmt: skip
            self._known |= dict.fromkeys(known, method)

    def bit(self, name: str) -> int:
        """The tag of an operation; the last one is shared by those that are too many."""
        return self._bits.setdefault(name, min(TIMES << len(self._bits) + 1, 1 << OPERATIONS - 1))

    def knows(self, name: str) -> bool:
        """Whether a call has a meaning here."""
        return names.ALIASES.get(name, name) in self._known

    def call(self, name: str, args: Sequence[Value]) -> Value:
        """The value of a call."""
        if name == "masked_fill" and len(args) > 2:
            args = [args[1], args[2], args[0]]
        name = names.ALIASES.get(name, name)
        method = self._known.get(name)
        if method is None or not args:
            return self._positions(name, args) if name in names.POSITIONS else self._other(name, args)
        return method(name, args)

    def flow(self, value: Value) -> Flow:
        """A value's flow; that of a tuple is all its parts'."""
        if isinstance(value, frozenset):
            return value
        if _is_zero(value):
            return ZERO
        if isinstance(value, Elements):
            return self.flow(value.item)
        return union(*map(self.flow, value)) if isinstance(value, tuple) and value else NOTHING

    def add(self, one: Flow, other: Flow) -> Flow:
        """A sum; what is added to a state is summed up."""
        mine, theirs = _states(one), _states(other)
        # What is made of the state that it is added to corrects it.
        if not mine & theirs:
            other = tagged(other, SUM) if mine else other
            one = tagged(one, SUM) if theirs else one
        return union(one, other)

    def inverse(self, flow: Flow) -> Flow:
        """One divided by a value."""
        return tagged(flow, OVER | FALLS)

    def choice(self, flow: Flow) -> Flow:
        """The flow of a value that only selects."""
        return tagged(flow, CHOICE | UNSIGNED)

    def selected(self, flow: Flow, index: Flow) -> Flow:
        """The elements of a value that an index selects: a product with zeros and ones."""
        return product(flow, self.choice(index)) if index else flow

    # --- the meaning of names; each takes the name and the arguments ---

    def _same(self, name: str, args: Sequence[Value]) -> Value:
        return args[0]

    def _constant(self, name: str, args: Sequence[Value]) -> Value:
        return NOTHING

    def _zeros(self, name: str, args: Sequence[Value]) -> Value:
        return ZERO

    def _other(self, name: str, args: Sequence[Value]) -> Value:
        """A call that nobody defines: any of its arguments may be multiplied by any other."""
        bit = self.bit(name)
        self.opaque |= bit
        flows = [flow for flow in map(self.flow, args) if flow]
        if len(flows) < 2:
            return tagged(union(*flows, NOTHING), bit)
        total = reduce(product, flows)
        return tagged(total, bit)

    def _join(self, name: str, args: Sequence[Value]) -> Value:
        if name == "add" and len(args) > 1:
            return self.add(self.flow(args[0]), self.flow(args[1]))
        return union(*map(self.flow, args))

    def _sum(self, name: str, args: Sequence[Value]) -> Value:
        flow = self.flow(args[0])
        return tagged(flow, SUM | TIMES, leaves(flow)) if "prod" in name else tagged(flow, SUM)

    def _product(self, name: str, args: Sequence[Value]) -> Value:
        if any(_is_zero(arg) for arg in args):
            return ZERO
        operands = [arg for arg in args if isinstance(arg, frozenset | tuple)]
        parts = [part for one in operands for part in (one if isinstance(one, tuple) else (one,))]
        total = self.flow(parts[0]) if parts else NOTHING
        for part in parts[1:]:
            total = product(total, self.flow(part))
        return tagged(total, SUM) if name in names.CONTRACTIONS else total

    def _largest(self, name: str, args: Sequence[Value]) -> Value:
        flows = [flow for flow in map(self.flow, args) if flow]
        # The larger one of a value and a constant limits it, and is no largest element.
        limits = len(flows) == 1 and name in names.LIMITS and len(args) > 1
        flow = tagged(union(*flows, NOTHING), LIMITED if limits else LARGEST)
        along = len(args) > 1 and name in ("max", "min") and not isinstance(args[1], frozenset)
        return (flow, self.choice(flow)) if along or name in names.PAIRS else flow

    def _order(self, name: str, args: Sequence[Value]) -> Value:
        flow = tagged(self.flow(args[0]), ORDERED)
        return (flow, self.choice(flow)) if name in names.PAIRS or len(args) > 1 else flow

    def _compare(self, name: str, args: Sequence[Value]) -> Value:
        first, second = self.flow(args[0]), self.flow(args[1]) if len(args) > 1 else NOTHING
        if name.startswith("l"):
            first, second = second, first
        sign = UNSIGNED if name in names.EQUAL else FALLS
        return union(tagged(first, COMPARED | sign & UNSIGNED), tagged(second, COMPARED | sign))

    def _indices(self, name: str, args: Sequence[Value]) -> Value:
        return self.choice(union(*map(self.flow, args)))

    def _round(self, name: str, args: Sequence[Value]) -> Value:
        return tagged(self.flow(self._div(name, args) if len(args) > 1 else args[0]), ROUNDED)

    def _positions(self, name: str, args: Sequence[Value]) -> Value:
        return self.position

    def _sub(self, name: str, args: Sequence[Value]) -> Value:
        return self.add(self.flow(args[0]), tagged(self.flow(args[1]), MINUS | FALLS))

    def _negative(self, name: str, args: Sequence[Value]) -> Value:
        return tagged(self.flow(args[0]), FALLS)

    def _div(self, name: str, args: Sequence[Value]) -> Value:
        return product(self.flow(args[0]), self.inverse(self.flow(args[1])))

    def _pow(self, name: str, args: Sequence[Value]) -> Value:
        base, exponent = self.flow(args[0]), args[1]
        if not isinstance(exponent, int | float):
            power = self.flow(exponent)
            return union(tagged(base, self.bit("power") | UNSIGNED) if base else NOTHING, self._exp("exp", [power]))
        if exponent != int(exponent):
            base = tagged(base, ROOT)
        elif exponent not in (1, -1):
            base = product(base, base)
        return self.inverse(base) if exponent < 0 else base

    def _exp(self, name: str, args: Sequence[Value]) -> Value:
        return tagged(unshifted(self.flow(args[0])), EXP)

    def _log(self, name: str, args: Sequence[Value]) -> Value:
        return logarithm(self.flow(args[0]), STATE)

    def _where(self, name: str, args: Sequence[Value]) -> Value:
        if len(args) < 3:
            return self._indices(name, args)
        condition, ways = self.flow(args[0]), union(self.flow(args[1]), self.flow(args[2]))
        if any(isinstance(way, float) and abs(way) == float("inf") for way in args[1:3]):
            return union(condition, ways)
        chosen = leaves(condition)
        if not chosen:
            return ways
        selecting = tagged(condition, TIMES | UNSIGNED, leaves(ways), factors(ways))
        return union(selecting, tagged(ways, TIMES, chosen, factors(condition)))

    def _abs(self, name: str, args: Sequence[Value]) -> Value:
        return tagged(self.flow(args[0]), ABS | UNSIGNED)

    def _norm(self, name: str, args: Sequence[Value]) -> Value:
        flow = self.flow(args[0])
        if len(args) > 1 and args[1] == 1:
            return tagged(self._abs(name, args), SUM)
        return tagged(product(flow, flow), SUM | ROOT)

    def _gather(self, name: str, args: Sequence[Value]) -> Value:
        flows = [self.flow(arg) for arg in args]
        indices = next((flow for flow in flows[1:3] if flow), NOTHING)
        # What is scattered into zeros does not stay zero.
        return union(self.selected(NOTHING if flows[0] is ZERO else flows[0], indices), *flows[3:])

    def _take(self, name: str, args: Sequence[Value]) -> Value:
        return self.selected(self.flow(args[0]), self.flow(tuple(args[1:])))

    def _each(self, name: str, args: Sequence[Value]) -> Value:
        return args[0] if len(args) == 1 and isinstance(args[0], tuple) else tuple(args)

    def _reduce(self, name: str, args: Sequence[Value]) -> Value:
        flow = self.flow(args[0])
        return flow if args[1:] == ["none"] else tagged(flow, SUM)


def _is_zero(value: Value) -> bool:
    """Whether a value is the number zero."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value == 0


def _states(flow: Flow) -> set[int]:
    """The states that a value grows with in proportion, if anything else is left as it is."""
    return {path.leaf for path in flow if path.leaf >= STATE and not nonlinear(path.tags) & ~LARGEST}
