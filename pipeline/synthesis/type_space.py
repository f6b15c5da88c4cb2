"""The types that streams of a task's programs may have, and the structural primitives between them.

A `CoercionPath` is a shortest chain of structural primitives between two types; as dims are distinguished by name, what
a path does to the data follows from its two ends. RepeatRef has no place in paths: where its reference's innermost dim
has a name, Repeat gives the same stream and consumes less.

The space is finite: dims are those that the task declares and their quotients; a type holds a dim no more often than a
declared type, and exceeds the number of dims of declared types by at most one.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, count, permutations

import sympy

from pipeline.lms.embedded.types.coercions import find_coercions
from step_runtime.base.errors import RuleError
from step_runtime.base.shapes import Dim, try_evaluate
from step_runtime.base.types import Buffer, DType, Multihot, StreamType, STuple, components_of, layout
from step_runtime.primitives import Bufferize, Flatten, Primitive, Promote, Repeat, Reshape, Rules, Streamify
from step_runtime.tasks.scope import Scope

TypeId = int

LONGEST = 6
"""Structural primitives in a row."""
_MOST_REACHED = 400
"""Types that paths from an input's type lead to (from others a third): with many dims, and quotients of them, there
would be tens of thousands."""
_SHORT = 4
_WEIGHTS: dict[type[Primitive], int] = {Repeat: 3, Promote: 2}
"""How late paths are continued: in longer ones an invented dim or a placeholder comes after what moves dims."""
_WAYS = 2
"""Chains between the same two types that are distinguished."""
_REPEATS = 2
"""Dims that one path may invent."""
ONE = sympy.Integer(1)


@dataclass(frozen=True)
class CoercionPath:
    """Structural primitives from a stream to one of another type; `steps` are the types on the way, both ends too."""

    source: TypeId
    ops: tuple[Primitive, ...]
    steps: tuple[StreamType, ...] = field(repr=False, compare=False)

    @property
    def target(self) -> StreamType:
        """The type at its end."""
        return self.steps[-1]

    @cached_property
    def cost(self) -> int:
        """The number of its choices: one for its presence, and one for each invented dim."""
        return bool(self.ops) + sum(isinstance(op, Repeat) for op in self.ops)

    @cached_property
    def repeated(self) -> frozenset[Dim]:
        """The dims along which its result is constant by construction."""
        return frozenset(op.n for op in self.ops if isinstance(op, Repeat))


class TypeSpace:
    """The types of one task at one set of sizes; equal types have one number.

    Args:
        scope: The names of the task.
        spare: How much oftener than in any declared type a dim may occur: with 1, every element can meet every other.
    """

    def __init__(self, scope: Scope, spare: int = 0) -> None:
        self.scope = scope
        self.types: list[StreamType] = []
        self._ids: dict[StreamType, TypeId] = {}
        self._allowed: dict[StreamType, bool] = {}
        self._moves: dict[StreamType, list[tuple[Primitive, StreamType]]] = {}
        self._paths: dict[TypeId, list[CoercionPath]] = {}
        self._rules = Rules(scope.sizes)
        declared = [*scope.inputs.values(), *scope.outputs]
        counts = [found for type_ in declared for found in _dim_counts(type_)]
        counts += [
            Counter(layout(part))
            for fn in scope.fns.values()
            for t in (fn.input, fn.output)
            for part in components_of(t)
        ]
        self._most: Counter[Dim] = Counter({ONE: 1})
        for found in counts:
            self._most |= found
        self._total = 1 + max((_total(found) for found in counts), default=0)
        for dim in [dim for dim in self._most if dim != ONE]:
            self._most[dim] += spare
        self._factors = _factors([dim for dim in self._most if dim != ONE])
        for dim in chain.from_iterable(self._factors.values()):
            self._most[dim] = max(self._most[dim], 1)
        repeatable = [dim for type_ in declared for found in _dim_counts(type_) for dim in found if dim != ONE]
        self._repeats = [Repeat(dim) for dim in dict.fromkeys(repeatable)]
        self.inputs = [self.intern(type_) for type_ in scope.inputs.values()]
        self.outputs = [self.intern(type_) for type_ in scope.outputs]
        self.demanded = self._demanded()

    def _demanded(self) -> set[DType]:
        """The element types that functions take, whole or in part, and that outputs have."""
        found: set[DType] = {type_.dtype for type_ in self.scope.outputs}
        for fn in self.scope.fns.values():
            parts = components_of(fn.input)
            for start in range(len(parts)):
                for end in range(start + 1, len(parts) + 1):
                    found.add(joined(parts[start:end]))
        return found

    def intern(self, type_: StreamType) -> TypeId:
        """The type's number."""
        if type_ not in self._ids:
            self._ids[type_] = len(self.types)
            self.types.append(type_)
        return self._ids[type_]

    def allowed(self, type_: StreamType) -> bool:
        """Whether a type may occur in a program."""
        if type_ not in self._allowed:
            self._allowed[type_] = all(
                _total(found) <= self._total and all(found[dim] <= self._most[dim] for dim in found)
                for found in _dim_counts(type_)
            )
        return self._allowed[type_]

    def paths(self, source: TypeId) -> list[CoercionPath]:
        """Shortest paths to every type of a demanded element type or with an index, the shortest first."""
        if source not in self._paths:
            start = CoercionPath(source, (), (self.types[source],))
            reached = {start.target: start}
            open_, number = [(0, 0, start)], count()
            most = _MOST_REACHED if source in self.inputs else _MOST_REACHED // 3
            while open_ and len(reached) < most:
                weight, _, before = heapq.heappop(open_)
                for path in self._longer(before, reached) if len(before.ops) < LONGEST else ():
                    added = 1 if len(path.ops) < _SHORT else _WEIGHTS.get(type(path.ops[-1]), 1)
                    heapq.heappush(open_, (weight + added, next(number) + 1, path))
            found = [
                path
                for path in reached.values()
                if path.target.dtype in self.demanded or isinstance(path.target.dtype, Multihot)
            ]
            found += [other for path in found for other in self._others(path)]
            self._paths[source] = sorted(found, key=lambda path: len(path.ops))
        return self._paths[source]

    def _others(self, path: CoercionPath) -> Iterator[CoercionPath]:
        """Other paths between the same types, where a dim that occurs twice lets them differ in meaning."""
        shape = path.target.shape
        if path.repeated and any(shape.count(dim) > 1 for dim in path.repeated):
            for way in find_coercions(path.steps[0], path.target)[:_WAYS]:
                other = self._path_of(path.source, way.ops)
                if other.ops != path.ops:
                    yield other

    def _path_of(self, source: TypeId, ops: tuple[Primitive, ...]) -> CoercionPath:
        steps = [self.types[source]]
        for op in ops:
            steps.append(op.infer((steps[-1],), self._rules)[0])
        return CoercionPath(source, ops, tuple(steps))

    def direct(self, source: TypeId, target: StreamType) -> CoercionPath | None:
        """A path by aligning dims, which may be longer than those of `paths`; None if there is none."""
        for way in find_coercions(self.types[source], target)[:1]:
            path = self._path_of(source, way.ops)
            if sum(isinstance(op, Repeat) for op in path.ops) <= _REPEATS:
                return path
        return None

    def path(self, source: TypeId, target: StreamType) -> CoercionPath | None:
        """A shortest path between two types, if there is one; by aligning dims where the source's are not listed."""
        if source not in self._paths:
            return self.direct(source, target)
        return next((path for path in self._paths[source] if path.target == target), None)

    def _longer(self, path: CoercionPath, reached: dict[StreamType, CoercionPath]) -> Iterator[CoercionPath]:
        repeats = sum(isinstance(op, Repeat) for op in path.ops)
        for op, target in self._next(path.target):
            if target not in reached and not (isinstance(op, Repeat) and repeats == _REPEATS):
                reached[target] = CoercionPath(path.source, (*path.ops, op), (*path.steps, target))
                yield reached[target]

    def _next(self, type_: StreamType) -> list[tuple[Primitive, StreamType]]:
        if type_ not in self._moves:
            found = []
            for op in self._structural(type_):
                try:
                    target = op.infer((type_,), self._rules)[0]
                except RuleError:
                    continue
                if self.allowed(target):
                    found.append((op, target))
            self._moves[type_] = found
        return self._moves[type_]

    def _structural(self, type_: StreamType) -> Iterator[Primitive]:
        if isinstance(type_.dtype, Buffer):
            yield Streamify()
        if not isinstance(type_.dtype, STuple):
            yield from (Bufferize(a) for a in range(1, type_.rank + 1))
        yield from (Flatten((index,)) for index in range(1, type_.rank + 1))
        for index, dim in enumerate(type_.shape):
            yield from (Reshape((index,), inner) for inner in self._factors.get(dim, ()))
        # A placeholder usually belongs at an end.
        yield from (Promote(b) for b in range(type_.rank + 1, -1, -1))
        yield from self._repeats


def joined(parts: tuple[DType, ...]) -> DType:
    """One component itself, several as a tuple."""
    return parts[0] if len(parts) == 1 else STuple(parts)


def _dim_counts(type_: StreamType) -> list[Counter[Dim]]:
    """For each component how often each dim occurs, in the stream and in the element."""
    return [Counter((*type_.shape, *layout(part))) for part in components_of(type_.dtype)]


def _total(found: Counter[Dim]) -> int:
    return sum(number for dim, number in found.items() if dim != ONE)


def _factors(dims: list[Dim]) -> dict[Dim, list[Dim]]:
    """For each dim the inner dims that it may be split into: declared dims, their quotients, and factors."""
    found: dict[Dim, list[Dim]] = {}
    parts = dict.fromkeys(factor for dim in dims for factor in dim.as_ordered_factors() if factor.free_symbols)
    dims = list(dict.fromkeys([*dims, *parts]))
    for whole, part in permutations(dims, 2):
        quotient = sympy.cancel(whole / part)
        if sympy.fraction(quotient)[1] == 1 and quotient != 1 and (try_evaluate(quotient, {}) or 2) > 0:
            found.setdefault(whole, []).extend(dim for dim in (quotient, part) if dim not in found.get(whole, []))
    return found
