"""Sections of a draft that are applied again as a whole: in the next rounds of a loop, or to like operands."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pipeline.lms.embedded.draft import Draft, Move
from pipeline.lms.embedded.types.coercions import cut, dims_of
from pipeline.lms.embedded.types.type_table import TypeId, TypeTable
from step_runtime.base.shapes import Dim
from step_runtime.base.types import StreamType

_MOST_MOVES = 24
"""Longer repetitions are not tried."""
_MOST_SECTIONS = 6

Rebuild = Callable[[Move, tuple[int, ...], TypeId], int | None]
"""Makes a move again, of other sources, with a result of a type; gives its stream, if it can be made."""


class Section(NamedTuple):
    """Moves that are made again, with what is exchanged in each round: a stream by another one.

    What a round carries into the next one takes the place of a stream at the moves that it is `carried` to.
    """

    moves: tuple[int, ...]
    rounds: tuple[Mapping[int, int], ...]
    carried: Mapping[tuple[int, int], int]
    """For a move and a stream that it takes: the stream of the round before that takes its place."""
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
            self._loops(newest, streams, unused), self._parallels(newest, unused), self._siblings(streams, loose)
        )
        for section in itertools.islice(sections, _MOST_SECTIONS):
            if len(section.moves) * len(section.rounds) <= _MOST_MOVES:
                made = self._made(section, rebuild)
                if made:
                    yield made, section.looped

    def _ancestors(self, stream: int) -> frozenset[int]:
        """What a stream is made of, with itself."""
        known = self._made_of.get(stream)
        if known is None:
            sources = self._sources(stream)
            known = self._made_of[stream] = frozenset((stream,)).union(*map(self._ancestors, sources))
        return known

    def _alike(self, one: int, other: int) -> bool:
        """Whether streams hold the same kind of elements: of one type, or with one list of dims."""
        a, b = (self._table.types[self._pool.streams[stream]] for stream in (one, other))
        return a == b or (cut(a.dtype)[0] == cut(b.dtype)[0] and dims_of(a) == dims_of(b))

    def _loops(self, newest: int, streams: Sequence[int], unused: Sequence[int]) -> Iterator[Section]:
        """Sections that lead from a stream to one like it, in as many rounds as a loop of the reference has."""
        ancestors = self._ancestors(newest)
        for entry in sorted(ancestors - {newest}, reverse=True):
            if not self._alike(entry, newest):
                continue
            moves = self._following([entry], ancestors)
            carried = self._taking(moves, entry, newest)
            others = {source for move in moves for source in self._sources(move)} - {entry, *moves}
            inputs = sorted(other for other in others if other < self._first)
            rounds = self._families(inputs, unused, self._alike)
            changes = [{old: new} for old in inputs for new in unused if self._alike(old, new)]
            if rounds:
                yield Section(moves, rounds, carried)
            if changes:
                yield Section(moves, tuple(changes), carried)
                continue
            if len(moves) < 2:
                continue  # A single function applied to its own result does not count as a round.
            ways = [(moves, carried), *self._with_more(entry, newest, streams)]
            first = min(move for move, _ in carried)
            if len(carried) > 1:
                ways.append(((first, *self._following([first], ancestors)), {(first, entry): newest}))
            for times, (again, links) in itertools.product(self._rounds, ways):
                if self._first_round(again, entry, times):
                    yield Section(again, ({},) * (times - 1), links, looped=True)

    def _first_round(self, moves: Sequence[int], entry: int, times: int) -> bool:
        """Whether moves are the first of so many rounds, not all rounds of a loop or a later one."""
        makers = Counter(self._pool.moves[move - self._first].maker for move in moves)
        before = {self._pool.moves[s - self._first].maker for s in self._ancestors(entry) if s >= self._first}
        return not makers.keys() <= before and min(makers.values()) * times <= max(self._rounds)

    def _with_more(
        self, entry: int, newest: int, streams: Sequence[int]
    ) -> Iterator[tuple[tuple[int, ...], Mapping[tuple[int, int], int]]]:
        """The moves of a round that changes other inputs as well, each taken by what then takes its place."""
        results = {entry: newest}
        for other in range(self._first):
            made = [s for s in streams if other in self._sources(s) and entry in self._ancestors(s) and s != newest]
            latest = next((s for s in reversed(made) if self._alike(other, s)), None)
            if latest is not None:
                results.setdefault(other, latest)
        leading = frozenset().union(*map(self._ancestors, results.values()))
        moves = self._following(list(results), leading)
        if len(results) > 1 and entry not in moves:
            links = (self._taking(moves, old, new) for old, new in results.items())
            yield moves, {link: new for each in links for link, new in each.items()}

    def _following(self, entries: Sequence[int], among: Iterable[int]) -> tuple[int, ...]:
        """Those of some streams that are made of one of these."""
        return tuple(sorted(s for s in among if any(e != s and e in self._ancestors(s) for e in entries)))

    def _taking(self, moves: Iterable[int], old: int, new: int) -> dict[tuple[int, int], int]:
        """A stream in place of another one at all moves that take it."""
        return {(move, old): new for move in moves if old in self._sources(move)}

    def _sources(self, stream: int) -> tuple[int, ...]:
        return self._pool.moves[stream - self._first].sources if stream >= self._first else ()

    def _families(
        self, olds: Sequence[int], unused: Sequence[int], like: Callable[[int, int], bool]
    ) -> tuple[Mapping[int, int], ...]:
        """Several inputs at once for others of their types, as they are listed, as often as there are such others."""
        left, rounds = list(unused), list[Mapping[int, int]]()
        while True:
            change: dict[int, int] = {}
            for old in olds:
                new = next((n for n in left if self._pool.streams[n] == self._pool.streams[old]), None)
                if new is None:
                    new = next((n for n in left if like(old, n)), None)
                if new is not None:
                    change[old] = new
                    left.remove(new)
            if len(change) < 2 or (rounds and change.keys() != rounds[0].keys()):
                return tuple(rounds)
            rounds.append(change)

    def _shifts(self, used: Sequence[int], unused: Sequence[int]) -> Iterator[Mapping[int, int]]:
        """Several inputs at once for those that are as far from each in the list, if nothing else takes these."""
        types, count = self._pool.streams, self._first
        for offset in range(1, count):
            pairs = {old: (old + offset) % count for old in used}
            change = {old: new for old, new in pairs.items() if types[old] == types[new]}
            change = {old: new for old, new in change.items() if new in unused or new in change}
            if len(change) > 2 or (len(change) == 2 and change.keys() != {*change.values()}):
                yield change

    def _parallels(self, newest: int, unused: Sequence[int]) -> Iterator[Section]:
        """All that leads from the inputs to a stream, for other inputs of their kind."""
        ancestors = self._ancestors(newest)
        moves = tuple(sorted(stream for stream in ancestors if stream >= self._first))
        used = sorted(stream for stream in ancestors if stream < self._first)
        families = self._families(used, unused, self._comparable)
        if families:
            yield Section(moves, families, {})
        for change in self._shifts(used, unused):
            if families != (change,):
                yield Section(moves, (change,), {})
        for old in used:
            others = [new for new in unused if self._comparable(old, new)]
            if len(others) > 1:
                yield Section(moves, tuple({old: new} for new in others), {})
        for old, new in itertools.product(used, range(self._first)):
            if old == new or not self._comparable(old, new):
                continue
            if new in unused:
                yield Section(moves, ({old: new},), {})
            elif new in used and old < new:
                yield Section(moves, ({old: new, new: old},), {})

    def _siblings(self, streams: Sequence[int], loose: Sequence[int]) -> Iterator[Section]:
        """The newest move, for all that nothing takes yet or that another move takes beside the same operand."""
        newest = streams[-1]
        made = streams[self._first :]
        for old in self._pool.moves[newest - self._first].sources:
            taken = [source for stream in made[:-1] for source in self._beside(stream, old)]
            others = dict.fromkeys(stream for stream in (*taken, *loose) if stream not in (old, newest))
            like = [stream for stream in others if self._pool.streams[stream] == self._pool.streams[old]]
            if like:
                yield Section((newest,), tuple({old: new} for new in like), {})

    def _beside(self, stream: int, operand: int) -> Sequence[int]:
        """The operands of the move that made a stream, if this one is among them."""
        sources = self._pool.moves[stream - self._first].sources
        return sources if operand in sources else ()

    def _comparable(self, one: int, other: int) -> bool:
        a, b = (self._table.types[self._pool.streams[stream]] for stream in (one, other))
        (element, dims), (other_element, other_dims) = cut(a.dtype), cut(b.dtype)
        return element == other_element and dims == other_dims and len(a.shape) == len(b.shape)

    def _made(self, section: Section, rebuild: Rebuild) -> list[int]:
        """The new streams; none if a move cannot be made again."""
        made: list[int] = []
        before = {result: result for result in section.carried.values()}
        for change in section.rounds:
            now = {**change}
            dims = self._dims(change)
            for stream in section.moves:
                move = self._pool.moves[stream - self._first]
                links = (section.carried.get((stream, source)) for source in move.sources)
                sources = tuple(
                    now.get(source, source) if link is None else before[link]
                    for source, link in zip(move.sources, links, strict=True)
                )
                result = self._table.types[move.result]
                shape = tuple(dims.get(dim, dim) for dim in result.shape)
                wanted = self._table.intern(StreamType(result.dtype, shape))
                found = rebuild(move, sources, wanted)
                if found is None:
                    return []
                now[stream] = found
                made.append(found)
            before = {result: now[result] for result in before}
        return list(dict.fromkeys(made))

    def _dims(self, change: Mapping[int, int]) -> dict[Dim, Dim]:
        """Which dim takes the place of which where inputs are exchanged."""
        found: dict[Dim, Dim] = {}
        for old, new in change.items():
            a, b = (self._table.types[self._pool.streams[stream]].shape for stream in (old, new))
            found |= dict(zip(a, b, strict=False))
        return found
