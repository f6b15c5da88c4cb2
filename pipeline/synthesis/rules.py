"""What a step of a search applies, a function or a routing, to streams of given types, and how it is written.

A `Rule` is one function (Map, Accum, Scan) or one routing (Partition, a Map on each branch, Merge) on streams that
inputs or other rules give; each operand is coerced by its path. Rules do not depend on values; the search decides what
to apply them to. Redundant rules are omitted: a function on each element gives the same whether its elements are
repeated, or a placeholder is put around them, before or after it. A `Rulebook` has the rules within reach of a round.

A program is written from rules so that equal nodes are one, dead ones are dropped, and Copies are inserted.
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import combinations, islice, permutations, product
from typing import Protocol, TypeAlias, TypeVar

from torch import Tensor

from pipeline.synthesis.type_space import (
    ONE,
    CoercionPath,
    OperandShapes,
    PartId,
    Shape,
    TypeId,
    TypeSpace,
    cut,
    joined,
)
from pipeline.synthesis.value_blocks import SeenValues
from step_runtime.base.errors import RuleError
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Dim, try_evaluate
from step_runtime.base.types import DType, Multihot, StreamType, STuple, components_of
from step_runtime.primitives import (
    Accum,
    Flatten,
    Map,
    Merge,
    Partition,
    Primitive,
    Rules,
    Scan,
    Zip,
)
from step_runtime.program.graph import Node, Program, StreamId
from step_runtime.tasks.scope import Scope
from step_runtime.verification.check import insert_copies

S = TypeVar("S")


class Backend(Protocol[S]):
    """The target of lowering: nodes of a program, types, or a run on data."""

    def add(self, op: Primitive, *inputs: S) -> tuple[S, ...]:
        """The results of a primitive on streams."""


class ProgramBuilder:
    """A program under construction: equal nodes are made once."""

    def __init__(self, scope: Scope) -> None:
        self._inputs = tuple(scope.inputs)
        self._rules = Rules(scope.sizes)
        self._nodes: list[Node] = []
        self._known: dict[tuple[Primitive, tuple[StreamId, ...]], tuple[StreamId, ...]] = {}
        self.types: list[StreamType] = list(scope.inputs.values())

    def fork(self) -> ProgramBuilder:
        """Another builder with the same nodes, which grows on its own."""
        other = copy(self)
        other._nodes, other._known, other.types = [*self._nodes], {**self._known}, [*self.types]
        return other

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes in the order in which they were made."""
        return self._nodes

    def add(self, op: Primitive, *inputs: StreamId) -> tuple[StreamId, ...]:
        """The results of a primitive on streams."""
        outputs = self._known.get((op, inputs))
        if outputs is None:
            made = op.infer([self.types[stream] for stream in inputs], self._rules)
            outputs = self._known[op, inputs] = tuple(range(len(self.types), len(self.types) + len(made)))
            self.types.extend(made)
            self._nodes.append(Node(op, inputs, outputs))
        return outputs

    def program(self, results: tuple[StreamId, ...]) -> Program:
        """The program with these results; Copies are not yet in it."""
        return Program(self._inputs, tuple(self._nodes), results)


def zipped(backend: Backend[S], parts: Sequence[S]) -> S:
    """The streams as one, zipped from left to right."""
    stream = parts[0]
    for other in parts[1:]:
        stream = backend.add(Zip(), stream, other)[0]
    return stream


def route(backend: Backend[S], branches: Sequence[Fn | None], merge: Fn, parts: Sequence[S]) -> S:
    """The result of a routing; `branches` are in the order of the bits, the last of `parts` is its index."""
    *data, index = parts
    pieces = backend.add(Partition(len(branches)), zipped(backend, data), index)
    results = [
        piece if fn is None else backend.add(Map(fn), piece)[0] for piece, fn in zip(pieces, branches, strict=True)
    ]
    return backend.add(Merge(merge), *results, index)[0]


