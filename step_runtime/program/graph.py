"""A program as a dataflow graph: primitives as nodes, streams as edges.

Streams are numbered: first the inputs, then each node's results in order. Nodes are in program order, so
every stream is produced before it is consumed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from step_runtime.base.errors import Span
from step_runtime.base.sized import Condition
from step_runtime.primitives import Accum, Identity, Map, Primitive, Zip

StreamId = int

_ELEMENTWISE = (Map, Zip, Identity)
"""Primitives whose result at a place needs only their inputs at that place."""


@dataclass(frozen=True)
class Node:
    """One use of a primitive. A Merge's inputs are its streams, then the index."""

    op: Primitive
    inputs: tuple[StreamId, ...]
    outputs: tuple[StreamId, ...]
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Program:
    """Inputs by name, nodes in order, results as returned; `names` are the streams' names in the text.

    A text gives this graph at all sizes at which the conditions hold.
    """

    inputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    results: tuple[StreamId, ...]
    names: Mapping[StreamId, str] = field(default_factory=dict, compare=False)
    result_span: Span | None = field(default=None, compare=False)
    conditions: tuple[Condition, ...] = field(default=(), compare=False)

    def name(self, stream: StreamId) -> str:
        """A stream's name in the text; a `def body` may rename the task's inputs."""
        own = self.inputs[stream] if stream < len(self.inputs) else f"stream {stream}"
        return self.names.get(stream, own)

    def consumers(self) -> dict[StreamId, list[Node]]:
        """The nodes that consume each stream, once for each use; unconsumed streams are absent."""
        uses: dict[StreamId, list[Node]] = {}
        for node in self.nodes:
            for stream in node.inputs:
                uses.setdefault(stream, []).append(node)
        return uses

    @cached_property
    def dropped(self) -> list[list[StreamId]]:
        """The streams that no primitive needs after each, and that are no results."""
        last = {stream: index for index, node in enumerate(self.nodes) for stream in node.inputs}
        found: list[list[StreamId]] = [[] for _ in self.nodes]
        for stream, index in last.items():
            if stream not in self.results:
                found[index].append(stream)
        return found

    @cached_property
    def pipelined(self) -> dict[int, int]:
        """The nodes whose results only an Accum reads, directly or through others of them; its number by theirs."""
        readers: dict[StreamId, list[int]] = {}
        for index, node in enumerate(self.nodes):
            for stream in node.inputs:
                readers.setdefault(stream, []).append(index)
        found: dict[int, int] = {}
        for index in range(len(self.nodes) - 1, -1, -1):
            node = self.nodes[index]
            if not isinstance(node.op, _ELEMENTWISE) or node.outputs[0] in self.results:
                continue
            reading = readers.get(node.outputs[0], [])
            if len(reading) == 1:
                (reader,) = reading
                if isinstance(self.nodes[reader].op, Accum):
                    found[index] = reader
                elif reader in found:
                    found[index] = found[reader]
        return found

    def live_nodes(self) -> Iterator[Node]:
        """The nodes that the results depend on, last first."""
        needed = set(self.results)
        for node in reversed(self.nodes):
            if needed.intersection(node.outputs):
                needed.update(node.inputs)
                yield node
