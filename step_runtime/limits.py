"""The bounds a program must keep before it may run, and a run while it does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy

from step_runtime.batching import element_layout
from step_runtime.errors import Diagnostic
from step_runtime.primitives import Partition
from step_runtime.program import Program
from step_runtime.shapes import Sizes, StreamType, evaluate
from step_runtime.types import components_of


@dataclass(frozen=True)
class Limits:
    """Bounds of one program.

    Attributes: `characters` of source; nesting `depth` of its syntax tree; `steps` of evaluating it;
    `primitives` after unrolling; `bytes` that all its streams would hold at once; `seconds` of one run.
    """

    characters: int = 20_000
    depth: int = 80
    steps: int = 100_000
    primitives: int = 1_000
    bytes: int = 2**30
    seconds: float = 10.0


def check_bytes(
    program: Program, types: Sequence[StreamType | None], sizes: Sizes, limits: Limits, itemsize: int
) -> list[Diagnostic]:
    """Refuses a program whose streams would hold too much, by their symbolic shapes.

    A routed dim counts as the largest that it can be: the number of its index's elements.
    """
    bounds = dict(sizes)
    total = sum(_bytes(types[i], bounds, itemsize) for i in range(len(program.inputs)))
    for node in program.nodes:
        if isinstance(node.op, Partition):
            index = types[node.inputs[1]]
            most = _elements(index, bounds) if index is not None else 0
            bounds |= {s.name: most for i in node.outputs for s in _symbols(types[i]) if s.name not in bounds}
        total += sum(_bytes(types[i], bounds, itemsize) for i in node.outputs)
        if total > limits.bytes:
            figure = f"{total / 2**20:,.0f} MiB"
            message = f"the streams up to here would hold {figure}; the limit is {limits.bytes / 2**20:,.0f} MiB"
            return [Diagnostic("limits", "bytes", message, node.span, hint="repeat less, or reduce earlier")]
    return []


def _symbols(stream: StreamType | None) -> set[sympy.Symbol]:
    return {s for dim in stream.shape for s in dim.free_symbols} if stream is not None else set()


def _elements(stream: StreamType, sizes: Sizes) -> int:
    count = 1
    for dim in stream.shape:
        count *= evaluate(dim, sizes)
    return count


def _bytes(stream: StreamType | None, sizes: Sizes, itemsize: int) -> int:
    if stream is None:
        return 0
    held = 0
    for element in components_of(stream.dtype):
        numbers = _elements(stream, sizes)
        for size in element_layout(element, sizes):
            numbers *= size
        held += numbers * itemsize
    return held
