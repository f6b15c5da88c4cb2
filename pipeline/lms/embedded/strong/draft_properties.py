"""The properties of drafts by which a beam search ranks those of one length: of their moves, and of the whole."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_

import numpy as np
from numpy.typing import NDArray

from pipeline.lms.embedded.strong.levels import Child
from pipeline.lms.embedded.strong.search_style import SearchStyle
from pipeline.lms.embedded.strong.stream_pool import StreamPool
from pipeline.lms.embedded.task_view import TaskView
from pipeline.lms.embedded.types.coercions import without_ones
from step_runtime.base.types import STuple

Vector = NDArray[np.int64]

UNIT = 64
"""Properties are counted in this part of 1, as integers."""
_PLACES = 40
"""Drafts after this many better ones are ranked alike by their places."""


class DraftProperties:
    """The properties of the drafts of one search; those of streams and of shorter drafts are kept.

    Attributes:
        pool: The search's streams.
    """

    def __init__(self, view: TaskView, pool: StreamPool, style: SearchStyle) -> None:
        self._view = view
        self._types = view.table.types
        self.pool = pool
        self._trust = style.trust
        sizes = len(view.fns), pool.first, len(view.table.outputs)
        self._search = (style.once, style.trust, style.ordered, style.choosy, *sizes)
        self._of_streams: dict[int, list[float]] = {}
        self._of_moves: dict[tuple[int, ...], Vector] = {}
        """What the moves of each draft have together, by its streams."""

    def matrix(self, length: int, found: Sequence[tuple[float, Child]]) -> Vector:
        """The properties of some drafts of one length with their scores, best first: a row for each."""
        best = found[0][0]
        return np.stack(
            [
                np.concatenate((self._moves(child), _counted(self._whole(child, length, score, best - score, place))))
                for place, (score, child) in enumerate(found)
            ]
        )

    def _moves(self, child: Child) -> Vector:
        """What the moves of a draft have together; the newest may make several streams."""
        parent = child.parent
        streams = (*parent.streams, *child.fresh)
        known = self._of_moves.get(streams)
        if known is None:
            made = map(sum, zip(*map(self._stream, child.fresh), strict=True))
            own = [*self._applied(child), *made, *self._progress(child)]
            known = self._of_moves.get(parent.streams, 0) + _counted(own)
            self._of_moves[streams] = known
        return known

    def _progress(self, child: Child) -> list[float]:
        """Whether the newest move is needed, or its values are known and useless."""
        needs, pool, parent = self.pool.needs, self.pool, child.parent
        if needs is None:
            return [0.0, 0.0]
        useful, idle = pool.progress(parent.streams, child.fresh)
        return [useful, idle]

    def _applied(self, child: Child) -> list[float]:
        """The newest move beside its streams: its score, and what it takes or applies again."""
        first, parent = self.pool.first, child.parent
        taken = [source for source in self.pool.move(child.fresh[-1]).sources if source in parent.used]
        inputs = sum(source < first for source in taken)
        tuples = sum(source >= first and self._of_tuples(source) for source in taken)
        again = _again(child.applied) - _again(parent.applied)
        return [child.own, child.replayed, len(child.fresh) - 1, inputs, len(taken) - inputs, tuples, again,
                len(child.replaced)]  # fmt: skip

    def _of_tuples(self, stream: int) -> bool:
        return isinstance(self._types[self.pool.type_of(stream)].dtype, STuple)

    def _stream(self, stream: int) -> list[float]:
        known = self._of_streams.get(stream)
        if known is None:
            known = self._of_streams[stream] = [
                *self._judged(stream), *self._made(stream), *self.pool.known(stream)
            ]  # fmt: skip
        return known

    def _judged(self, stream: int) -> list[float]:
        """What the score of a settled stream is made of, and in what the reference agrees with it."""
        given, regained, constant, *rest = self.pool.judged(stream)
        return [given, regained, constant, *(self._trust * drop for drop in rest[:5]), *rest[5:]]

    def _made(self, stream: int) -> list[float]:
        """How a stream is made."""
        pool, move = self.pool, self.pool.move(stream)
        ways, fold, sources = move.coercions, move.fold, move.sources
        reduces, scans = (fold is not None and fold.scan == scan for scan in (False, True))
        emits = fold is not None and self._view.emits(next(move.functions()))
        rank, *ranks = (len(self._view.plain_shape(type_)) for type_ in (move.result, *map(pool.type_of, sources)))
        folded = (fold.b - 1, fold.placeholder, len(fold.inner)) if fold else (0, 0, 0)
        return [
            reduces, scans, move.routing is not None, *folded,
            sum(way.cost for way in ways), sum(len(way.repeats) for way in ways), sum(way.reshapes for way in ways),
            sum(way.recuts for way in ways), sum(len(way.ops) for way in ways),
            len(sources), sum(source < pool.first for source in sources), len(sources) - len(set(sources)),
            self._of_tuples(stream), pool.reached[stream] > 0, max(0, rank - max(ranks)), max(0, max(ranks) - rank),
            emits and reduces, emits and scans, len(set(zip(sources, ways, strict=True))) < len(ways),
        ]  # fmt: skip

    def _whole(self, child: Child, length: int, score: float, behind: float, place: int) -> list[float]:
        """What holds of a draft as a whole: its score, what it leaves to be done, and the search."""
        pool, parent = self.pool, child.parent
        streams, newest = (*parent.streams, *child.fresh), child.fresh[-1]
        used = parent.used.union(child.replaced, *(pool.move(stream).sources for stream in child.fresh))
        loose = [stream for stream in streams if stream not in used]
        made = [stream for stream in loose if stream >= pool.first]
        agreed = sum(pool.judged(stream)[-1] for stream in made)
        dims = {dim for stream in made for dim in without_ones(self._types[pool.type_of(stream)].shape)}
        left = child.applied.count(0)
        last = max(number for number, count in enumerate(child.applied) if count)
        reached = reduce(or_, map(pool.reached.__getitem__, streams))
        return [
            score, behind, min(place, _PLACES) / 8, child.outlook, left, left / len(child.applied), length / 4,
            len(made), len(loose) - len(made), reached.bit_count(), agreed, len(made) - agreed, len(dims),
            last + 1 - len(child.applied) + left, newest in loose and pool.reached[newest] > 0,
            len(streams) - pool.first - sum(child.applied), *self._search, *self._loose(made),
        ]  # fmt: skip

    def _loose(self, made: Sequence[int]) -> list[float]:
        """Whether the formulas of the reference are known, and how many loose streams it has."""
        needs = self.pool.needs
        if needs is None:
            return [0.0, 0.0]
        return [1.0, sum(self.pool.known(stream)[0] for stream in made)]


def _counted(amounts: Sequence[float]) -> Vector:
    return np.rint(np.array(amounts, np.float64) * UNIT).astype(np.int64)


def _again(applied: Sequence[int]) -> int:
    """How often functions are applied that were applied before."""
    return sum(max(0, count - 1) for count in applied)
