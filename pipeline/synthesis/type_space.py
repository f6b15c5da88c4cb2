"""The types that streams of a task's programs may have, and the structural primitives between them.

A `CoercionPath` is a shortest chain of structural primitives between two types; as dims are distinguished by name, what
a path does to the data follows from its two ends. RepeatRef has no place in paths: where its reference's innermost dim
has a name, Repeat gives the same stream and consumes less.

The space is finite: dims are those that the task declares and their quotients; a type holds a dim no more often than a
declared type, and exceeds the number of dims of declared types, the factors of products, by at most one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, permutations

import sympy

from pipeline.synthesis.coercions import cut, dims_of, factors, find_coercions
from step_runtime.base.errors import RuleError
from step_runtime.base.shapes import Dim, try_evaluate
from step_runtime.base.types import DType, StreamType, STuple, components_of, layout
from step_runtime.primitives import Flatten, Primitive, Promote, Repeat, Reshape, Rules
from step_runtime.tasks.scope import Scope

TypeId = int

_WAYS = 2
"""Chains between the same two types that are distinguished."""
_REPEATS = 2
"""Dims that one path may invent; of a longer shape, all but one."""
_MOST_DIMS = 5
"""The dims up to which a type may hold each of the inputs' dims once, or what a function adds to those it takes."""
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
        return bool(self.ops) + len(self.invented)

    @cached_property
    def invented(self) -> tuple[Dim, ...]:
        """The dims along which it repeats."""
        return tuple(op.n for op in self.ops if isinstance(op, Repeat))

    @cached_property
    def held(self) -> frozenset[Dim]:
        """The dims that its source has."""
        return frozenset(_all_dims(self.source_type))

    @cached_property
    def multiplied(self) -> frozenset[tuple[Dim, bool]]:
        """The dims along which it repeats, each with whether its target has the dim more than once."""
        dims = _all_dims(self.target) if self.invented else []
        return frozenset((dim, dims.count(dim) > 1) for dim in self.invented)

    @cached_property
    def repeated(self) -> frozenset[int]:
        """The dims along which its result is constant: stream dims by place, those of elements as -1."""
        constant = [False] * len(dims_of(self.source_type))
        for op, before in zip(self.ops, self.steps, strict=False):
            _follow_constant(constant, op, before)
        buffered = len(cut(self.target.dtype)[1])
        return frozenset(max(place - buffered, -1) for place, known in enumerate(constant) if known)

    @property
    def source_type(self) -> StreamType:
        """The type at its beginning."""
        return self.steps[0]


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
        self._ways: dict[tuple[TypeId, StreamType], tuple[CoercionPath, ...]] = {}
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
        distinct = {part for found in counts for dim in found for part in _parts(dim)}
        widest = max(map(_width, counts), default=0)
        # What a function makes may be larger than what it takes, as the matrix that a filter of scalars keeps.
        grown = widest + max((_widest(fn.output) - _widest(fn.input) for fn in scope.fns.values()), default=0)
        self.most_dims = max(widest + 1, min(max(len(distinct), grown), _MOST_DIMS))
        for dim in [dim for dim in self._most if dim != ONE]:
            self._most[dim] += spare
        self._quotients = _quotients([dim for dim in self._most if dim != ONE])
        for dim in chain.from_iterable(self._quotients.values()):
            self._most[dim] = max(self._most[dim], 1)
        self.repeatable = list(
            dict.fromkeys(dim for type_ in declared for found in _dim_counts(type_) for dim in found if dim != ONE)
        )
        self.inputs = [self.intern(type_) for type_ in scope.inputs.values()]
        self.outputs = [self.intern(type_) for type_ in scope.outputs]

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
                found.total() - found[ONE] <= self.most_dims and all(found[dim] <= self._most[dim] for dim in found)
                for found in _dim_counts(type_)
            )
        return self._allowed[type_]

    def most(self, dim: Dim) -> int:
        """How often a dim may occur in a component of a stream and its elements together."""
        return self._most[dim]

    def quotients(self, dim: Dim) -> Sequence[Dim]:
        """The inner dims that a dim may be split into."""
        return self._quotients.get(dim, ())

    def ways(self, source: TypeId, target: StreamType) -> tuple[CoercionPath, ...]:
        """Shortest paths to a type; two where a dim that occurs twice lets them differ in meaning."""
        key = source, target
        if key not in self._ways:
            made = (self._path_of(source, way.ops) for way in find_coercions(self.types[source], target)[:_WAYS])
            most = max(_REPEATS, len(target.shape) - 1)
            found = [path for path in made if path is not None and len(path.invented) <= most]
            dims = dims_of(target)
            distinct = any(dims.count(dim) > 1 for path in found for dim in path.invented)
            self._ways[key] = tuple(found if distinct else found[:1])
        return self._ways[key]

    def path(self, source: TypeId, target: StreamType) -> CoercionPath | None:
        """A shortest path between two types, if there is one."""
        return next(iter(self.ways(source, target)), None)

    def _path_of(self, source: TypeId, ops: tuple[Primitive, ...]) -> CoercionPath | None:
        """The path of a chain; None if it breaks a rule at these sizes, as a split of a dim that does not divide."""
        steps = [self.types[source]]
        try:
            for op in ops:
                steps.append(op.infer((steps[-1],), self._rules)[0])
        except RuleError:
            return None
        return CoercionPath(source, ops, tuple(steps))