def tidy(program: Program) -> Program:
    """The program without dead nodes, with renumbered streams and the Copies that the affine rule requires."""
    live = set(map(id, program.live_nodes()))
    number = {i: i for i in range(len(program.inputs))}
    nodes = []
    for node in program.nodes:
        if id(node) not in live:
            continue
        first = len(number)
        number |= {old: first + place for place, old in enumerate(node.outputs)}
        inputs = tuple(number[stream] for stream in node.inputs)
        nodes.append(Node(node.op, inputs, tuple(number[stream] for stream in node.outputs)))
    results = tuple(number[stream] for stream in program.results)
    return insert_copies(replace(program, nodes=tuple(nodes), results=results))


COST = 2
"""The cost of a function or a routing, in units of a choice of path."""
_MOST_BITS = 4
"""Of an index that routes: 16 branches."""
_MOST_ORDERS = 120
"""The most orders of branches tried for one routing."""


@dataclass(frozen=True)
class OrderedRouting:
    """The functions of the branches in the order of the index's bits (None: unchanged), and the one that merges."""

    branches: tuple[Fn | None, ...]
    merge: Fn


@dataclass(frozen=True, eq=False)
class Rule:
    """One function, or one routing, whose index is the last operand.

    `choices` counts those of structure: what types do not force.
    A placeholder next to other dims is flattened at once, so that no streams differ only by it.
    """

    apply: Map | Accum | Scan | OrderedRouting
    operands: tuple[CoercionPath, ...]
    flatten: tuple[Flatten, ...]
    result: TypeId
    choices: int

    @property
    def fn(self) -> Fn:
        """The function, or the one that merges."""
        return self.apply.merge if isinstance(self.apply, OrderedRouting) else self.apply.fn

    def write(self, backend: Backend[S], streams: Sequence[S]) -> S:
        """The result on streams of the operands' source types."""
        return self.write_last(backend, [follow(backend, *pair) for pair in zip(self.operands, streams, strict=True)])

    def write_last(self, backend: Backend[S], parts: Sequence[S]) -> S:
        """The result on coerced operands."""
        stream = self._applied(backend, parts)
        for op in self.flatten:
            stream = backend.add(op, stream)[0]
        return stream

    def _applied(self, backend: Backend[S], parts: Sequence[S]) -> S:
        if isinstance(self.apply, Map):
            return backend.add(self.apply, *parts)[0]
        if not isinstance(self.apply, OrderedRouting):
            return backend.add(self.apply, zipped(backend, parts))[0]
        return route(backend, self.apply.branches, self.apply.merge, parts)


def follow(backend: Backend[S], path: CoercionPath, stream: S) -> S:
    """The stream at the end of a path."""
    for op in path.ops:
        stream = backend.add(op, stream)[0]
    return stream


