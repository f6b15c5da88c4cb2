"""Programs without Copies, in which a stream may be consumed many times, and the replacement of one node.

A rewrite works on such programs; `insert_copies` makes them keep the affine rule again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from step_runtime.base.functions import Fn
from step_runtime.base.types import StreamType
from step_runtime.primitives import Primitive
from step_runtime.program.graph import Node, Program, StreamId
from step_runtime.tasks.scope import Scope
from step_runtime.verification.check import infer_types


@dataclass(frozen=True)
class Shared:
    """A program without Copies.

    Attributes:
        merges: Whether folding by a function may be split: folding the folds of parts gives the fold of the whole.
    """

    program: Program
    types: tuple[StreamType, ...]
    scope: Scope
    merges: Callable[[Fn], bool]

    def made_by(self, stream: StreamId) -> Node | None:
        """The node that gives a stream; None for an input."""
        return next((node for node in self.program.nodes if stream in node.outputs), None)

    def replaced(self, node: Node, build: Build) -> Shared | None:
        """The program with other nodes in place of one; None if it is not well-typed."""
        return shared(replaced(self.program, node, build), self.scope, self.merges)


@dataclass
class Builder:
    """A program that grows node by node."""

    count: int
    nodes: list[Node] = field(default_factory=list)

    def add(self, op: Primitive, inputs: Sequence[StreamId], outputs: int = 1) -> tuple[StreamId, ...]:
        """The results of a new node."""
        fresh = tuple(range(self.count, self.count + outputs))
        self.count += outputs
        self.nodes.append(Node(op, tuple(inputs), fresh))
        return fresh


Build = Callable[[Builder, Callable[[StreamId], StreamId]], Sequence[StreamId]]
"""`build(builder, now)` adds nodes that take the place of one, and returns their results; `now` gives the number in the
new program of a stream of the old one."""


def as_they_are(*streams: StreamId) -> Build:
    """Earlier streams."""
    return lambda new, now: [now(stream) for stream in streams]


def in_turn(stream: StreamId, *ops: Primitive) -> Build:
    """One primitive after another on a stream."""

    def build(new: Builder, now: Callable[[StreamId], StreamId]) -> Sequence[StreamId]:
        streams: Sequence[StreamId] = [now(stream)]
        for op in ops:
            streams = new.add(op, streams)
        return streams

    return build


def replaced(program: Program, node: Node, build: Build) -> Program:
    """The program with other nodes in place of one."""
    return _rebuilt(program, program.nodes, lambda each: build if each is node else None)


def shared(program: Program, scope: Scope, merges: Callable[[Fn], bool]) -> Shared | None:
    """A program without its Copies, and without nodes that no result depends on; None if it is not well-typed."""
    program = pruned(uncopied(program))
    types, found = infer_types(program, scope)
    known = tuple(kind for kind in types if kind is not None)
    return None if found or len(known) < len(types) else Shared(program, known, scope, merges)


def uncopied(program: Program) -> Program:
    """Without primitives whose results equal their input."""

    def instead(node: Node) -> Build | None:
        return (lambda new, now: [now(node.inputs[0])] * len(node.outputs)) if node.op.transparent else None

    return _rebuilt(program, program.nodes, instead)


def computed_once(program: Program) -> Program:
    """With the results of the first of several nodes that have the same primitive on the same streams."""
    known: dict[tuple[Primitive, tuple[StreamId, ...]], Sequence[StreamId]] = {}

    def instead(node: Node) -> Build:
        def build(new: Builder, now: Callable[[StreamId], StreamId]) -> Sequence[StreamId]:
            inputs = tuple(map(now, node.inputs))
            if (node.op, inputs) not in known:
                known[node.op, inputs] = new.add(node.op, inputs, len(node.outputs))
            return known[node.op, inputs]

        return build

    return _rebuilt(program, program.nodes, instead)


def pruned(program: Program) -> Program:
    """Without nodes that no result depends on; streams are numbered in order.

    Raises:
        KeyError: A stream is used that nothing makes before.
    """
    return _rebuilt(program, list(program.live_nodes())[::-1], lambda node: None)


def _rebuilt(program: Program, nodes: Sequence[Node], instead: Callable[[Node], Build | None]) -> Program:
    """The program of some of its nodes, with what is given instead of each, if anything is."""
    builder = Builder(len(program.inputs))
    now = {stream: stream for stream in range(len(program.inputs))}
    for node in nodes:
        build = instead(node)
        if build is None:
            outputs: Sequence[StreamId] = builder.add(
                node.op, [now[stream] for stream in node.inputs], len(node.outputs)
            )
        else:
            outputs = build(builder, now.__getitem__)
        now.update(zip(node.outputs, outputs, strict=True))
    results = tuple(now[stream] for stream in program.results)
    return replace(program, nodes=tuple(builder.nodes), results=results, names={}, result_span=None)
