"""What calls of PyTorch do to flows: which operations a path passes, and what it is multiplied by.

Calls that are made of simpler ones are defined elsewhere (`symbolic.definitions`); a call that nobody defines is an
operation of its own name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any, TypeAlias

from pipeline.lms.embedded.dependence.constants import ConstantFactors
from pipeline.lms.embedded.dependence.paths import (
    ABS,
    EXP,
    FALLS,
    LARGEST,
    LOG,
    MINUS,
    NOTHING,
    OPERATIONS,
    OVER,
    ROOT,
    SIGNS,
    SUM,
    TIMES,
    UNSIGNED,
    Flow,
    coarse,
    exponential,
    leaves,
    product,
    quotient,
    scaled,
    tagged,
    union,
    without,
)


@dataclass(frozen=True)
class Elements:
    """A sequence of unknown length: what is known of each element, and which data decide whether there is one."""

    item: Any
    when: Flow = NOTHING


Value: TypeAlias = Any
"""A Flow, a number, a string, None, a tuple of values, or something that can be called."""

STATE = 256
"""Leaves from this number on are states, and variables that a loop changes."""

_SAME = frozenset(
    """
    as_tensor atleast_1d bool broadcast_to clone conj contiguous detach diag diagonal double expand expand_as flatten
    flip fliplr flipud float long moveaxis movedim narrow pad permute ravel repeat repeat_interleave
    reshape roll squeeze swapaxes t tensor tile to transpose tril triu type type_as unflatten unfold unsqueeze view
    view_as nan_to_num item tolist list tuple reversed cpu requires_grad_ numpy select rot90 split chunk unbind
    """.split()  # noqa: SIM905 (a list of so many strings would be harder to read)
)
_CONSTANT = frozenset(
    """
    zeros ones empty full zeros_like ones_like empty_like full_like new_zeros new_ones new_full zero size numel len dim
    finfo float32 top shape print
    """.split()  # noqa: SIM905
)
_JOINED = frozenset(("cat", "concat", "concatenate", "stack", "hstack", "vstack", "add", "logical_or", "block_diag"))
_SUMMED = frozenset(("sum", "cumsum", "mean", "prod", "cumprod", "nansum", "trace", "count_nonzero"))
_PRODUCTS = frozenset(("multiply", "mul", "outer", "logical_and", "bitwise_and", "kron", "ger"))
_CONTRACTIONS = frozenset(
    ("matmul", "mm", "bmm", "mv", "dot", "inner", "einsum", "vdot", "tensordot", "vecdot", "linear_map", "conv")
)
_LARGEST = frozenset(("maximum", "minimum", "amax", "amin", "max", "min", "clamp", "clip", "cummax", "cummin", "fmax"))
_BOUNDS = frozenset(("maximum", "minimum", "clamp", "clip", "fmax"))
"""Calls that only bound a value where the others are constants."""
_ORDERED = frozenset(("sort", "topk", "kthvalue", "median", "mode", "msort", "quantile"))
_PAIRS = frozenset(("sort", "topk", "kthvalue", "cummax", "cummin", "mode"))
"""Calls that give values and their indices; a few others do along a dim only."""
_COMPARED = frozenset(("greater", "less", "gt", "lt", "ge", "le", "greater_equal", "less_equal", "heaviside", "sign"))
_EQUAL = frozenset(("eq", "ne", "isin", "not_equal", "equal", "isclose"))
_INDICES = frozenset(("argmax", "argmin", "argsort", "one_hot", "nonzero", "searchsorted", "bucketize", "multinomial"))
_ROUNDED = frozenset(("round", "floor", "ceil", "trunc", "int", "frac", "floor_divide", "fix"))
_POSITIONS = frozenset(("arange", "linspace", "eye", "range", "tril_indices", "triu_indices"))
_ALIASES = {
    "divide": "div", "true_divide": "div", "subtract": "sub", "rsub": "sub", "neg": "negative",
    "bitwise_not": "negative", "logical_not": "negative", "masked_fill": "where", "absolute": "abs", "swapdims": "t",
    "take": "take_along_dim", "scatter_add": "scatter", "index_add": "scatter", "scatter_reduce": "scatter",
    "index_copy": "scatter", "index_select": "gather", "index_fill": "scatter", "any": "amax", "all": "amin",
}  # fmt: skip


_TINY = 1e-3
"""A bound that only guards a division or a logarithm is positive and at most this."""
_MOST_NUMERATORS = 200
_INFINITE = 1e4
"""A constant from this size on stands for infinity: it masks."""


class Vocabulary:
    """Maps calls to flows. Every operation that leaves a mark has a bit, numbered in order of appearance.

    `position` is the flow of a position, which nothing but counting gives.
    """

    def __init__(self, position: Flow) -> None:
        self.position = position
        self.within: list[Flow] = []
        """What calls computed on their way, since this was last emptied."""
        self._numerators: dict[Flow, Flow] = {}
        """What is divided in a quotient, and in what is made of one, as a program may divide later."""
        self._bits: dict[str, int] = {
            "sum": SUM, "minus": MINUS, "largest": LARGEST, "exp": EXP, "log": LOG, "over": OVER, "root": ROOT,
            "abs": ABS,
        }  # fmt: skip
        self._constants = ConstantFactors()
        self._known: dict[str, Callable[[str, Sequence[Value]], Value]] = {}
        for names, method in (
            (_SAME, self._same), (_CONSTANT, self._constant), (_JOINED, self._join), (_SUMMED, self._sum),
            (_PRODUCTS, self._product), (_CONTRACTIONS, self._product), (_LARGEST, self._largest),
            (_ORDERED, self._order), (_COMPARED, self._compare), (_EQUAL, self._compare), (_INDICES, self._indices),
            (_ROUNDED, self._round), (_POSITIONS, self._positions),
            (("sub",), self._sub), (("div",), self._div), (("negative",), self._negative), (("pow",), self._pow),
            (("exp",), self._exp), (("where",), self._where), (("abs",), self._abs), (("norm",), self._norm),
            (("gather",), self._gather), (("take_along_dim",), self._take), (("scatter",), self._scatter),
            (("copy", "fill"), self._copy), (("reduced",), self._reduce),
        ):  # fmt: skip
            self._known |= dict.fromkeys(names, method)

    def bit(self, name: str) -> int:
        """The tag of an operation; the last one is shared by those that are too many."""
        return self._bits.setdefault(name, min(TIMES << len(self._bits) + 1, 1 << OPERATIONS - 1))

    def knows(self, name: str) -> bool:
        """Whether a call has a meaning here."""
        return _ALIASES.get(name, name) in self._known

    def call(self, name: str, args: Sequence[Value]) -> Value:
        """The value of a call."""
        if name == "masked_fill" and len(args) > 2:
            args = [args[1], args[2], args[0]]
        name = _ALIASES.get(name, name)
        method = self._known.get(name)
        if method is None or not args:
            return self._positions(name, args) if name in _POSITIONS else self._other(name, args)
        return method(name, args)

    def flow(self, value: Value) -> Flow:
        """A value's flow; that of a tuple is all its parts'."""
        if isinstance(value, frozenset):
            return value
        if isinstance(value, Elements):
            return self.flow(value.item)
        return union(*map(self.flow, value)) if isinstance(value, tuple) and value else NOTHING

    def add(self, one: Flow, other: Flow) -> Flow:
        """A sum; what is added to a state is summed up."""
        mine, theirs = _adds_up(one, other), _adds_up(other, one)
        if mine != theirs:
            one, other = (one, tagged(other, SUM)) if mine else (tagged(one, SUM), other)
        return union(one, other)

    def inverse(self, flow: Flow) -> Flow:
        """One divided by a value."""
        return tagged(flow, OVER | FALLS)

    def choice(self, flow: Flow) -> Flow:
        """The flow of a value that only selects."""
        return tagged(flow, self.bit("choice") | UNSIGNED)

    def selected(self, flow: Flow, index: Flow) -> Flow:
        """The elements that an index selects: a product with zeros and ones, unless it is their own order."""
        if index and index == self.choice(flow):
            return tagged(flow, self.bit("order"))
        return product(flow, self.choice(index)) if index else flow

    def taken(self, flow: Flow, index: Flow) -> Flow:
        """As `selected`, where a function may as well contract with zeros and ones."""
        return tagged(self.selected(flow, index), SUM) if index else flow

    def is_mask(self, index: Flow) -> bool:
        """Whether what selects elements is a comparison, not their numbers."""
        return any(path.tags & self.bit("compare") and not path.tags & self.bit("choice") for path in index)

    def either(self, test: Value, one: Value, other: Value) -> Value:
        """One of two values, as a decision says; what both have does not depend on it."""
        if isinstance(one, tuple) and isinstance(other, tuple) and len(one) == len(other):
            return tuple(self.either(test, *parts) for parts in zip(one, other, strict=True))
        if one is other or (one == other and not isinstance(one, frozenset)):
            return one
        position = leaves(self.position)
        condition = frozenset(path for path in self.flow(test) if not position >> path.leaf & 1)
        mine, theirs = self.flow(one), self.flow(other)
        if not condition:
            return union(mine, theirs)
        if mine == theirs:
            return self._where("where", [condition, one, other])
        common, changed = mine & theirs, mine ^ theirs
        if _has_state(common) and all(path.tags & SUM for path in changed):
            condition = tagged(condition, SUM)
        if not theirs - mine:
            return union(common, product(changed, condition))
        if not mine - theirs:
            return union(common, product(changed, tagged(condition, FALLS)))
        return union(common, self._where("where", [condition, changed, NOTHING]))

    # --- the meaning of names; each takes the name and the arguments ---

    def _same(self, name: str, args: Sequence[Value]) -> Value:
        return args[0]

    def _constant(self, name: str, args: Sequence[Value]) -> Value:
        return NOTHING

    def _other(self, name: str, args: Sequence[Value]) -> Value:
        return tagged(union(*map(self.flow, args)) if args else NOTHING, self.bit(name))

    def _second(self, args: Sequence[Value]) -> Flow:
        """What is added or subtracted: the second argument, times the third if there is one."""
        return scaled(self.flow(args[1]), self._constants.bits(args[2] if len(args) > 2 else 1))

    def _join(self, name: str, args: Sequence[Value]) -> Value:
        if name == "add" and len(args) > 1:
            return self.add(self.flow(args[0]), self._second(args))
        return union(*map(self.flow, args))

    def _sum(self, name: str, args: Sequence[Value]) -> Value:
        flow = self.flow(args[0])
        if "prod" in name:
            return tagged(flow, TIMES, leaves(flow))
        total = tagged(flow, SUM)
        if flow in self._numerators:
            self._divided(total, tagged(self._numerators[flow], SUM))
        return total

    def _divided(self, whole: Flow, numerator: Flow) -> None:
        """Notes what is divided in a value, which is then met on the way."""
        if len(self._numerators) < _MOST_NUMERATORS:
            self._numerators[whole] = numerator
        self.within.append(numerator)

    def _product(self, name: str, args: Sequence[Value]) -> Value:
        operands = [arg for arg in args if isinstance(arg, frozenset | tuple)]
        parts = [part for one in operands for part in (one if isinstance(one, tuple) else (one,))]
        flows = tuple(map(self.flow, parts))
        total = product(*flows)
        if any(flow in self._numerators for flow in flows):
            self._divided(total, product(*(self._numerators.get(flow, flow) for flow in flows)))
        if name not in _CONTRACTIONS:
            return scaled(total, reduce(or_, map(self._constants.bits, args)))
        self.within.append(total)
        return self._sum("sum", [total])

    def _largest(self, name: str, args: Sequence[Value]) -> Value:
        bounds = [arg for arg in args[1:] if isinstance(arg, int | float)]
        if name not in ("max", "min") and bounds and all(0 < bound <= _TINY for bound in bounds):
            return args[0]
        if name in _BOUNDS and sum(bool(self.flow(arg)) for arg in args) < 2 <= len(args):
            return tagged(union(*map(self.flow, args)), self.bit("bound"))
        flow = tagged(union(*map(self.flow, args)), LARGEST)
        along = len(args) > 1 and name in ("max", "min") and not isinstance(args[1], frozenset)
        return (flow, self.choice(flow)) if along or name in _PAIRS else flow

    def _order(self, name: str, args: Sequence[Value]) -> Value:
        flow = tagged(self.flow(args[0]), self.bit("order"))
        return (flow, self.choice(self.flow(args[0]))) if name in _PAIRS or len(args) > 1 else flow

    def _compare(self, name: str, args: Sequence[Value]) -> Value:
        first, second = self.flow(args[0]), self.flow(args[1]) if len(args) > 1 else NOTHING
        if name.startswith("l"):
            first, second = second, first
        sign = UNSIGNED if name in _EQUAL else FALLS
        return union(tagged(first, self.bit("compare") | sign & UNSIGNED), tagged(second, self.bit("compare") | sign))

    def _indices(self, name: str, args: Sequence[Value]) -> Value:
        return self.choice(union(*map(self.flow, args)))

    def _round(self, name: str, args: Sequence[Value]) -> Value:
        return tagged(self.flow(self._div(name, args) if len(args) > 1 else args[0]), self.bit("round"))

    def _positions(self, name: str, args: Sequence[Value]) -> Value:
        return self.position

    def _sub(self, name: str, args: Sequence[Value]) -> Value:
        return self.add(self.flow(args[0]), tagged(self._second(args), MINUS | FALLS))

    def _negative(self, name: str, args: Sequence[Value]) -> Value:
        return tagged(self.flow(args[0]), FALLS)

    def _div(self, name: str, args: Sequence[Value]) -> Value:
        numerator, divisor = self.flow(args[0]), self.flow(args[1])
        constants = reduce(or_, map(self._constants.bits, args[:2]))
        found = scaled(quotient(numerator, self.inverse(divisor)), constants)
        if numerator and self._of_data(divisor):
            self._divided(found, numerator)
        return found

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
        return exponential(self.flow(args[0]))

    def _where(self, name: str, args: Sequence[Value]) -> Value:
        if len(args) < 3:
            return self._indices(name, args)
        condition, ways = self.flow(args[0]), union(self.flow(args[1]), self.flow(args[2]))
        if any(isinstance(way, int | float) and abs(way) >= _INFINITE for way in args[1:3]):
            return union(condition, ways)
        chosen = leaves(condition)
        if not chosen:
            return ways
        bend = self._bend(condition, ways)
        if bend:
            return tagged(ways, bend)
        return union(tagged(condition, TIMES | UNSIGNED, leaves(ways)), tagged(ways, TIMES, chosen))

    def _bend(self, condition: Flow, ways: Flow) -> int:
        """The operation that a choice by the values themselves is: the larger one of several, or a bound; else 0."""
        compared = self.bit("compare")
        more = self._passed(ways) & ~self._passed(condition)
        if not all(path.tags & compared for path in condition) or more & (SUM | LARGEST | self.bit("order")):
            return 0
        bare = {(path.leaf, without(path.tags, compared), path.partners) for path in condition}
        known = {path[:3] for path in ways}
        if bare <= known or {(number, tags ^ FALLS, *met) for number, tags, *met in bare} <= known:
            return self.bit("bound")
        unsigned = [{(number, without(tags, SIGNS), *met) for number, tags, *met in paths} for paths in (bare, known)]
        if unsigned[0] <= unsigned[1]:
            return LARGEST
        whole = coarse(ways)
        inside = (
            number in whole and not (tags & ~whole[number].tags & ~SIGNS or met & ~whole[number].partners)
            for number, tags, met in bare
        )
        return self.bit("bound") if all(inside) else 0

    def _of_data(self, flow: Flow) -> bool:
        return bool(leaves(flow) & ~leaves(self.position))

    @staticmethod
    def _passed(flow: Flow) -> int:
        return reduce(or_, (path.tags for path in flow), 0)

    def _abs(self, name: str, args: Sequence[Value]) -> Value:
        return tagged(self.flow(args[0]), ABS | UNSIGNED)

    def _norm(self, name: str, args: Sequence[Value]) -> Value:
        flow = self.flow(args[0])
        if len(args) > 1 and args[1] == 1:
            return tagged(self._abs(name, args), SUM)
        squares = product(flow, flow)
        self.within += (squares, tagged(squares, SUM))
        return tagged(squares, SUM | ROOT)

    def _gather(self, name: str, args: Sequence[Value]) -> Value:
        flows = [self.flow(arg) for arg in args]
        indices = flows[2] if len(flows) > 2 else NOTHING
        return union(self.taken(flows[0], indices), *flows[3:])

    def _take(self, name: str, args: Sequence[Value]) -> Value:
        return self._gather("gather", [args[0], None, *args[1:2]])

    def _scatter(self, name: str, args: Sequence[Value]) -> Value:
        """What is written, or added, to selected elements of a value."""
        flows = [self.flow(arg) for arg in args]
        index = flows[2] if len(flows) > 2 else NOTHING
        return union(flows[0], self.selected(union(*flows[3:], NOTHING), index))

    def _copy(self, name: str, args: Sequence[Value]) -> Value:
        return args[-1]

    def _reduce(self, name: str, args: Sequence[Value]) -> Value:
        flow = self.flow(args[0])
        return flow if args[1:] == ["none"] else tagged(flow, SUM)


def _adds_up(total: Flow, more: Flow) -> bool:
    """Whether a sum adds to a state: to what depends on one, where the rest does not, or to a state that it lacks."""
    known = leaves(more) >> STATE
    return any(
        path.leaf >= STATE and (not known or not (path.tags or known >> path.leaf - STATE & 1)) for path in total
    )


def _has_state(flow: Flow) -> bool:
    return any(path.leaf >= STATE for path in flow)
