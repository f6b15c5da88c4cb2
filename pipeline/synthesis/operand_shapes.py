"""The shapes at which streams of given types can meet as operands of a function.

No structural primitive exchanges dims, so streams can meet only where the dims that their elements leave over occur in
order: at common supersequences. In larger shapes only what follows from more dims can differ: elements of one stream
meet all those of another along a dim that both have, and a state passes through dims that are invented or split.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product
from typing import TypeAlias

from pipeline.synthesis.coercions import cut, dims_of, factors, multiply_to
from pipeline.synthesis.type_space import ONE, CoercionPath, TypeId, TypeSpace
from step_runtime.base.shapes import Dim, as_dim
from step_runtime.base.types import DType, StreamType, STuple, components_of, layout

Shape: TypeAlias = tuple[Dim, ...]
PartId: TypeAlias = int
"""What an operand is to hold, by number."""
_Places: TypeAlias = tuple[int, ...]
"""A shape as numbers of dims: comparing sympy's expressions would take most of the time."""

_MOST_SHAPES = 8
"""Supersequences, the shortest first."""
_MOST_INTERLEAVED = 24
"""Interleavings of two lists of dims that are kept, the narrowest."""


class OperandShapes:
    """The shapes of one space, found once for all rules; elements may have so many dims that their stream lacks."""

    def __init__(self, space: TypeSpace, invented: int = 0) -> None:
        self._space, self._invented = space, invented
        self._dims: list[Dim] = []
        self._most: list[int] = []
        self._widths: list[int] = []
        self._numbers: dict[Dim, int] = {}
        self._one = self._number(ONE)
        self._repeatable = [self._number(dim) for dim in space.repeatable]
        self._splits: dict[int, list[tuple[int, int]]] = {}
        self._parts: dict[DType, PartId] = {}
        self._dtypes: list[DType] = []
        self._elements: list[list[Counter[int]]] = []
        self._rests: dict[tuple[TypeId, PartId], tuple[_Places, ...]] = {}
        self._shapes: dict[tuple[object, ...], tuple[_Places, ...]] = {}
        self._ways: dict[tuple[TypeId, PartId, _Places], tuple[CoercionPath, ...]] = {}
        self._interleavings: dict[tuple[_Places, _Places], tuple[_Places, ...]] = {}

    def part(self, dtype: DType) -> PartId:
        """The number of what an operand is to hold."""
        if dtype not in self._parts:
            self._parts[dtype] = len(self._dtypes)
            self._dtypes.append(dtype)
            self._elements.append([Counter(map(self._number, layout(each))) for each in components_of(dtype)])
        return self._parts[dtype]

    def serves(self, source: TypeId, part: PartId) -> bool:
        """Whether the elements of a stream can be what an operand is to hold."""
        return bool(self._left_over(source, part))

    def rests(self, source: TypeId, dtype: DType) -> tuple[Shape, ...]:
        """The stream dims that a stream can have left when its elements are of a type; none if they can't be."""
        return tuple(map(self._shape, self._left_over(source, self.part(dtype))))

    def meetings(
        self, sources: tuple[TypeId, ...], parts: tuple[PartId, ...], *, split: bool, grown: bool
    ) -> Iterator[tuple[CoercionPath, ...]]:
        """The ways for streams to meet in types that the space allows, shape by shape.

        Args:
            sources: The streams' types.
            parts: What each is to hold.
            split: Whether a state passes through their dims, so that the same dims split, or within a placeholder,
                may make a difference.
            grown: Whether more dims may make a difference.
        """
        every = tuple(self._left_over(*pair) for pair in zip(sources, parts, strict=True))
        key = every, parts, split, grown
        if key not in self._shapes:
            found = dict.fromkeys(self._found_shapes(every, split=split, grown=grown))
            counts = [count for part in dict.fromkeys(parts) for count in self._elements[part]]
            self._shapes[key] = tuple(each for each in found if self._allowed(counts, each))
        for shape in self._shapes[key]:
            ways = []
            for source, part in zip(sources, parts, strict=True):
                ways.append(self._found_ways(source, part, shape))
                if not ways[-1]:
                    break
            else:
                yield from product(*ways)

    def _found_ways(self, source: TypeId, part: PartId, shape: _Places) -> tuple[CoercionPath, ...]:
        key = source, part, shape
        if key not in self._ways:
            self._ways[key] = self._space.ways(source, StreamType(self._dtypes[part], self._shape(shape)))
        return self._ways[key]

    def _number(self, dim: Dim) -> int:
        if dim not in self._numbers:
            self._numbers[dim] = len(self._dims)
            self._dims.append(dim)
            self._most.append(self._space.most(dim))
            self._widths.append(max(len(factors(dim)), 1))
        return self._numbers[dim]

    def _shape(self, places: _Places) -> Shape:
        return tuple(self._dims[place] for place in places)

    def _places(self, dims: Sequence[Dim]) -> _Places:
        return tuple(self._number(dim) for dim in dims if dim != ONE)

    def _split(self, number: int) -> list[tuple[int, int]]:
        """The inner and outer dims that a dim may be split into."""
        if number not in self._splits:
            dim = self._dims[number]
            pairs = [(inner, as_dim(dim / inner)) for inner in self._space.quotients(dim)]
            self._splits[number] = [(self._number(inner), self._number(outer)) for inner, outer in pairs]
        return self._splits[number]

    def _allowed(self, counts: Sequence[Counter[int]], shape: _Places) -> bool:
        """As `TypeSpace.allowed`, for elements with so many of each dim."""
        for each in counts:
            found, total = dict(each), 0
            for number in shape:
                found[number] = found.get(number, 0) + 1
            for number, count in found.items():
                total += count * (number != self._one)
                if count > self._most[number] or total > self._space.most_dims:
                    return False
        return True

    def _left_over(self, source: TypeId, part: PartId) -> tuple[_Places, ...]:
        key = source, part
        if key not in self._rests:
            found = self._found_rests(self._space.types[source], self._dtypes[part])
            self._rests[key] = tuple(dict.fromkeys(found))
        return self._rests[key]

    def _found_rests(self, source: StreamType, dtype: DType) -> Iterator[_Places]:
        if source.dtype == dtype:
            yield self._places(source.shape)
        elif not isinstance(source.dtype, STuple) and not isinstance(dtype, STuple):
            (element, _), (wanted, dims) = cut(source.dtype), cut(dtype)
            if element == wanted:
                yield from self._left(self._places(dims_of(source)), self._places(dims), self._invented)

    def _left(self, dims: _Places, wanted: _Places, invented: int) -> Iterator[_Places]:
        """What is left of dims when the innermost are those wanted: as they are, parts or products of them, or new."""
        if not wanted:
            yield dims
            return
        first, rest = wanted[0], wanted[1:]
        if dims and dims[0] == first:
            yield from self._left(dims[1:], rest, invented)
            return
        for inner, outer in self._split(dims[0]) if dims else ():
            if inner == first:
                yield from self._left((outer, *dims[1:]), rest, invented)
        for inner, outer in self._split(first) if len(dims) > 1 else ():
            if (inner, outer) == dims[:2]:
                yield from self._left(dims[2:], rest, invented)
        for width in range(3, len(dims) + 1 if self._widths[first] > 2 else 0):
            if multiply_to(self._shape(dims[:width]), self._dims[first]):
                yield from self._left(dims[width:], rest, invented)
        if invented:
            yield from self._left(dims, rest, invented - 1)

    def _found_shapes(self, every: Sequence[Sequence[_Places]], *, split: bool, grown: bool) -> Iterator[_Places]:
        least = dict.fromkeys(shape for rests in product(*every) for shape in self._supersequences(rests))
        shapes = sorted(least, key=self._width)[:_MOST_SHAPES]
        for shape in shapes:
            yield shape or (self._one,)
        for shape in shapes:
            for place, dim in enumerate(shape):
                if sum(any(dim in rest for rest in rests) for rests in every) > 1:
                    yield (*shape[:place], dim, *shape[place:])
                for inner, outer in self._split(dim) if split else ():
                    yield (*shape[:place], inner, outer, *shape[place + 1 :])
            if shape and split:
                yield (*shape, self._one)
            for place in range(len(shape) + 1) if grown else ():
                yield from ((*shape[:place], dim, *shape[place:]) for dim in self._repeatable)

    def _supersequences(self, rests: Sequence[_Places]) -> list[_Places]:
        merged: list[_Places] = [()]
        for rest in rests:
            found = [shape for known in merged for shape in self._interleaved(known, rest)]
            merged = sorted(found, key=self._width)[:_MOST_SHAPES]
        return merged

    def _width(self, shape: _Places) -> int:
        """The number of dims, where a product counts for its factors."""
        return sum(self._widths[number] for number in shape)

    def _interleaved(self, a: _Places, b: _Places) -> tuple[_Places, ...]:
        """The shortest lists of dims that hold both in order; equal dims coincide."""
        if not a or not b:
            return (a or b,)
        if (a, b) not in self._interleavings:
            found = dict.fromkeys(self._found_interleaved(a, b))
            self._interleavings[a, b] = tuple(sorted(found, key=self._width)[:_MOST_INTERLEAVED])
        return self._interleavings[a, b]

    def _found_interleaved(self, a: _Places, b: _Places) -> Iterator[_Places]:
        if a[0] == b[0]:
            yield from ((a[0], *rest) for rest in self._interleaved(a[1:], b[1:]))
            return
        if a[0] not in b:
            yield from ((a[0], *rest) for rest in self._interleaved(a[1:], b))
        if b[0] not in a:
            yield from ((b[0], *rest) for rest in self._interleaved(a, b[1:]))
        # A product of dims meets its factors if it is split, with either of them inside.
        for whole, other in ((a, b), (b, a)):
            for inner, outer in self._split(whole[0]) if other[0] not in whole else ():
                if inner == other[0]:
                    yield from ((inner, *rest) for rest in self._interleaved((outer, *whole[1:]), other[1:]))
                elif outer == other[0] and inner not in (*other, *whole):
                    yield from ((inner, *rest) for rest in self._interleaved((outer, *whole[1:]), other))
