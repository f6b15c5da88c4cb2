"""A program as a dataflow graph: primitives as nodes, streams as edges.

Streams are numbered: first the inputs, then each node's results in order. Nodes are in program order, so
every stream is produced before it is consumed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from step_runtime.base.errors import Span
from step_runtime.primitives import Primitive

StreamId = int


@dataclass(frozen=True)
class Node:
    """One use of a primitive. A Merge's inputs are its streams, then the index."""

    op: Primitive
    inputs: tuple[StreamId, ...]
    outputs: tuple[StreamId, ...]
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Program:
    """Inputs by name, nodes in order, results as returned; `names` are the streams' names in the text."""

    inputs: tuple[str, ...]
    nodes: tuple[Node, ...]
    results: tuple[StreamId, ...]
    names: Mapping[StreamId, str] = field(default_factory=dict, compare=False)
    result_span: Span | None = field(default=None, compare=False)

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

    def live_nodes(self) -> Iterator[Node]:
        """The nodes that the results depend on, last first."""
        needed = set(self.results)
        for node in reversed(self.nodes):
            if needed.intersection(node.outputs):
                needed.update(node.inputs)
                yield node