class _TypeBackend:
    """Applies rules to types only."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def add(self, op: Primitive, *inputs: StreamType) -> tuple[StreamType, ...]:
        """The types of the results."""
        return op.infer(inputs, self._rules)


@dataclass(frozen=True, eq=False)
class Consumer:
    """A function with what each of its operands holds; or of a routing the function that merges, and the index last.

    Attributes:
        fn: The function, or the one that merges.
        parts: What the operands hold, as numbers of `OperandShapes`.
        index: The type of the index.
        branches: The functions that a routing's branches may apply (None: unchanged); none of a function.
    """

    fn: Fn
    parts: tuple[PartId, ...]
    index: DType | None = None
    branches: tuple[Fn | None, ...] = ()


class RuleTable:
    """The rules of one space, made when first asked for, of which `meet` is told; `invented` as of `OperandShapes`."""

    def __init__(self, space: TypeSpace, invented: int = 0, meet: Callable[[], None] = lambda: None) -> None:
        self.space, self._meet = space, meet
        self._shapes = OperandShapes(space, invented)
        self._backend = _TypeBackend(Rules(space.scope.sizes))
        self._known: dict[tuple[Consumer, tuple[TypeId, ...]], tuple[Rule, ...]] = {}
        self._results: dict[tuple[object, ...], tuple[tuple[Flatten, ...], TypeId] | None] = {}
        self._routings: dict[DType, tuple[Consumer, ...]] = {}
        self.functions = tuple(
            Consumer(fn, self._parts(parts)) for fn in space.scope.fns.values() for parts in _groupings(fn.input)
        )

    def _parts(self, dtypes: Iterable[DType]) -> tuple[PartId, ...]:
        return tuple(map(self._shapes.part, dtypes))

    def routings(self, index: DType) -> tuple[Consumer, ...]:
        """The ways to take streams that indices of a type route."""
        if index not in self._routings:
            self._routings[index] = tuple(self._found_routings(index))
        return self._routings[index]

    def _found_routings(self, index: DType) -> Iterator[Consumer]:
        fns = list(self.space.scope.fns.values())
        for merge in fns:
            maps = [fn for fn in fns if not fn.stateful and fn.output == merge.input]
            for dtype in dict.fromkeys([*(fn.input for fn in maps), merge.input]) if merge.stateful else ():
                branches: list[Fn | None] = [fn for fn in maps if fn.input == dtype]
                if dtype == merge.input:
                    branches.append(None)
                for parts in _groupings(dtype):
                    yield Consumer(merge, self._parts((*parts, index)), index, tuple(branches))

    def serves(self, source: TypeId, part: PartId) -> bool:
        """Whether a stream may hold a part of what is taken."""
        return self._shapes.serves(source, part)

    def rules(self, consumer: Consumer, sources: tuple[TypeId, ...]) -> tuple[Rule, ...]:
        """The rules by which a consumer takes streams of these types."""
        key = consumer, sources
        if key not in self._known:
            self._meet()
            found = (
                self._applied(consumer, sources)
                if consumer.index is None
                else self._routed(consumer, sources, consumer.index)
            )
            self._known[key] = tuple(found)
        return self._known[key]

    def _applied(self, consumer: Consumer, sources: tuple[TypeId, ...]) -> Iterator[Rule]:
        fn = consumer.fn
        grown = isinstance(fn.output, STuple) or fn.stateful
        for paths in self._shapes.meetings(sources, consumer.parts, split=fn.stateful, grown=grown):
            made = _folds(fn, paths) if fn.stateful else _maps(fn, paths)
            yield from self._made(made, paths)

    def _routed(self, consumer: Consumer, sources: tuple[TypeId, ...], index: DType) -> Iterator[Rule]:
        bits = index_bits(index, self.space.scope.sizes)
        for data in self._shapes.meetings(sources[:-1], consumer.parts[:-1], split=False, grown=False):
            shape = data[0].target.shape
            if _common_repeats(data) or _has_placeholder(shape):
                continue
            for path in self._indices(sources[-1], index, shape):
                branches, merge = consumer.branches, consumer.fn
                orders = permutations(branches, bits) if len(branches) >= bits else product(branches, repeat=bits)
                routings = [OrderedRouting(order, merge) for order in islice(orders, _MOST_ORDERS) if any(order)]
                yield from self._made(routings, (*data, path))

    def _indices(self, source: TypeId, index: DType, shape: Shape) -> Iterator[CoercionPath]:
        """The paths of an index to where it routes streams of a shape."""
        for inner in range(len(shape)):
            path = self.space.path(source, StreamType(index, shape[inner:]))
            if path is not None and not path.invented:
                yield path

    def _made(
        self, applications: Iterable[Map | Accum | Scan | OrderedRouting], paths: tuple[CoercionPath, ...]
    ) -> Iterator[Rule]:
        targets = tuple(path.target for path in paths)
        for apply in applications:
            key = apply, targets
            if key not in self._results:
                self._results[key] = self._result(apply, paths)
            if (result := self._results[key]) is not None:
                yield Rule(apply, paths, *result, self._choices(paths))

    def _result(
        self, apply: Map | Accum | Scan | OrderedRouting, paths: tuple[CoercionPath, ...]
    ) -> tuple[tuple[Flatten, ...], TypeId] | None:
        """What flattens the result of operands of these types, and its type then; None if there is none."""
        try:
            made = Rule(apply, paths, (), -1, 0).write_last(self._backend, [path.target for path in paths])
        except RuleError:
            return None
        flatten = tuple(without_placeholder(made.shape))
        for op in flatten:
            made = self._backend.add(op, made)[0]
        return (flatten, self.space.intern(made)) if self.space.allowed(made) else None

    def _choices(self, paths: Sequence[CoercionPath]) -> int:
        """One for each path, and for each dim that no operand holds, or all elements of which meet.

        A dim that an operand lacks and another holds is forced by types.
        """
        repeated = frozenset[tuple[Dim, bool]]().union(*(path.multiplied for path in paths))
        invented = sum(again or not any(dim in path.held for path in paths) for dim, again in repeated)
        return sum(bool(path.ops) for path in paths) + invented


def index_bits(dtype: DType, sizes: Mapping[str, int]) -> int:
    """The bits of an index that can route; 0 of another type, and of one with too many."""
    element = cut(dtype)[0]
    bits = try_evaluate(element.length, sizes) if isinstance(element, Multihot) else None
    return bits if bits is not None and bits <= _MOST_BITS else 0


def _groupings(dtype: DType) -> Iterator[tuple[DType, ...]]:
    """The ways to cut what is taken into parts for one operand each, the fewest first."""
    components = components_of(dtype)
    count = len(components)
    for size in range(count):
        for cuts in combinations(range(1, count), size):
            ends = zip((0, *cuts), (*cuts, count), strict=True)
            yield tuple(joined(components[start:end]) for start, end in ends)


def _maps(fn: Fn, paths: tuple[CoercionPath, ...]) -> Iterator[Map]:
    if len(paths) == 1 and paths[0].ops and paths[0].steps[0].dtype == paths[0].target.dtype:
        return
    if _only_here(fn, _common_repeats(paths)) and not _has_placeholder(paths[0].target.shape):
        yield Map(fn)


def _folds(fn: Fn, paths: tuple[CoercionPath, ...]) -> Iterator[Accum | Scan]:
    """Folds of operands. They may be repeated along the folded dims: a phase accumulator counts, a power grows."""
    shape = paths[0].target.shape
    repeated = _common_repeats(paths)
    for b in range(1, len(shape)):
        if _has_placeholder(shape) and (ONE in shape[:-1] or b < len(shape) - 1):
            continue
        if _only_here(fn, frozenset(place - b for place in repeated)):
            yield Accum(fn, b)
        outer = frozenset(place for place in repeated if not 0 <= place < b)
        if _only_here(fn, outer):
            yield Scan(fn, b)


def _only_here(fn: Fn, repeated: frozenset[int]) -> bool:
    """Whether a function's operands have to be repeated, along some dims: its result can't be repeated in their place.

    A tuple can only be repeated along the inner dims, as it is not buffered.
    """
    return not repeated or (isinstance(fn.output, STuple) and repeated != frozenset(range(len(repeated))))


def _common_repeats(paths: Sequence[CoercionPath]) -> frozenset[int]:
    return frozenset.intersection(*(path.repeated for path in paths))


def _has_placeholder(shape: Sequence[Dim]) -> bool:
    """Whether there is a dim of 1 among others."""
    return ONE in shape and len(shape) > 1


def without_placeholder(shape: Sequence[Dim]) -> Iterator[Flatten]:
    """What flattens the dims of 1 next to others, one after the other."""
    dims = list(shape)
    while _has_placeholder(dims):
        place = dims.index(ONE)
        del dims[place]
        yield Flatten((max(place, 1),))


@dataclass(frozen=True, eq=False)
class SeedStream:
    """A stream that a round starts from: `values` is one row, and `cost` 0 for an input and 1 for what is made."""

    type: StreamType
    values: Tensor
    term: Term
    cost: int


class SeedStreams:
    """Streams that differ in type or value, in the order of their addition."""

    def __init__(self, streams: Iterable[SeedStream] = ()) -> None:
        self._streams: list[SeedStream] = []
        self._seen: dict[StreamType, SeenValues] = {}
        for stream in streams:
            self.add(stream)

    def __iter__(self) -> Iterator[SeedStream]:
        return iter(self._streams)

    def __len__(self) -> int:
        return len(self._streams)

    def add(self, stream: SeedStream) -> bool:
        """Adds a stream, unless there is one of its type and value; whether it was added."""
        new = bool(len(self._seen.setdefault(stream.type, SeenValues()).new(stream.values)))
        self._streams += [stream] if new else []
        return new


@dataclass(frozen=True, eq=False)
class InputTerm:
    """An input of the task, by its place."""

    place: int


@dataclass(frozen=True, eq=False)
class RuleTerm:
    """A rule applied to terms."""

    rule: Rule
    operands: tuple[Term, ...]


@dataclass(frozen=True, eq=False)
class ProgramTerm:
    """A stream of a program that was found elsewhere."""

    program: Program
    stream: StreamId


Term: TypeAlias = InputTerm | RuleTerm | ProgramTerm


class TermWriter:
    """Writes terms into one program, each once."""

    def __init__(self, builder: ProgramBuilder) -> None:
        self.builder = builder
        self._written: dict[Term, StreamId] = {}

    def stream(self, term: Term) -> StreamId:
        """The stream that a term makes."""
        if term not in self._written:
            self._written[term] = self._write(term)
        return self._written[term]

    def _write(self, term: Term) -> StreamId:
        if isinstance(term, InputTerm):
            return term.place
        if isinstance(term, RuleTerm):
            return term.rule.write(self.builder, [self.stream(operand) for operand in term.operands])
        streams = {place: place for place in range(len(term.program.inputs))}
        for node in needed_nodes(term.program, term.stream):
            streams |= zip(node.outputs, self.builder.add(node.op, *(streams[i] for i in node.inputs)), strict=True)
        return streams[term.stream]


def needed_nodes(program: Program, stream: StreamId) -> list[Node]:
    """The nodes that lead to a stream, in order."""
    needed, found = {stream}, list[Node]()
    for node in reversed(program.nodes):
        if not needed.isdisjoint(node.outputs):
            found.append(node)
            needed.update(node.inputs)
    return found[::-1]


def functions_of(term: Term) -> set[Fn]:
    """The functions that rules apply in a term; none of a program's."""
    found, open_, seen = set[Fn](), [term], set[Term]()
    while open_:
        each = open_.pop()
        if isinstance(each, RuleTerm) and each not in seen:
            seen.add(each)
            found.add(each.rule.fn)
            open_ += each.operands
    return found


