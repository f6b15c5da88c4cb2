"""What a function takes, and which streams can be its operands."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipeline.lms.embedded.types.type_table import INVENTED, Need, TypeId, TypeTable
from step_runtime.base.functions import Fn
from step_runtime.base.types import DType, STuple


class Callee:
    """Something that takes components: a function, or a routing with its index last."""

    def __init__(self, fn: Fn, need: Need, table: TypeTable) -> None:
        self.fn = fn
        self.need = need
        self.suffixes = [(need[i:], table.number(need[i:])) for i in range(len(need))]
        self._served: dict[tuple[int, ...], list[DType]] = {}

    def operand_types(self, counts: tuple[int, ...]) -> list[DType]:
        """What each source serves when each serves so many components."""
        known = self._served.get(counts)
        if known is None:
            ends = list(itertools.accumulate(counts))
            parts = [self.need[end - count : end] for end, count in zip(ends, counts, strict=True)]
            known = self._served[counts] = [part[0] if len(part) == 1 else STuple(part) for part in parts]
        return known


class Operands(NamedTuple):
    """Streams that together serve a need, and how many components of it each serves."""

    sources: tuple[int, ...]
    counts: tuple[int, ...]


def find_operands(
    table: TypeTable, streams: Sequence[TypeId], among: Sequence[int], callee: Callee, newest: int
) -> Iterator[Operands]:
    """Sources for an callee among some streams, the newest one among them, that serve without an invented dim."""
    need = len(callee.need)
    fits = [[(stream, *table.fit(streams[stream], *suffix)) for stream in among] for suffix in callee.suffixes]
    serving = [[(stream, count) for stream, count, far in row if count and far < INVENTED] for row in fits]

    def extend(sources: tuple[int, ...], counts: tuple[int, ...], place: int) -> Iterator[Operands]:
        for stream, count in serving[place]:
            met = Operands((*sources, stream), (*counts, count))
            if place + count < need:
                yield from extend(*met, place + count)
            elif newest in met.sources:
                yield met

    return extend((), (), 0)
