"""From primitives on streams to a program: equal nodes are one, dead ones are dropped, and Copies are inserted."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Protocol, TypeVar

from step_runtime.base.functions import Fn
from step_runtime.base.types import StreamType
from step_runtime.primitives import (
    Map,
    Merge,
    Partition,
    Primitive,
    Rules,
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
