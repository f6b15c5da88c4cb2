"""The limits of a program: those checked before it runs, and the time that a run may take.

The bytes that it holds at a time follow from its symbolic shapes, counted as a streaming machine holds them.

- A view (Repeat, Promote, Zip, …) holds nothing of its own; what it is a view of is held until the view is last used.
- What an Accum reads as it is computed holds one part; see `Program.pipelined`.
- Every other stream is held whole until it is last used, inputs until the end, and results count in full at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from step_runtime.base.errors import Diagnostic
from step_runtime.base.shapes import Dim, Sizes, upper_bound
from step_runtime.base.types import StreamType, components_of, layout
from step_runtime.primitives import Flatten, Repeat, RepeatRef
from step_runtime.program.graph import Node, Program, StreamId

PART = 2**26
"""Bytes of a stream from which on it is computed in parts of about so many bytes."""


def part_axis(kept: Sequence[int]) -> int:
    """The torch axis, of an Accum's outer dims, along which its input is split: the largest."""
    return max(range(len(kept)), key=lambda axis: kept[axis])


def part_size(size: int, kept: Sequence[int]) -> int:
    """How many places of the split axis make a part of a stream of this many bytes; at least one."""
    places = kept[part_axis(kept)]
    return max(1, min(places, PART * places // max(1, size)))


def held(size: int, kept: Sequence[int]) -> int:
    """The bytes of one part."""
    places = kept[part_axis(kept)]
    return -(-size * part_size(size, kept) // max(1, places))


def held_bytes(
    program: Program, types: Sequence[StreamType | None], bounds: Sizes, size: Sequence[int]
) -> Iterator[tuple[int, Node | None]]:
    """The bytes held while each node runs; last, without a node, those of the results as they are compared.

    `size` is the bytes of every stream if it were stored whole, `bounds` the size, or the upper bound, of every symbol.
    Of a stream of unknown type nothing is counted.
    """
    deferred = program.pipelined
    owners = _owners(program, types, deferred)
    own = list(size)
    for index, node in enumerate(program.nodes):
        kept = _kept(types[program.nodes[deferred[index]].outputs[0]], bounds) if index in deferred else ()
        for stream in node.outputs:
            own[stream] = 0 if stream not in owners[stream] else held(size[stream], kept) if kept else size[stream]
    ending = _ending(program, owners)
    total = sum(own[: len(program.inputs)])
    for index, node in enumerate(program.nodes):
        total += sum(own[stream] for stream in node.outputs)
        yield total, node
        total -= sum(own[stream] for stream in ending.get(index, ()))
    yield total + sum(size[stream] - own[stream] for stream in set(program.results)), None


def _owners(program: Program, types: Sequence[StreamType | None], deferred: Mapping[int, int]) -> list[set[StreamId]]:
    """The streams whose storage holds each stream's numbers."""
    owners: list[set[StreamId]] = [{stream} for stream in range(len(program.inputs))]
    for index, node in enumerate(program.nodes):
        behind = set[StreamId]().union(*(owners[stream] for stream in node.inputs))
        view = node.op.view and not (_merges(node, types) and _repeats(program, node))
        # What is deferred reads its inputs until the Accum is done.
        kept = behind if view or index in deferred else set[StreamId]()
        owners += [kept if view else kept | {stream} for stream in node.outputs]
    return owners


def _ending(program: Program, owners: Sequence[set[StreamId]]) -> dict[int, list[StreamId]]:
    """The streams that each node is the last to use; inputs and results are in use until the end."""
    last: dict[StreamId, int] = {}
    for index, node in enumerate(program.nodes):
        for stream in (*node.inputs, *node.outputs):
            last |= dict.fromkeys(owners[stream], index)
    until_the_end = set(range(len(program.inputs))).union(*(owners[stream] for stream in program.results))
    ending: dict[int, list[StreamId]] = {}
    for stream, index in last.items():
        if stream not in until_the_end:
            ending.setdefault(index, []).append(stream)
    return ending


def _kept(result: StreamType | None, bounds: Sizes) -> tuple[int, ...]:
    """The sizes of the outer dims that an Accum with this result keeps, outermost first."""
    return () if result is None else tuple(upper_bound(dim, bounds) for dim in reversed(result.shape))


def _merges(node: Node, types: Sequence[StreamType | None]) -> bool:
    """Whether a node merges dims of which more than one is not 1."""
    stream = types[node.inputs[0]]
    if stream is None or not isinstance(node.op, Flatten):
        return False
    merged = [dim for dim in stream.shape[node.op.L[0] - 1 : node.op.L[-1] + 1] if dim != 1]
    return len(merged) > 1


def _repeats(program: Program, node: Node) -> bool:
    """Whether a stream is repeated on the way to a node, so that merging its dims copies what is repeated."""
    made = {stream: each for each in program.nodes for stream in each.outputs}
    pending = list(node.inputs)
    while pending:
        source = made.get(pending.pop())
        if source is not None and source.op.view:
            if isinstance(source.op, Repeat | RepeatRef):
                return True
            pending += source.inputs
    return False


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
        bytes: That it holds at a time, counted as above.
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
        """A limit's value and how to raise it, for messages: the field, and the option of `pipeline.verify` if any."""
        if name == "bytes":
            return f"the limit is {self.bytes / 2**20:,.0f} MiB (Limits.bytes, --limit-bytes)"
        return f"the limit is {getattr(self, name):,} (Limits.{name})"


def check_size(
    program: Program, types: Sequence[StreamType | None], sizes: Sizes, limits: Limits, itemsize: int
) -> list[Diagnostic]:
    """Rejects a program whose streams, by their symbolic shapes, have too many dims, carry or hold too much.

    A routed dim counts as its upper bound: the number of its index's elements.
    """
    for node in program.nodes:
        most = max((len(result.shape) for stream in node.outputs if (result := types[stream])), default=0)
        if most > limits.dims:
            message = f"a stream here has {most} dims; {limits.stated('dims')}"
            return [Diagnostic("limits", "dims", message, node.span, hint="Flatten merges dims")]
    bounds = _bounds(program, types, sizes)
    numbers = _numbers(types, bounds)
    carried = sum(numbers)
    if carried <= limits.numbers and 2 * carried * itemsize <= limits.bytes:
        return []  # even if it held all streams at a time, and its results twice
    carried = sum(numbers[: len(program.inputs)])
    for node in program.nodes:
        carried += sum(numbers[stream] for stream in node.outputs)
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


def _held(
    program: Program, types: Sequence[StreamType | None], bounds: Sizes, itemsize: int
) -> Iterator[tuple[int, Node | None]]:
    return held_bytes(program, types, bounds, [itemsize * count for count in _numbers(types, bounds)])


def _bounds(program: Program, types: Sequence[StreamType | None], sizes: Sizes) -> Sizes:
    """The sizes, with the upper bound of every routed dim."""
    bounds = dict(sizes)
    for node in program.nodes:
        if not node.op.lists_results:
            continue  # only a routed dim depends on data
        inputs = [taken for taken in (types[stream] for stream in node.inputs) if taken is not None]
        results = [result for result in (types[stream] for stream in node.outputs) if result is not None]
        if results and len(inputs) == len(node.inputs):
            bounds |= node.op.dim_bounds(inputs, results, bounds)
    return bounds


def _numbers(types: Sequence[StreamType | None], bounds: Sizes) -> list[int]:
    """The numbers that each stream carries."""

    def count(dims: Sequence[Dim]) -> int:
        return prod([upper_bound(dim, bounds) for dim in dims])

    parts = [() if stream is None else components_of(stream.dtype) for stream in types]
    each = [sum([count(layout(part)) for part in own]) for own in parts]
    return [0 if one is None else count(one.shape) * number for one, number in zip(types, each, strict=True)]