_MOST_TYPES = 200
"""Types of streams, those of the least cost."""
_MOST_RULES = 30_000
"""Rules of one round, the cheapest first."""
_AGAIN = 2
"""What a rule costs more if its function has served already."""
"""What a function costs more that a landmark was reached with."""


@dataclass(frozen=True)
class RoundLimits:
    """How far a round goes from what it starts from.

    Attributes:
        cost: The most that a program may cost.
        meetings: The most ways to choose operands by type that are looked at, the cheapest types first.
        choices: Whether choices of structure cost, and functions that have served cost more; else only functions do.
        free: Whether streams that are given cost nothing, so that a function of many of them is as near as of one.
        once: Whether no function is applied to what it has led to itself, from the seed streams on. Between one
            landmark and the next few programs do that, and there are far fewer such streams.
        together: The candidates of one rule on buckets of the same costs from which on they are left to the end:
            a function of five operands would use up its share of the budget before those of few.
    """

    cost: int
    meetings: int
    choices: bool
    free: bool = False
    once: bool = True
    together: int = sys.maxsize


class Rulebook:
    """The rules of a round.

    `types` are those of seed streams and of what rules make, `into` the rules by the type of their result; `cheapest`
    has the least cost of a stream of each type.

    Args:
        table: The rules of the space.
        given: The least cost of the streams to start from, by type.
        limits: How far the round goes.
        served: The functions that made seed streams: a task mostly lists a function because a program needs it once.
        check: Called often; it may raise, which ends the listing.
    """

    def __init__(
        self,
        table: RuleTable,
        given: Mapping[TypeId, int],
        limits: RoundLimits,
        served: Iterable[Fn] = (),
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.space = table.space
        self._table, self.limits, self._check = table, limits, check
        self._served = frozenset(served if limits.choices else ())
        self.cheapest: dict[TypeId, int] = dict(given)
        self.rules: dict[Rule, None] = {}
        self._left = limits.meetings
        self._list()
        self.types = list(self.cheapest)
        self.into: dict[TypeId, list[Rule]] = {type_: [] for type_ in self.types}
        for rule in self.rules:
            self.into[rule.result].append(rule)

    def cost(self, rule: Rule) -> int:
        """What a rule costs in this round."""
        return COST + (rule.choices + _AGAIN * (rule.fn in self._served) if self.limits.choices else 0)

    def remaining(self, outputs: Iterable[TypeId], others: Iterable[TypeId] = ()) -> dict[TypeId, int]:
        """For each type the least cost from there to some goal; types without a way there are absent.

        Args:
            outputs: Goals that a path may lead to.
            others: Goals that only a stream of the very type reaches.
        """
        wanted = [self.space.types[goal] for goal in outputs]
        left: dict[TypeId, int] = dict.fromkeys(others, 0)
        for type_ in self.types:
            paths = [path for goal in wanted if (path := self.space.path(type_, goal)) is not None]
            if paths:
                left.setdefault(type_, min(path.cost for path in paths))
        # What a rule's result leads to passes to its operands: Dijkstra's algorithm, from the goals.
        open_ = [(cost, type_) for type_, cost in left.items()]
        heapq.heapify(open_)
        while open_:
            known, type_ = heapq.heappop(open_)
            for rule in self.into.get(type_, ()) if known == left[type_] else ():
                total = known + self.cost(rule) + sum(self.cheapest[path.source] for path in rule.operands)
                for path in rule.operands:
                    cost = total - self.cheapest[path.source]
                    if cost < left.get(path.source, cost + 1):
                        left[path.source] = cost
                        heapq.heappush(open_, (cost, path.source))
        return left

    def _list(self) -> None:
        """Lists rules in the order of what their operands cost together.

        A rule costs something itself, so that all types that cost no more than some operands are known by then.
        """
        consumers = list(self._table.functions)
        by_cost: dict[PartId, dict[int, list[TypeId]]] = {}
        for total in range(self.limits.cost - COST + 1):
            self._add_routings(consumers)
            by_cost = {
                part: self._serving(part) for part in dict.fromkeys(p for consumer in consumers for p in consumer.parts)
            }
            for consumer in consumers:
                for sources in self._choices([by_cost[part] for part in consumer.parts], total):
                    self._check()
                    self._left -= 1
                    if self._left < 0 or len(self.rules) > _MOST_RULES:
                        return
                    for rule in self._table.rules(consumer, sources):
                        self._add(rule, total)

    def _add(self, rule: Rule, total: int) -> None:
        cost = total + self.cost(rule)
        known = self.cheapest.get(rule.result)
        if cost <= self.limits.cost and (known is not None or len(self.cheapest) < _MOST_TYPES):
            self.rules[rule] = None
            self.cheapest[rule.result] = cost if known is None else min(cost, known)

    def _serving(self, part: PartId) -> dict[int, list[TypeId]]:
        """The types that can be a part of what is taken, by their cost."""
        found: dict[int, list[TypeId]] = {}
        for type_, cost in self.cheapest.items():
            if self._table.serves(type_, part):
                found.setdefault(cost, []).append(type_)
        return found

    def _add_routings(self, consumers: list[Consumer]) -> None:
        """A stream of indices lets whatever it may route be taken."""
        known = {consumer.index for consumer in consumers}
        for type_ in self.cheapest:
            index = cut(self.space.types[type_].dtype)[0]
            if index not in known and index_bits(index, self.space.scope.sizes):
                known.add(index)
                consumers += self._table.routings(index)

    def _choices(self, options: list[dict[int, list[TypeId]]], total: int) -> Iterator[tuple[TypeId, ...]]:
        """One type of each list, which cost so much together."""
        first, *others = options
        if not others:
            yield from ((type_,) for type_ in first.get(total, ()))
            return
        for cost, types in first.items():
            if cost <= total:
                yield from ((type_, *rest) for type_ in types for rest in self._choices(others, total - cost))
