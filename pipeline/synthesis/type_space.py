"""The types that streams of a task's programs may have, the structural primitives between them, and where streams meet.

A stream of Buffers and the stream of their elements hold the same numbers in the same order; they differ only in
where the list of dims is cut into buffer dims and stream dims. So a type is treated as an element, one list of
dims (innermost first) and a cut, and a coercion is an alignment of two such lists: keep a dim, insert one
(Repeat, Promote), drop a 1, merge neighbours (Flatten), split a dim (Reshape) or both, followed by moving the cut
(Bufferize, Streamify). Every primitive's own type rule is applied, so a coercion is correct by construction.

A `CoercionPath` is a shortest chain of structural primitives between two types; as dims are distinguished by name, what
a path does to the data follows from its two ends. RepeatRef has no place in paths: where its reference's innermost dim
has a name, Repeat gives the same stream and consumes less.

The space is finite: dims are those that the task declares and their quotients; a type holds a dim no more often than a
declared type, and exceeds the number of dims of declared types, the factors of products, by at most one.

No structural primitive exchanges dims, so streams can meet only where the dims that their elements leave over occur in
order: at common supersequences. In larger shapes only what follows from more dims can differ: elements of one stream
meet all those of another along a dim that both have, and a state passes through dims that are invented or split.
"""

from __future__ import annotations

import itertools
import math
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import chain, permutations, product
from typing import Literal, NamedTuple, TypeAlias

import sympy

from step_runtime.base.errors import RuleError
from step_runtime.base.shapes import Dim, as_dim, exact_value, try_evaluate
from step_runtime.base.types import Buffer, DType, StreamType, STuple, components_of, layout
from step_runtime.primitives import Bufferize, Flatten, Primitive, Promote, Repeat, Reshape, Rules, Streamify
from step_runtime.tasks.scope import Scope

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


TypeId = int

_WAYS = 2
"""Chains between the same two types that are distinguished."""
_REPEATS = 2
"""Dims that one path may invent; of a longer shape, all but one."""
_MOST_DIMS = 5
"""The dims up to which a type may hold each of the inputs' dims once, or what a function adds to those it takes."""


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
