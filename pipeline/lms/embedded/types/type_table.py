"""The types of one task, interned and numbered, with cached answers to questions about them.

A sample repeats a few questions hundreds of times: can this stream serve that component, how do two streams come to
one shape, what does folding leave. All answers depend on types alone, so they are cached per task and shared by
its samples. Entries are only ever added, and adding one twice is harmless, so threads may share a table.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import sympy

from pipeline.lms.embedded.types.coercions import (
    ONE,
    Coercion,
    cut,
    dims_of,
    factors,
    find_coercions,
    interleavings,
    remainder,
    without_ones,
)
from step_runtime.base.shapes import Dim, as_dim
from step_runtime.base.types import DType, Multihot, StreamType, STuple
from step_runtime.tasks.scope import Scope

INVENTED = 2.0
_RECUT = 1.2
_TAKEN_OUT = 1.9
"""The cost for a stream to serve a component by inventing a dim, collecting elements in Buffers, or taking them out."""

_MOST_TURNED = 8
"""The number of choices that are considered of which of two like dims each source varies along."""

TypeId: TypeAlias = int
Need: TypeAlias = tuple[DType, ...]
"""The components that a function, a route or an output takes, in order."""


@dataclass(frozen=True)
class Join:
    """Sources coerced to one shape: the shape, and for each source its coercion.

    It is `crossed` where elements of some sources meet those of others at all places of this dim, not only their own.
    """

    shape: tuple[Dim, ...]
    coercions: tuple[Coercion, ...]
    cost: float
    crossed: Dim | None = None


@dataclass(frozen=True)
class FoldSpec:
    """A way to fold: Accum or Scan over `b` inner dims; `inner` are those other than 1.

    With a `placeholder` the outermost dim is folded too, so that a 1 has to be promoted outside it.
    """

    scan: bool
    b: int
    inner: tuple[Dim, ...]
    placeholder: bool

    @cached_property
    def _hash(self) -> int:
        return hash((self.scan, self.b, self.inner, self.placeholder))

    def __hash__(self) -> int:
        return self._hash


class TypeTable:
    """The types that programs of one scope meet; `sizes` are those that hold at every set of sizes."""

    def __init__(self, scope: Scope, sizes: dict[str, int]) -> None:
        self.scope = scope
        self._sizes = sizes
        self.types: list[StreamType] = []
        self._ids: dict[StreamType, TypeId] = {}
        self._growing = threading.Lock()
        self._coercions: dict[tuple[TypeId, TypeId], tuple[Coercion, ...]] = {}
        self._needs: dict[Need, int] = {}
        self._fits: dict[tuple[TypeId, int], tuple[int, float]] = {}
        self._joins: dict[tuple[object, ...], tuple[Join, ...]] = {}
        self._join_numbers: dict[tuple[object, ...], int] = {}
        self._count = itertools.count()
        self._folds: dict[tuple[Dim, ...], tuple[FoldSpec, ...]] = {}
        self._same_coercions: dict[Coercion, Coercion] = {}
        self._same_folds: dict[FoldSpec, FoldSpec] = {}
        """Equal ones are one object, as those are compared fastest."""
        self.inputs = tuple(self.intern(stream) for stream in scope.inputs.values())
        self.outputs = tuple(self.intern(stream) for stream in scope.outputs)
        self.output_dims = tuple(without_ones(dims_of(stream)) for stream in scope.outputs)
        kept = [frozenset(part for dim in dims for part in (dim, *factors(dim))) for dims in self.output_dims]
        self.kept_dims = frozenset().union(*kept)
        """The dims of any output, with the factors of products;"""
        self.batch_dims = self._find_batch_dims()
        self.always_kept = frozenset.intersection(*kept) if kept else frozenset[Dim]()
        """and those of all outputs."""

    def _find_batch_dims(self) -> frozenset[Dim]:
        """The outermost dim of all inputs and outputs, if there are others."""
        streams = [*self.scope.inputs.values(), *self.scope.outputs]
        outermost = {stream.shape[-1] for stream in streams if stream.shape}
        inner = any(len(without_ones(stream.shape)) > 1 for stream in self.scope.inputs.values())
        return frozenset(outermost) if len(outermost) == 1 and inner and all(s.shape for s in streams) else frozenset()

    def intern(self, stream: StreamType) -> TypeId:
        """The type's number."""
        number = self._ids.get(stream)
        if number is not None:
            return number
        with self._growing:
            if stream not in self._ids:
                self.types.append(stream)
                self._ids[stream] = len(self.types) - 1
            return self._ids[stream]

    def coercions(self, source: TypeId, target: TypeId) -> tuple[Coercion, ...]:
        """As `find_coercions`."""
        key = (source, target)
        found = self._coercions.get(key)
        if found is None:
            ways = find_coercions(self.types[source], self.types[target])
            found = self._coercions[key] = tuple(self._same_coercions.setdefault(way, way) for way in ways)
        return found

    def number(self, need: Need) -> int:
        """A number for a need, under which `fit` caches it."""
        return self._needs.setdefault(need, len(self._needs))

    def fit(self, source: TypeId, need: Need, number: int) -> tuple[int, float]:
        """How many of the first components of `need` one stream can serve (0: none), and its distance from them."""
        key = (source, number)
        found = self._fits.get(key)
        if found is None:
            found = self._fits[key] = self._find_fit(self.types[source], need)
        return found

    def _find_fit(self, stream: StreamType, need: Need) -> tuple[int, float]:
        if isinstance(stream.dtype, STuple):
            own = stream.dtype.components
            return (len(own), 0.0) if own == need[: len(own)] else (0, 0.0)
        (element, dims), (wanted, wanted_dims) = cut(stream.dtype), cut(need[0])
        own = dims_of(stream)
        if element != wanted or remainder(own, wanted_dims) is None:
            return 0, 0.0
        known = {part for dim in own for part in (dim, *factors(dim))}
        invented = sum(
            dim not in known and not (factors(dim) and known.issuperset(factors(dim)))
            for dim in without_ones(wanted_dims)
        )
        recut = 0.0 if dims == wanted_dims else _RECUT if len(dims) <= len(wanted_dims) else _TAKEN_OUT
        return 1, INVENTED * invented + recut

    def joins(
        self,
        sources: Sequence[TypeId],
        operand_types: Sequence[DType],
        number: int,
        towards: tuple[Dim, ...] = (),
        pairing: frozenset[Dim] = frozenset(),
    ) -> tuple[Join, ...]:
        """Ways to bring sources, each of which serves one dtype, to one shape, cheapest first.

        `number` is that of the need that `operand_types` belongs to; `towards` are stream dims that the shape should
        have as well, such as those of a stream it will meet. Along the dims that are `pairing`, several sources may
        meet all elements of others.
        """
        key = (*sources, -1, number, len(operand_types), towards, pairing)
        found = self._joins.get(key)
        if found is None:
            found = self._joins[key] = self._find_joins(sources, operand_types, towards, pairing)
        return found

    def join_number(self, sources: Sequence[TypeId], count: int, number: int, towards: tuple[Dim, ...]) -> int:
        """A number for the question that `joins` answers, with the `count` of the operand types."""
        return self._join_numbers.setdefault((*sources, -1, number, count, towards), next(self._count))

    def plain_joins(self, sources: Sequence[TypeId], operand_types: Sequence[DType], number: int) -> tuple[Join, ...]:
        """Those `joins` in which elements meet at their own places only."""
        return tuple(join for join in self.joins(sources, operand_types, number) if join.crossed is None)

    def _find_joins(
        self,
        sources: Sequence[TypeId],
        operand_types: Sequence[DType],
        towards: tuple[Dim, ...],
        pairing: frozenset[Dim],
    ) -> tuple[Join, ...]:
        pairs = list(zip(sources, operand_types, strict=True))
        raw = {self._as_it_stands(*pair) for pair in pairs}
        shapes = [shape for shape in raw if shape and len(raw) == 1 and not towards]
        merged = self.meetings(sources, operand_types, towards)
        if not merged:
            return ()
        shapes += [dims or (ONE,) for dims in merged]
        if shapes and not towards:
            shapes += self._split(shapes[-1])
        joins = [join for shape in dict.fromkeys(shapes) for join in self._joins_at(pairs, shape)]
        if not towards:
            joins += self._crossed(pairs, merged[:1], pairing)
        return tuple(sorted(joins, key=lambda join: join.cost))

    def meetings(
        self, sources: Sequence[TypeId], operand_types: Sequence[DType], towards: tuple[Dim, ...] = ()
    ) -> list[tuple[Dim, ...]]:
        """The shortest shapes that have the dims of all sources beside those that elements take, and of `towards`."""
        merged: list[tuple[Dim, ...]] = [towards]
        for source, dtype in zip(sources, operand_types, strict=True):
            rest = self._rest(source, dtype)
            if rest is None:
                return []
            merged = list(itertools.chain.from_iterable(interleavings(known, rest) for known in merged))[:8]
        return merged

    def _joins_at(self, pairs: Sequence[tuple[TypeId, DType]], shape: tuple[Dim, ...]) -> Iterator[Join]:
        """Joins at a shape: where it has a dim twice, a source that has it once may vary along either."""
        ways = []
        for source, dtype in pairs:
            rest = self._rest(source, dtype) or ()
            twice = any(shape.count(dim) > 1 and rest.count(dim) == 1 for dim in rest)
            found = self.coercions(source, self.intern(StreamType(dtype, shape)))
            ways.append(found if twice else found[:1])
        disorder = self._disorder(shape)
        for coercions in itertools.islice(itertools.product(*ways), _MOST_TURNED):
            yield Join(shape, coercions, sum(coercion.cost for coercion in coercions) + disorder)

    def _crossed(
        self, pairs: Sequence[tuple[TypeId, DType]], shapes: Iterable[tuple[Dim, ...]], pairing: frozenset[Dim]
    ) -> Iterator[Join]:
        """Joins at which each element of some sources meets all those of others along a dim that all of them have."""
        rests = [self._rest(*pair) or () for pair in pairs]
        for shape in shapes:
            for place, dim in enumerate(shape):
                with_it = [source for source, rest in enumerate(rests) if rest.count(dim) == 1]
                if len(with_it) < 2 or shape.count(dim) > 1 or dim in self.batch_dims - pairing:
                    continue
                larger = (*shape[:place], dim, *shape[place:])
                ways = [self.coercions(s, self.intern(StreamType(dtype, larger))) for s, dtype in pairs]
                for across in _sides(with_it, several=dim in pairing) if all(ways) else ():
                    if any(len(ways[source]) < 2 for source in across):
                        continue
                    coercions = tuple(way[source in across] for source, way in enumerate(ways))
                    cost = sum(coercion.cost for coercion in coercions) + self._disorder(shape)
                    yield Join(larger, coercions, cost, crossed=dim)

    def _split(self, shape: tuple[Dim, ...]) -> list[tuple[Dim, ...]]:
        """Shapes in which one dim is split so that an outer part of it is a dim of the outputs, or a factor of it."""
        own = [factor for dim in shape for factor in factors(dim)]
        parts = dict.fromkeys(dim for dim in (*itertools.chain(*self.output_dims), *own) if dim not in shape)
        splits = ((place, dim, part) for place, dim in enumerate(shape) if factors(dim) for part in parts)
        return [
            (*shape[:place], inner, part, *shape[place + 1 :])
            for place, dim, part in splits
            if sympy.fraction(inner := as_dim(dim / part))[1] == 1
        ]

    def _as_it_stands(self, source: TypeId, dtype: DType) -> tuple[Dim, ...] | None:
        """The stream dims that are left when `dtype` takes its dims from inside, ones and all."""
        stream = self.types[source]
        if stream.dtype == dtype:
            return stream.shape
        dims, wanted = dims_of(stream), cut(dtype)[1]
        return dims[len(wanted) :] if dims[: len(wanted)] == wanted else None

    def _rest(self, source: TypeId, dtype: DType) -> tuple[Dim, ...] | None:
        stream = self.types[source]
        if stream.dtype == dtype:
            return without_ones(stream.shape)
        return remainder(dims_of(stream), cut(dtype)[1])

    def _disorder(self, shape: tuple[Dim, ...]) -> float:
        """How far the order of a shape's dims is from that of the outputs, at best."""
        return min((_inversions(shape, dims) for dims in self.output_dims), default=0.0)

    def folds(self, shape: tuple[Dim, ...]) -> tuple[FoldSpec, ...]:
        """The ways to fold a stream of this shape; folding only ones does not count."""
        found = self._folds.get(shape)
        if found is None:
            ways = []
            for b in range(1, min(len(shape), 3) + 1):
                if inner := without_ones(shape[:b]):
                    ways += [FoldSpec(scan, b, inner, b == len(shape)) for scan in (False, True)]
            found = self._folds[shape] = tuple(self._same_folds.setdefault(way, way) for way in ways)
        return found

    def bits(self, index: DType) -> int | None:
        """The number of bits of a Multihot, where it is the same at every set of sizes; None for other types."""
        if not isinstance(index, Multihot):
            return None
        return int(index.length) if index.length.is_Integer else self._sizes.get(str(index.length))


def _sides(sources: Sequence[int], *, several: bool) -> list[tuple[int, ...]]:
    """The sources that may meet the others: one of them, or also `several`: the first, the last, or all but one."""
    count = len(sources)
    sides: list[tuple[int, ...]] = [(source,) for source in sources]
    if several:
        sides += [side for end in range(2, count) for side in (tuple(sources[:end]), tuple(sources[-end:]))]
        sides += [tuple(source for source in sources if source != one) for one in sources] if count > 2 else []
    return list(dict.fromkeys(sides))


def _inversions(shape: tuple[Dim, ...], order: tuple[Dim, ...]) -> float:
    places = [order.index(dim) for dim in shape if dim in order]
    return 1.5 * sum(a > b for a, b in itertools.combinations(places, 2))
