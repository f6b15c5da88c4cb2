"""From a draft to a program: equal nodes are one node, dead ones are dropped, and Copies are inserted."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from pipeline.lms.embedded.draft import Draft
from pipeline.lms.embedded.types.coercions import Coercion
from pipeline.lms.embedded.types.type_table import TypeTable
from step_runtime.base.functions import Fn
from step_runtime.base.types import StreamType
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


def lower(table: TypeTable, draft: Draft, by_reference: Callable[[], bool]) -> tuple[Program, list[StreamType]]:
    """The program of a finished draft, and the types of its streams; Copies are not yet in it.

    `by_reference` decides whether a Repeat becomes a RepeatRef, if a stream can serve as the reference.
    """
    builder = ProgramBuilder(table.scope)
    number: list[StreamId] = list(range(len(table.inputs)))
    for move in draft.moves:
        planned = zip(move.coercions, move.sources, strict=True)
        parts = [_follow(builder, coercion, number[source], by_reference) for coercion, source in planned]
        if move.routing is not None:
            number.append(route(builder, move.fns, move.routing.merge, parts, selects=move.routing.selects))
            continue
        stream = zipped(builder, parts)
        fn = move.fns[0]
        if fn is None:
            raise ValueError("only a routing has branches without a function")
        if move.fold is None:
            number.append(builder.add(Map(fn), stream)[0])
            continue
        if move.fold.placeholder:
            stream = builder.add(Promote(len(builder.types[stream].shape)), stream)[0]
        number.append(builder.add((Scan if move.fold.scan else Accum)(fn, move.fold.b), stream)[0])
    ends = zip(draft.output_coercions, draft.results, strict=True)
    results = tuple(_follow(builder, coercion, number[stream], by_reference) for coercion, stream in ends)
    return builder.program(results), builder.types


def _follow(
    builder: ProgramBuilder, coercion: Coercion, stream: StreamId, by_reference: Callable[[], bool]
) -> StreamId:
    """The stream at the end of a coercion."""
    for op in coercion.ops:
        reference = _reference(builder, op, stream, by_reference) if isinstance(op, Repeat) else None
        stream = builder.add(op, stream)[0] if reference is None else builder.add(RepeatRef(), stream, reference)[0]
    return stream


def _reference(
    builder: ProgramBuilder, op: Repeat, stream: StreamId, by_reference: Callable[[], bool]
) -> StreamId | None:
    """A stream whose shape has the dim of the Repeat, if `by_reference` chooses to use it."""
    shape = (op.n, *builder.types[stream].shape)
    fitting = [other for other, known in enumerate(builder.types) if known.shape == shape]
    return fitting[0] if fitting and by_reference() else None


def zipped(backend: Backend[S], parts: Sequence[S]) -> S:
    """The streams as one, zipped from left to right."""
    stream = parts[0]
    for other in parts[1:]:
        stream = backend.add(Zip(), stream, other)[0]
    return stream


def route(
    backend: Backend[S], branches: Sequence[Fn | None], merge: Fn, parts: Sequence[S], *, selects: bool = False
) -> S:
    """What a routing gives; `branches` are in the order of the bits, the last of `parts` is its index.

    One that `selects` has a stream for each bit.
    """
    *data, index = parts
    streams = data if selects else [zipped(backend, data)] * len(branches)
    pieces = [backend.add(Partition(len(branches)), stream, index)[bit] for bit, stream in enumerate(streams)]
    results = [
        piece if fn is None else backend.add(Map(fn), piece)[0] for piece, fn in zip(pieces, branches, strict=True)
    ]
    return backend.add(Merge(merge), *results, index)[0]


def structure(program: Program) -> Hashable:
    """What programs have in common that apply the same primitives to the same streams, in whatever order."""
    known: dict[StreamId, Hashable] = {stream: stream for stream in range(len(program.inputs))}
    for node in program.nodes:
        made = hash((node.op, *(known[stream] for stream in node.inputs)))
        known |= {stream: (made, place) for place, stream in enumerate(node.outputs)}
    return tuple(known[stream] for stream in program.results)


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
