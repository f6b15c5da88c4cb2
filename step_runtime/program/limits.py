"""The limits of a program: those checked before it runs, and the time that a run may take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from step_runtime.base.errors import Diagnostic
from step_runtime.base.shapes import Sizes, upper_bound
from step_runtime.base.types import StreamType, components_of, layout
from step_runtime.program.graph import Node, Program
from step_runtime.program.memory import held_bytes

_LESS = "repeat less, or reduce earlier"


@dataclass(frozen=True)
class Limits:
    """Bounds of one program; messages name the one that it exceeds.

    Attributes:
        characters: Of its source.
        depth: Nesting levels of its syntax tree.
        steps: Of evaluating it.
        primitives: After unrolling.
        dims: Of one stream.
        numbers: That its streams carry, all together.
        bytes: That it holds at a time, counted as in `memory`.
        seconds: Processor time of one run; a run that waits may take ten times as long by the clock.
    """

    characters: int = 20_000
    depth: int = 80
    steps: int = 100_000
    primitives: int = 1_000
    dims: int = 32
    numbers: int = 2**32
    bytes: int = 2**30
    seconds: float = 10.0

    def stated(self, name: str) -> str:
        """A limit's value and how to raise it, for messages: the field, and the option of `pipeline.verify`."""
        value = getattr(self, name)
        figure = f"{value / 2**20:,.0f} MiB" if name == "bytes" else f"{value:,}"
        return f"the limit is {figure} (Limits.{name}, --limit-{name})"


def check_size(
    program: Program, types: Sequence[StreamType | None], sizes: Sizes, limits: Limits, itemsize: int
) -> list[Diagnostic]:
    """Rejects a program whose streams, by their symbolic shapes, have too many dims, carry or hold too much.

    A routed dim counts as its upper bound: the number of its index's elements.
    """
    bounds = _bounds(program, types, sizes)
    carried = sum(_numbers(types[stream], bounds) for stream in range(len(program.inputs)))
    for node in program.nodes:
        results = [result for result in (types[stream] for stream in node.outputs) if result is not None]
        most = max((len(result.shape) for result in results), default=0)
        if most > limits.dims:
            message = f"a stream here has {most} dims; {limits.stated('dims')}"
            return [Diagnostic("limits", "dims", message, node.span, hint="Flatten merges dims")]
        carried += sum(_numbers(result, bounds) for result in results)
        if carried > limits.numbers:
            message = f"the streams up to here would carry {carried:,} numbers"
            message += f"; {limits.stated('numbers')}"
            return [Diagnostic("limits", "numbers", message, node.span, hint=_LESS)]
    for total, place in _held(program, types, bounds, itemsize):
        if total > limits.bytes:
            span = program.result_span if place is None else place.span
            message = f"the program would hold {total / 2**20:,.0f} MiB at a time here"
            message += f"; {limits.stated('bytes')}"
            return [Diagnostic("limits", "bytes", message, span, hint=_LESS)]
    return []


def peak_bytes(program: Program, types: Sequence[StreamType | None], sizes: Sizes, itemsize: int) -> int:
    """The most bytes that a program holds at a time, as `Limits.bytes` counts them."""
    return max(total for total, _ in _held(program, types, _bounds(program, types, sizes), itemsize))


def _held(
    program: Program, types: Sequence[StreamType | None], bounds: Sizes, itemsize: int
) -> Iterator[tuple[int, Node | None]]:
    return held_bytes(program, types, bounds, [itemsize * _numbers(stream, bounds) for stream in types])


def _bounds(program: Program, types: Sequence[StreamType | None], sizes: Sizes) -> Sizes:
    """The sizes, with the upper bound of every routed dim."""
    bounds = dict(sizes)
    for node in program.nodes:
        inputs = [taken for taken in (types[stream] for stream in node.inputs) if taken is not None]
        results = [result for result in (types[stream] for stream in node.outputs) if result is not None]
        if results and len(inputs) == len(node.inputs):
            bounds |= node.op.dim_bounds(inputs, results, bounds)
    return bounds


def _numbers(stream: StreamType | None, bounds: Sizes) -> int:
    if stream is None:
        return 0
    each = sum(prod(upper_bound(dim, bounds) for dim in layout(part)) for part in components_of(stream.dtype))
    return prod(upper_bound(dim, bounds) for dim in stream.shape) * each
