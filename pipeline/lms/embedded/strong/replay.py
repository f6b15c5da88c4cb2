"""Sections of a draft that are applied again as a whole: in the next rounds of a loop, or to like operands."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pipeline.lms.embedded.draft import Draft, Move
from pipeline.lms.embedded.types.coercions import cut, dims_of
from pipeline.lms.embedded.types.type_table import TypeId, TypeTable
from step_runtime.base.shapes import Dim
from step_runtime.base.types import StreamType

_MOST_MOVES = 24
"""Longer repetitions are not tried."""
_MOST_SECTIONS = 4

Rebuild = Callable[[Move, tuple[int, ...], TypeId], int | None]
"""Makes a move again, of other sources, with a result of a type; gives its stream, if it can be made."""


class Section(NamedTuple):
    """Moves that are made again, with what is exchanged in each round: a stream by another one.

    `result` of a round takes the place of `entry` in the next one, if there is an entry.
    """

    moves: tuple[int, ...]
    rounds: tuple[Mapping[int, int], ...]
    entry: int | None
    looped: bool = False
    """Whether a loop of the reference says how many rounds there are."""


class Replay:
    """Finds the sections of drafts that share the streams of `pool`."""

    def __init__(self, table: TypeTable, pool: Draft, rounds: Sequence[int]) -> None:
        self._table = table
        self._pool = pool
        self._first = len(table.inputs)
        self._rounds = rounds
        self._made_of: dict[int, frozenset[int]] = {}

    def repeated(
        self, streams: Sequence[int], loose: Sequence[int], rebuild: Rebuild
    ) -> Iterator[tuple[list[int], bool]]:
        """The new streams of each way to repeat what made a draft's newest stream, and whether a loop says how often.

        Args:
            streams: The streams of the draft, in the order in which they were made.
            loose: Those that nothing takes yet.
            rebuild: Makes a move again.
        """
        newest = streams[-1]
        if newest < self._first:
            return
        unused = [stream for stream in loose if stream < self._first]
        sections = itertools.chain(
            self._loops(newest, unused), self._parallels(newest, unused), self._siblings(streams, loose)
        )
        for section in itertools.islice(sections, _MOST_SECTIONS):
            if len(section.moves) * len(section.rounds) <= _MOST_MOVES:
                made = self._made(section, newest, rebuild)
                if made:
                    yield made, section.looped

    def _ancestors(self, stream: int) -> frozenset[int]:
        """What a stream is made of, with itself."""
        known = self._made_of.get(stream)
        if known is None:
            sources = self._pool.moves[stream - self._first].sources if stream >= self._first else ()
            known = self._made_of[stream] = frozenset((stream,)).union(*map(self._ancestors, sources))
        return known

    def _alike(self, one: int, other: int) -> bool:
        """Whether streams hold the same kind of elements: of one type, or with one list of dims."""
        a, b = (self._table.types[self._pool.streams[stream]] for stream in (one, other))
        return a == b or (cut(a.dtype)[0] == cut(b.dtype)[0] and dims_of(a) == dims_of(b))

    def _loops(self, newest: int, unused: Sequence[int]) -> Iterator[Section]:
        """Sections that lead from a stream to one like it, in as many rounds as a loop of the reference has."""
        ancestors = self._ancestors(newest)
        for entry in sorted(ancestors - {newest}, reverse=True):
            if not self._alike(entry, newest):
                continue
            moves = tuple(sorted(s for s in ancestors if s != entry and entry in self._ancestors(s)))
            others = {source for move in moves for source in self._pool.moves[move - self._first].sources}
            others -= {entry, *moves}
            changes = [
                {old: new} for old in sorted(others) if old < self._first for new in unused if self._alike(old, new)
            ]
            if changes:
                yield Section(moves, tuple(changes), entry)
                continue
            if len(moves) < 2:
                continue  # A single function applied to its own result does not count as a round.
            for times in self._rounds:
                yield Section(moves, ({},) * (times - 1), entry, looped=True)

    def _parallels(self, newest: int, unused: Sequence[int]) -> Iterator[Section]:
        """All that leads from the inputs to a stream, for other inputs of their kind."""
        ancestors = self._ancestors(newest)
        moves = tuple(sorted(stream for stream in ancestors if stream >= self._first))
        used = sorted(stream for stream in ancestors if stream < self._first)
        for old in used:
            others = [new for new in unused if self._comparable(old, new)]
            if len(others) > 1:
                yield Section(moves, tuple({old: new} for new in others), None)
        for old, new in itertools.product(used, range(self._first)):
            if old == new or not self._comparable(old, new):
                continue
            if new in unused:
                yield Section(moves, ({old: new},), None)
            elif new in used and old < new:
                yield Section(moves, ({old: new, new: old},), None)

    def _siblings(self, streams: Sequence[int], loose: Sequence[int]) -> Iterator[Section]:
        """The newest move, for all that nothing takes yet or that another move takes beside the same operand."""
        newest = streams[-1]
        made = streams[self._first :]
        for old in self._pool.moves[newest - self._first].sources:
            taken = [source for stream in made[:-1] for source in self._beside(stream, old)]
            others = dict.fromkeys(stream for stream in (*taken, *loose) if stream not in (old, newest))
            like = [stream for stream in others if self._pool.streams[stream] == self._pool.streams[old]]
            if like:
                yield Section((newest,), tuple({old: new} for new in like), None)

    def _beside(self, stream: int, operand: int) -> Sequence[int]:
        """The operands of the move that made a stream, if this one is among them."""
        sources = self._pool.moves[stream - self._first].sources
        return sources if operand in sources else ()

    def _comparable(self, one: int, other: int) -> bool:
        a, b = (self._table.types[self._pool.streams[stream]] for stream in (one, other))
        (element, dims), (other_element, other_dims) = cut(a.dtype), cut(b.dtype)
        return element == other_element and dims == other_dims and len(a.shape) == len(b.shape)

    def _made(self, section: Section, newest: int, rebuild: Rebuild) -> list[int]:
        """The new streams; none if a move cannot be made again."""
        made: list[int] = []
        last = newest
        for change in section.rounds:
            now = {**change} if section.entry is None else {section.entry: last, **change}
            dims = self._dims(change)
            for stream in section.moves:
                move = self._pool.moves[stream - self._first]
                sources = tuple(now.get(source, source) for source in move.sources)
                result = self._table.types[move.result]
                shape = tuple(dims.get(dim, dim) for dim in result.shape)
                wanted = self._table.intern(StreamType(result.dtype, shape))
                found = rebuild(move, sources, wanted)
                if found is None:
                    return []
                now[stream] = found
                made.append(found)
            last = now[newest]
        return list(dict.fromkeys(made))

    def _dims(self, change: Mapping[int, int]) -> dict[Dim, Dim]:
        """Which dim takes the place of which where inputs are exchanged."""
        found: dict[Dim, Dim] = {}
        for old, new in change.items():
            a, b = (self._table.types[self._pool.streams[stream]].shape for stream in (old, new))
            found |= dict(zip(a, b, strict=False))
        return found