def _follow_constant(constant: list[bool], op: Primitive, before: StreamType) -> None:
    """Updates which dims of a type are constant, for a primitive applied to it."""
    buffered = len(cut(before.dtype)[1])
    if isinstance(op, Repeat | Promote):
        constant.insert(buffered + (op.b if isinstance(op, Promote) else 0), isinstance(op, Repeat))
    elif isinstance(op, Flatten):
        for index in sorted(op.L, reverse=True):
            outer, inner = constant.pop(buffered + index), buffered + index - 1
            # A dim of 1 does not change the one that it is merged with.
            if before.shape[index - 1] == ONE:
                constant[inner] = outer
            elif before.shape[index] != ONE:
                constant[inner] &= outer
    elif isinstance(op, Reshape):
        for index in sorted(op.L, reverse=True):
            constant.insert(buffered + index, constant[buffered + index])


def joined(parts: tuple[DType, ...]) -> DType:
    """One component itself, several as a tuple."""
    return parts[0] if len(parts) == 1 else STuple(parts)


def _dim_counts(type_: StreamType) -> list[Counter[Dim]]:
    """For each component how often each dim occurs, in the stream and in the element."""
    return [Counter((*type_.shape, *layout(part))) for part in components_of(type_.dtype)]


def _all_dims(type_: StreamType) -> list[Dim]:
    """The dims of a stream and of all components of its elements, with the factors of products."""
    dims = [*type_.shape, *(dim for part in components_of(type_.dtype) for dim in layout(part))]
    return [*dims, *(factor for dim in dims for factor in factors(dim))]


def _widest(dtype: DType) -> int:
    """The most dims of a component."""
    return max(_width(Counter(layout(part))) for part in components_of(dtype))


def _width(dims: Counter[Dim]) -> int:
    """The number of dims, where a product counts for its factors."""
    return sum(count * len(_parts(dim)) for dim, count in dims.items())


def _parts(dim: Dim) -> tuple[Dim, ...]:
    return factors(dim) or ((dim,) if dim != ONE else ())


def _quotients(dims: list[Dim]) -> dict[Dim, list[Dim]]:
    """For each dim the inner dims that it may be split into: declared dims, their quotients, and factors."""
    found: dict[Dim, list[Dim]] = {}
    parts = dict.fromkeys(factor for dim in dims for factor in dim.as_ordered_factors() if factor.free_symbols)
    dims = list(dict.fromkeys([*dims, *parts]))
    for whole, part in permutations(dims, 2):
        quotient = sympy.cancel(whole / part)
        if sympy.fraction(quotient)[1] == 1 and quotient != 1 and (try_evaluate(quotient, {}) or 2) > 0:
            found.setdefault(whole, []).extend(dim for dim in (quotient, part) if dim not in found.get(whole, []))
    return found
