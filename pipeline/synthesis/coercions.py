"""How one stream type becomes another by structural primitives.

A stream of Buffers and the stream of their elements hold the same numbers in the same order; they differ only in
where the list of dims is cut into buffer dims and stream dims. So a type is treated as an element, one list of
dims (innermost first) and a cut, and a coercion is an alignment of two such lists: keep a dim, insert one
(Repeat, Promote), drop a 1, merge neighbours (Flatten), split a dim (Reshape) or both, followed by moving the cut
(Bufferize, Streamify). Every primitive's own type rule is applied, so a coercion is correct by construction.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

import sympy

from step_runtime.base.errors import RuleError
from step_runtime.base.shapes import Dim, as_dim, exact_value
from step_runtime.base.types import Buffer, DType, StreamType
from step_runtime.primitives import Bufferize, Flatten, Primitive, Promote, Repeat, Reshape, Rules, Streamify

ONE: Dim = sympy.Integer(1)
"""There is one such object, as `as_dim` makes all dims."""
_WIDEST = 7
"""Longer lists of dims are not aligned: it would be slow, and they do not occur."""


class Edit(NamedTuple):
    """One step of an alignment: what happens to the next `taken` dims of the source to give `given`."""

    kind: Literal["keep", "insert", "drop", "merge", "split"]
    taken: tuple[Dim, ...]
    given: tuple[Dim, ...]


_COST = {"keep": 0.0, "insert": 1.0, "drop": 0.3, "merge": 1.0, "split": 1.0}
"""What edits cost: about the primitives that they take; dims of 1 are cheap to drop."""


@dataclass(frozen=True)
class Coercion:
    """Structural primitives, one after the other, from one stream type to another.

    `cost` grows with the number of primitives and with every dim that is invented rather than kept.
    """

    ops: tuple[Primitive, ...]
    cost: float

    @cached_property
    def _hash(self) -> int:
        return hash((self.ops, self.cost))

    def __hash__(self) -> int:
        return self._hash


def cut(dtype: DType) -> tuple[DType, tuple[Dim, ...]]:
    """The element below a Buffer, and the Buffer's dims; another type is its own element."""
    return (dtype.elem, dtype.dims) if isinstance(dtype, Buffer) else (dtype, ())


def dims_of(stream: StreamType) -> tuple[Dim, ...]:
    """Buffer dims, then stream dims, innermost first."""
    return cut(stream.dtype)[1] + stream.shape


