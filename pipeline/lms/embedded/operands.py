"""The operands of a function, and the streams that can serve as them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.types.type_table import INVENTED, Need, TypeId, TypeTable
from step_runtime.base.functions import Fn
from step_runtime.base.types import DType, STuple

_MOST_OPERANDS = 400
"""With more ways to serve a need than this, the later ones are left to chance."""


class Callee:
    """Something that takes components: a function, or a routing with its index last.

    Attributes:
        fn: The function; for a routing, the merging one.
        need: The types of the components, in order.
        routed: Whether it is a routing, whose index must be a separate stream.
        selects: Whether its index chooses among streams: each component before it must be one.
        branches: The functions of a routing that its index chooses from; none for a function.
        made_of: The functions that it applies.
    """

    def __init__(
        self, fn: Fn, need: Need, table: TypeTable, *, branches: Sequence[Fn] = (), selects: bool = False
    ) -> None:
        self.fn = fn
        self.need = need
        self.branches = tuple(branches)
        self.routed = selects or bool(branches)
        self.selects = selects
        self.made_of = frozenset((fn, *branches))
        self._table = table
        self._suffixes = [(need[i:], table.number(need[i:])) for i in range(len(need))]
        self._served: dict[tuple[int, ...], list[DType]] = {}

    def fit(self, stream: TypeId, place: int) -> tuple[int, float]:
        """How many components from `place` on a stream of this type serves (0: none), and its distance from them."""
        count, distance = self._table.fit(stream, *self._suffixes[place])
        if count > 1 and (self.selects or (self.routed and place + count == len(self.need))):
            return 0, 0.0
        return count, distance

    @property
    def number(self) -> int:
        """The number of the complete need in the type table."""
        return self._suffixes[0][1]

    def operand_types(self, counts: tuple[int, ...]) -> list[DType]:
        """The part of the need that each source serves, given the number of components of each."""
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
    streams: Sequence[TypeId],
    among: Sequence[int],
    callee: Callee,
    newest: int,
    steps: StepLimit,
    *,
    once: bool = False,
) -> Iterator[Operands]:
    """Finds operands among some streams, including the newest, without inventing a dim; each `once`, or also again.

    Raises:
        StepsExhausted: The sample has used all its steps.
    """
    need = len(callee.need)
    fits = [[(stream, *callee.fit(streams[stream], place)) for stream in among] for place in range(need)]
    serving = [[(stream, count) for stream, count, far in row if count and far < INVENTED] for row in fits]
    last = max((place for place, row in enumerate(serving) for stream, _ in row if stream == newest), default=-1)
    found = 0
    waiting: list[tuple[tuple[int, ...], tuple[int, ...], int]] = [((), (), 0)]
    while waiting and found < _MOST_OPERANDS:
        sources, counts, place = waiting.pop()
        if place == need:
            found += 1
            yield Operands(sources, counts)
            continue
        steps.spend(len(serving[place]))
        for stream, count in reversed(serving[place]):
            if once and stream in sources:
                continue
            if stream == newest or newest in sources or place + count <= last:
                waiting.append(((*sources, stream), (*counts, count), place + count))
