"""Moves: what a proposal is made of, and how moves become a program.

A move applies one function (Map, Accum, Scan) or routes through several (Partition, Map on each, Merge) to streams
that earlier moves left; the structural primitives in between are its plans. `lower` writes the moves out as a
graph, where equal nodes are one node, nothing dead is left and every further use has its Copy.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from pipeline.lms.embedded.layout import Plan
from pipeline.lms.embedded.space import Fold, Space, TypeId
from step_runtime.base.functions import Fn
from step_runtime.base.types import Multihot, StreamType
from step_runtime.primitives import (
    Accum,
    Map,
    Merge,
    Partition,
    Primitive,
    Promote,
    Repeat,
    RepeatRef,
    Rules,
    Scan,
    Zip,
)
from step_runtime.program.graph import Node, Program, StreamId
from step_runtime.tasks.scope import Scope
from step_runtime.verification.check import insert_copies

_MOST_BRANCHES = 4
"""With more branches than these their orders are too many to look at each."""


@dataclass(frozen=True)
class Routing:
    """Functions that an index of so many bits chooses among, and the function that folds what they return.

    Where the index has a bit more than there are branches, that bit lets its element pass unchanged.
    """

    branches: tuple[Fn, ...]
    merge: Fn
    index: Multihot
    bits: int

    def passing(self) -> tuple[Fn | None, ...]:
        """The branches, in the order in which functions are listed, and None for a bit without one."""
        return (*self.branches, *(None,) * (self.bits - len(self.branches)))

    def orders(self) -> tuple[tuple[Fn | None, ...], ...]:
        """The orders in which branches may stand for bits, that of the listing first; none if they are too many."""
        return tuple(itertools.permutations(self.passing())) if self.bits <= _MOST_BRANCHES else ()


@dataclass(frozen=True)
class Move:
    """One function, or one routing, on sources; the last source of a routing is its index."""

    fns: tuple[Fn | None, ...]
    sources: tuple[int, ...]
    plans: tuple[Plan, ...]
    result: TypeId
    fold: Fold | None = None
    routing: Routing | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """Moves of one key compute the same from the same streams."""
        return (tuple(map(id, self.fns)), self.sources, self.result, self.fold)

    @property
    def maker(self) -> Fn | Routing:
        """What it applies."""
        return self.routing or next(self.functions())

    def functions(self) -> Iterator[Fn]:
        """The functions it applies."""
        yield from (fn for fn in self.fns if fn is not None)
        if self.routing is not None:
            yield self.routing.merge


@dataclass
class Draft:
    """A proposal as it grows: its live streams by type, how often each is used, and the moves so far."""

    streams: list[TypeId]
    uses: list[int]
    moves: list[Move] = field(default_factory=list)
    keys: set[tuple[object, ...]] = field(default_factory=set)
    results: tuple[int, ...] = ()
    endings: tuple[Plan, ...] = ()
    read: bool = False
    """Whether, as far as could be read, the results are what the reference computes."""
    support: list[float] = field(default_factory=list)
    """How well precedents support each move."""

    @classmethod
    def start(cls, inputs: Sequence[TypeId]) -> Draft:
        """Nothing but the inputs."""
        return cls(list(inputs), [0] * len(inputs))

    def add(self, move: Move) -> None:
        """Makes the move."""
        for source in move.sources:
            self.uses[source] += 1
        self.moves.append(move)
        self.keys.add(move.key)
        self.streams.append(move.result)
        self.uses.append(0)


class Graph:
    """A graph in the making: equal nodes are made once."""

    def __init__(self, scope: Scope) -> None:
        self._inputs = tuple(scope.inputs)
        self._rules = Rules(scope.sizes)
        self._nodes: list[Node] = []
        self._known: dict[tuple[Primitive, tuple[StreamId, ...]], tuple[StreamId, ...]] = {}
        self.types: list[StreamType] = list(scope.inputs.values())

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


def lower(space: Space, draft: Draft, by_reference: Callable[[], bool]) -> tuple[Program, list[StreamType]]:
    """The program of a finished draft, and the types of its streams; Copies are not yet in it.

    `by_reference` is asked whether a Repeat is to be a RepeatRef, wherever a stream can serve as the reference.
    """
    graph = Graph(space.scope)
    number: list[StreamId] = list(range(len(space.inputs)))
    for move in draft.moves:
        planned = zip(move.plans, move.sources, strict=True)
        parts = [_follow(graph, plan, number[source], by_reference) for plan, source in planned]
        if move.routing is not None:
            number.append(route(graph, move.fns, move.routing, parts))
            continue
        stream = zipped(graph, parts)
        fn = move.fns[0]
        if fn is None:
            raise ValueError("only a routing has branches without a function")
        if move.fold is None:
            number.append(graph.add(Map(fn), stream)[0])
            continue
        if move.fold.placeholder:
            stream = graph.add(Promote(len(graph.types[stream].shape)), stream)[0]
        number.append(graph.add((Scan if move.fold.scan else Accum)(fn, move.fold.b), stream)[0])
    ends = zip(draft.endings, draft.results, strict=True)
    results = tuple(_follow(graph, plan, number[stream], by_reference) for plan, stream in ends)
    return graph.program(results), graph.types


def _follow(graph: Graph, plan: Plan, stream: StreamId, by_reference: Callable[[], bool]) -> StreamId:
    """The stream at the end of a plan."""
    for op in plan.ops:
        reference = _reference(graph, op, stream, by_reference) if isinstance(op, Repeat) else None
        stream = graph.add(op, stream)[0] if reference is None else graph.add(RepeatRef(), stream, reference)[0]
    return stream


def _reference(graph: Graph, op: Repeat, stream: StreamId, by_reference: Callable[[], bool]) -> StreamId | None:
    """A stream that says by its shape what the Repeat says by a dim, if this program likes to do so."""
    shape = (op.n, *graph.types[stream].shape)
    fitting = [other for other, known in enumerate(graph.types) if known.shape == shape]
    return fitting[0] if fitting and by_reference() else None


def zipped(graph: Graph, parts: Sequence[StreamId]) -> StreamId:
    """The streams as one, zipped from left to right."""
    stream = parts[0]
    for other in parts[1:]:
        stream = graph.add(Zip(), stream, other)[0]
    return stream


def route(graph: Graph, fns: Sequence[Fn | None], routing: Routing, parts: Sequence[StreamId]) -> StreamId:
    """What a routing gives; `fns` are its branches in the order of the bits, the last of `parts` its index."""
    *data, index = parts
    pieces = graph.add(Partition(routing.bits), zipped(graph, data), index)
    branches = [piece if fn is None else graph.add(Map(fn), piece)[0] for piece, fn in zip(pieces, fns, strict=True)]
    return graph.add(Merge(routing.merge), *branches, index)[0]


def tidy(program: Program) -> Program:
    """The program without dead nodes, streams numbered anew, and with the Copies that the affine rule asks for."""
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