def without_ones(dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """The dims other than a literal 1."""
    return tuple([dim for dim in dims if dim is not ONE])


def find_coercions(source: StreamType, target: StreamType) -> tuple[Coercion, ...]:
    """Up to two coercions from `source` to `target`, cheapest first; none if structural primitives do not suffice."""
    if source == target:
        return (Coercion((), 0.0),)
    if cut(source.dtype)[0] != cut(target.dtype)[0]:
        return ()
    a, b = dims_of(source), dims_of(target)
    if max(len(a), len(b)) > _WIDEST:
        return ()
    coercions: dict[tuple[Primitive, ...], Coercion] = {}
    for cost, edits in _alignments(a, b):
        try:
            ops = _Walk(source, target).run(edits)
        except RuleError:
            continue
        coercions.setdefault(ops, Coercion(ops, cost + len(ops)))
    return tuple(sorted(coercions.values(), key=lambda coercion: coercion.cost))


@lru_cache(maxsize=8192)
def _alignments(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[tuple[float, tuple[Edit, ...]], ...]:
    """The two cheapest ways to turn the dims `a` into `b`."""
    if not a and not b:
        return ((0.0, ()),)
    found = [
        (cost + _cost(edit), (edit, *rest))
        for edit in _first_edits(a, b)
        for cost, rest in _alignments(a[len(edit.taken) :], b[len(edit.given) :])
    ]
    return tuple(sorted(found, key=lambda item: item[0])[:2])


def _first_edits(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> Iterator[Edit]:
    """The possible steps at the innermost dims."""
    if a and b and a[0] == b[0]:
        yield Edit("keep", a[:1], b[:1])
    if a and a[0] is ONE:
        yield Edit("drop", a[:1], ())
    if not b:
        return
    yield Edit("insert", (), b[:1])
    if factors(b[0]):
        widths = (width for width in range(2, len(a) + 1) if multiply_to(a[:width], b[0]))
        yield from (Edit("merge", a[:width], b[:1]) for width in widths)
    if a and not a[0].is_Integer:
        widths = (width for width in range(2, len(b) + 1) if multiply_to(b[:width], a[0]) and ONE not in b[:width])
        yield from (Edit("split", a[:1], b[:width]) for width in widths)


def _cost(edit: Edit) -> float:
    return _COST["drop"] if edit.kind == "insert" and edit.given[0] is ONE else _COST[edit.kind]


def multiply_to(dims: tuple[Dim, ...], whole: Dim) -> bool:
    """Whether the product of dims is another dim."""
    # Different numbers rule a product out, which takes far less time than to multiply expressions.
    return math.prod(map(_number, dims)) == _number(whole) and _product(dims) == whole


@lru_cache(maxsize=8192)
def _number(dim: Dim) -> int | Fraction:
    """The dim's value where each symbol stands for a number of its own."""
    return exact_value(dim, {symbol.name: zlib.crc32(symbol.name.encode()) for symbol in dim.free_symbols})


@lru_cache(maxsize=8192)
def _product(dims: tuple[Dim, ...]) -> Dim:
    result: Dim = ONE
    for dim in dims:
        result = as_dim(result * dim)
    return result


class _Walk:
    """Turns an alignment into primitives, keeping track of the type on the way."""

    def __init__(self, source: StreamType, target: StreamType) -> None:
        self.now = source
        self.target = target
        self.ops: list[Primitive] = []

    def run(self, edits: Sequence[Edit]) -> tuple[Primitive, ...]:
        """The primitives.

        Raises:
            RuleError: This alignment is not possible.
        """
        self._narrow(edits)
        self._widen([edit for edit in edits if edit.kind != "drop"])
        self._settle()
        return tuple(self.ops)

    def _do(self, op: Primitive) -> None:
        self.now = op.infer((self.now,), Rules())[0]
        self.ops.append(op)

    @property
    def _cut(self) -> int:
        return len(cut(self.now.dtype)[1])

    def _move_cut(self, position: int) -> None:
        """Moves the cut to a position; if all dims would be buffered, a placeholder is promoted outside them."""
        if self._cut > position:
            self._do(Streamify())
        missing = position - self._cut
        if missing == len(self.now.shape):
            self._do(Promote(len(self.now.shape)))
        if missing:
            self._do(Bufferize(missing))

    def _narrow(self, edits: Sequence[Edit]) -> None:
        """Drops, merges and splits, outermost first so that inner indices stay true."""
        index = sum(len(edit.taken) for edit in edits)
        for edit in reversed(edits):
            index -= len(edit.taken)
            if edit.kind in ("keep", "insert"):
                continue
            if edit.kind == "drop" and index == self._cut == len(dims_of(self.now)) - 1:
                continue  # The only stream dim: `_settle` merges it into those that are inserted.
            if index < self._cut or (index == self._cut > 0 and len(self.now.shape) == 1):
                self._do(Streamify())
            place = index - self._cut
            if edit.kind == "drop":
                self._do(Flatten((max(place, 1),)))
            else:
                if len(edit.taken) > 1:
                    self._do(Flatten(tuple(range(place + 1, place + len(edit.taken)))))
                for step, dim in enumerate(edit.given[:-1]):
                    self._do(Reshape((place + step,), dim))

    def _widen(self, edits: Sequence[Edit]) -> None:
        """Inserts dims, innermost first, so that the cut mostly moves outwards; neighbours in one place, inwards."""
        place = 0
        for inserts, group in itertools.groupby(edits, lambda edit: edit.kind == "insert"):
            neighbours = list(group)
            for edit in reversed(neighbours) if inserts else ():
                self._insert(place, edit.given[0])
            place += sum(len(edit.given) for edit in neighbours)

    def _insert(self, place: int, dim: Dim) -> None:
        if dim is ONE:
            if place < self._cut:
                self._do(Streamify())
            self._do(Promote(place - self._cut))
            return
        self._move_cut(place)
        self._do(Repeat(dim))

    def _settle(self) -> None:
        """Drops a placeholder, the source's or one that `_widen` needed, and moves the cut to the target's."""
        final = dims_of(self.target)
        if len(dims_of(self.now)) > len(final):
            if len(self.now.shape) < 2:
                self._do(Streamify())
            self._do(Flatten((len(self.now.shape) - 1,)))
        if dims_of(self.now) != final:
            raise RuleError("coercion", "the alignment did not lead to the target")
        wanted = len(cut(self.target.dtype)[1])
        if self._cut > wanted:
            self._do(Streamify())
        if wanted > self._cut:
            self._do(Bufferize(wanted - self._cut))


@lru_cache(maxsize=8192)
def factors(dim: Dim) -> tuple[Dim, ...]:
    """The factors of a product of dims, those of powers one by one; none of another dim."""
    if isinstance(dim, sympy.Symbol | sympy.Integer):
        return ()
    if isinstance(dim, sympy.Mul) and not any(isinstance(part, sympy.Pow | sympy.Add) for part in dim.args):
        return tuple(dim.args)
    if sympy.fraction(dim)[1] != 1:
        return ()
    parts: list[sympy.Expr] = []
    # Only what all summands share is taken out: factoring a polynomial may take forever.
    for part in sympy.Mul.make_args(sympy.factor_terms(dim)):
        base, power = part.as_base_exp()
        parts += [base] * int(power) if power.is_Integer and power > 0 else [part]
    found = tuple(as_dim(part) for part in parts if part != 1)
    return found if len(found) > 1 else ()
