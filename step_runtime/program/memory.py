"""The bytes that a program holds at a time, from its symbolic shapes, counted as a streaming machine holds them.

- A view (Repeat, Promote, Zip, …) holds nothing of its own; what it is a view of is held until the view is last used.
- What an Accum reads as it is computed holds one part; see `pipelined`.
- Every other stream is held whole until it is last used, inputs until the end, and results count in full at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from step_runtime.base.shapes import Sizes, upper_bound
from step_runtime.base.types import StreamType
from step_runtime.primitives import Accum, Flatten, Identity, Map, Repeat, RepeatRef, Zip
from step_runtime.program.graph import Node, Program, StreamId

PART = 2**26
"""Bytes of a stream from which on it is computed in parts of about so many bytes."""

_ELEMENTWISE = (Map, Zip, Identity)
"""Primitives whose result at a place needs only their inputs at that place."""


def pipelined(program: Program) -> dict[int, int]:
    """The nodes whose results only an Accum reads, directly or through others of them; its number by theirs."""
    readers: dict[int, list[int]] = {}
    for index, node in enumerate(program.nodes):
        for stream in node.inputs:
            readers.setdefault(stream, []).append(index)
    found: dict[int, int] = {}
    for index in range(len(program.nodes) - 1, -1, -1):
        node = program.nodes[index]
        if not isinstance(node.op, _ELEMENTWISE) or node.outputs[0] in program.results:
            continue
        reading = readers.get(node.outputs[0], [])
        if len(reading) == 1:
            (reader,) = reading
            if isinstance(program.nodes[reader].op, Accum):
                found[index] = reader
            elif reader in found:
                found[index] = found[reader]
    return found


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
    deferred = pipelined(program)
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
