"""Which streams pass from primitive to primitive element by element, so that nobody stores them.

An Accum needs one element of its input at a time. Maps whose results only it reads run with it, a part of its outer
dims at a time: a simulator then holds a part of these streams, and a streaming machine one element.
"""

from __future__ import annotations

from collections.abc import Sequence

from step_runtime.primitives import Accum, Identity, Map, Zip
from step_runtime.program.graph import Program

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
