"""The strong proposer's statistical model: n-grams over the edges of programs.

Every edge of a program's graph runs from what produced a stream, over the structural primitives on the way, to the
function or result that takes it. An `EdgeModel` counts such edges in the solved examples of the instructions and,
weighted more, in the demonstrations; a draft scores by how likely its edges are under these counts. Edges are made of
kinds (`kinds`), which ignore names.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from pipeline.lms.embedded.kinds import PASSED, Context, Kind, map_kind
from pipeline.lms.embedded.types.coercions import without_ones
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Dim
from step_runtime.base.types import StreamType
from step_runtime.primitives import Accum, Map, Merge, Partition, Repeat, RepeatRef, Scan
from step_runtime.program.graph import Node, Program, StreamId

Edge: TypeAlias = tuple[Kind, Kind, Kind]
"""Producer, structural primitives on the way, consumer."""

_SMOOTHING = 3.0


def edges(program: Program, types: Sequence[StreamType], context: Context) -> Iterator[Edge]:
    """All edges of a program, those into its results last."""
    heads: dict[StreamId, Kind] = dict.fromkeys(range(len(program.inputs)), ("input",))
    ways: dict[StreamId, Kind] = dict.fromkeys(heads, ())
    for node in program.nodes:
        head = _head(node, types, context)
        if head is None:
            source = node.inputs[0]
            step = () if node.op.name in PASSED else (node.op.name,)
            heads |= dict.fromkeys(node.outputs, heads[source])
            ways |= dict.fromkeys(node.outputs, (*ways[source], *step))
            if node.op.name == "Zip":
                yield heads[node.inputs[1]], ways[node.inputs[1]], ("Zip",)
            continue
        for source in dict.fromkeys(node.inputs):
            yield heads[source], ways[source], head
        heads |= dict.fromkeys(node.outputs, head)
        ways |= dict.fromkeys(node.outputs, ())
    for stream in program.results:
        yield heads[stream], ways[stream], ("return",)


def _head(node: Node, types: Sequence[StreamType], context: Context) -> Kind | None:
    match node.op:
        case Map(fn=fn):
            return map_kind(fn)
        case Accum(fn=fn, b=b) | Scan(fn=fn, b=b):
            inner = without_ones(types[node.inputs[0]].shape[:b])
            return context.fold_kind(isinstance(node.op, Scan), fn, inner)
        case Merge() | Partition():
            return (node.op.name,)
    return None


class EdgeModel:
    """Counts of edges, and the probabilities that follow."""

    def __init__(self) -> None:
        self._edges: defaultdict[Edge, float] = defaultdict(float)
        self._ends: defaultdict[tuple[Kind, Kind], float] = defaultdict(float)
        self._producers: defaultdict[Kind, float] = defaultdict(float)
        self._ways: defaultdict[Kind, float] = defaultdict(float)
        self._consumers: defaultdict[Kind, float] = defaultdict(float)
        self._coarse: defaultdict[Kind, float] = defaultdict(float)
        self._repeats: defaultdict[str, float] = defaultdict(float)
        self._total = 0.0
        self._cache: dict[Edge, float] = {}

    def learn(self, program: Program, types: Sequence[StreamType], context: Context, weight: float) -> None:
        """Counts a program's edges, each `weight` times."""
        self._cache.clear()
        for edge in edges(program, types, context):
            self._total += weight
            producer, way, consumer = edge
            self._edges[edge] += weight
            self._ends[producer, consumer] += weight
            self._producers[producer] += weight
            self._ways[way] += weight
            self._consumers[consumer] += weight
            self._coarse[consumer[:2]] += weight
        for node in program.nodes:
            if isinstance(node.op, Repeat | RepeatRef):
                self._repeats[node.op.name] += weight

    def score(self, program: Program, types: Sequence[StreamType], context: Context) -> float:
        """The log-probability of a program's edges; shorter programs have fewer, and score higher."""
        return sum(self.of_edge(edge) for edge in edges(program, types, context))

    def of_edge(self, edge: Edge) -> float:
        """The log-probability of what follows the producer, backed off to its parts."""
        known = self._cache.get(edge)
        if known is None:
            producer, way, consumer = edge
            p_way = (self._ways.get(way, 0.0) + 2.0 * 0.2 ** len(way)) / (self._total + 2.0)
            p_coarse = (self._coarse.get(consumer[:2], 0.0) + 0.5) / (self._total + 6.0)
            p_consumer = (self._consumers.get(consumer, 0.0) + _SMOOTHING * p_coarse) / (self._total + _SMOOTHING)
            seen = self._producers.get(producer, 0.0)
            p_ends = (self._ends.get((producer, consumer), 0.0) + _SMOOTHING * p_consumer) / (seen + _SMOOTHING)
            p_edge = (self._edges.get(edge, 0.0) + _SMOOTHING * p_ends * p_way) / (seen + _SMOOTHING)
            known = self._cache[edge] = math.log(p_edge)
        return known

    def fold_bias(self, scan: bool, fn: Fn, inner: Sequence[Dim], context: Context) -> float:
        """How much more often folds of this kind were seen than its alternative, as a difference of logs."""
        kinds = [context.fold_kind(way, fn, inner) for way in (False, True)]
        counts = [0.5 * (self._consumers.get(kind, 0.0) + self._coarse.get(kind[:2], 0.0)) for kind in kinds]
        return math.log((counts[scan] + 1.0) / (counts[not scan] + 1.0))

    def reference_share(self) -> float:
        """How often a dim is repeated by a reference stream rather than by its name."""
        by_reference, by_name = (self._repeats.get(name, 0.0) for name in ("RepeatRef", "Repeat"))
        return (by_reference + 0.5) / (by_reference + by_name + 4.0)
