"""The limits of a program: those checked before it runs, and the time that a run may take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from step_runtime.base.errors import Diagnostic
from step_runtime.base.shapes import Sizes, upper_bound
from step_runtime.base.types import StreamType, components_of, layout
from step_runtime.program.graph import Program


@dataclass(frozen=True)
class Limits:
    """Bounds of one program.

    Attributes:
        characters: Of its source.
        depth: Nesting levels of its syntax tree.
        steps: Of evaluating it.
        primitives: After unrolling.
        dims: Of one stream.
        bytes: Of all its streams together.
        seconds: Of one run.
    """

    characters: int = 20_000
    depth: int = 80
    steps: int = 100_000
    primitives: int = 1_000
    dims: int = 32
    bytes: int = 2**30
    seconds: float = 10.0


def check_size(
    program: Program, types: Sequence[StreamType | None], sizes: Sizes, limits: Limits, itemsize: int
) -> list[Diagnostic]:
    """Rejects a program whose streams, by their symbolic shapes, have too many dims or would hold too much.

    A routed dim counts as its upper bound: the number of its index's elements.
    """
    bounds = dict(sizes)
    total = sum(_bytes(types[i], bounds, itemsize) for i in range(len(program.inputs)))
    for node in program.nodes:
        results = [result for result in (types[i] for i in node.outputs) if result is not None]
        if any(len(result.shape) > limits.dims for result in results):
            message = f"a stream here has {len(results[0].shape)} dims; the limit is {limits.dims}"
            return [Diagnostic("limits", "dims", message, node.span, hint="Flatten merges dims")]
        inputs = [taken for taken in (types[i] for i in node.inputs) if taken is not None]
        if results and len(inputs) == len(node.inputs):
            bounds |= node.op.dim_bounds(inputs, results, bounds)
        total += sum(_bytes(result, bounds, itemsize) for result in results)
        if total > limits.bytes:
            figure = f"{total / 2**20:,.0f} MiB"
            message = f"the streams up to here would hold {figure}; the limit is {limits.bytes / 2**20:,.0f} MiB"
            return [Diagnostic("limits", "bytes", message, node.span, hint="repeat less, or reduce earlier")]
    return []


def _elements(stream: StreamType, bounds: Sizes) -> int:
    return prod(upper_bound(dim, bounds) for dim in stream.shape)


def _bytes(stream: StreamType | None, bounds: Sizes, itemsize: int) -> int:
    if stream is None:
        return 0
    numbers = sum(prod(upper_bound(dim, bounds) for dim in layout(part)) for part in components_of(stream.dtype))
    return _elements(stream, bounds) * numbers * itemsize
