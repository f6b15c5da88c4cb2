"""The drafts of a beam search by their length, of which the best are continued.

At first only an upper bound of what a draft promises is known: where the elements of its new streams come from can only
lower it, and takes time to compute. So streams are settled from the most promising draft on, until enough are settled.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import NamedTuple, Protocol

from pipeline.lms.embedded.strong.stream_pool import StreamPool

COMPLETE = 20
"""The number of drafts of one length that apply all functions and may be finished."""

CONSIDERED = 1.6
"""How many more drafts are ranked than kept."""

# Scores, in the units of the softmax at sharpness 1.
_REPLAYED_SHARE = 0.3
"""The part of the scores of a repeated section's streams that counts again."""
_REACHED = 1.37
"""For each output that a stream of the draft may be."""


@dataclass(frozen=True)
class State:
    """A draft as a set of streams of the pool: inputs first, then in the order in which they were added."""

    streams: tuple[int, ...]
    used: frozenset[int]
    """The streams that another one is made of."""
    applied: tuple[int, ...]
    """How often each function of the task is applied."""
    score: float
    replayed: frozenset[int] = frozenset()
    """The streams of sections that were repeated as a whole."""
    outlook: float = 0.0
    """What it promises beside its score,"""
    ranked: float = 0.0
    """of which this is what it was ranked by."""

    @property
    def complete(self) -> bool:
        """Whether it applies all functions."""
        return all(self.applied)


class Child(NamedTuple):
    """What a state can become.

    Attributes:
        parent: The state.
        fresh: The streams that it gets.
        applied: How often each function is applied then.
        own: The part of its score that the streams themselves do not have.
        outlook: What is left to be done, as a score.
        replayed: Whether `fresh` is a repeated section.
        replaced: Streams for which some of `fresh` are used, which are the same at a larger shape.
        ranked: What it was ranked by, beside its own promise.
    """

    parent: State
    fresh: tuple[int, ...]
    applied: tuple[int, ...]
    own: float
    outlook: float
    replayed: bool
    replaced: tuple[int, ...] = ()
    ranked: float = 0.0

    def score(self, pool: StreamPool) -> float:
        """The score of the new streams; an upper bound while some are not settled."""
        scores = map(pool.scores.__getitem__, self.fresh)
        return (
            self.own
            + pool.gained(self.parent.streams, self.fresh)
            + (_REPLAYED_SHARE * sum(min(0.0, score) for score in scores) if self.replayed else sum(scores))
        )

    def promise(self, pool: StreamPool) -> float:
        """What the draft promises; an upper bound while some streams are not settled.

        As long as it is not ranked itself, what its parent was ranked by counts.
        """
        reached = reduce(or_, map(pool.reached.__getitem__, (*self.parent.streams, *self.fresh)))
        own = self.parent.score + self.score(pool) + self.outlook + _REACHED * reached.bit_count()
        return own + self.parent.ranked

    def state(self, pool: StreamPool) -> State:
        """The child as a state of its own."""
        parent = self.parent
        used = parent.used.union(self.replaced, *(pool.move(stream).sources for stream in self.fresh))
        replayed = parent.replayed.union(self.fresh) if self.replayed else parent.replayed
        score, promise = parent.score + self.score(pool), self.promise(pool) - parent.ranked + self.ranked
        return State((*parent.streams, *self.fresh), used, self.applied, score, replayed, promise - score, self.ranked)


class Ranking(Protocol):
    """Chooses the best of some drafts of one length, best first by their scores."""

    def best(self, found: Sequence[tuple[float, Child]], length: int, width: int) -> list[Child]:
        """The `width` best ones, best first."""


class Levels:
    """The best drafts of each length, one for each set of streams.

    The length of a draft is the number of its moves, of which a section that is repeated as a whole is one. Drafts that
    apply the same functions are rivals: each counts as many times `rival` as there are better ones.

    Attributes:
        rival: The score of a rival.
    """

    def __init__(self, pool: StreamPool, rival: float, ranking: Ranking | None = None) -> None:
        self._ranking = ranking
        self._pool = pool
        self.rival = rival
        self._levels: defaultdict[int, list[Child]] = defaultdict(list)

    def offer(self, length: int, child: Child) -> None:
        """Adds a draft of this length."""
        self._levels[length].append(child)

    def best(self, length: int, width: int) -> list[Child]:
        """Removes and returns the best drafts of this length, best first, `width` of those that are to grow.

        Drafts that apply all functions follow; they do not compete with the others.

        Raises:
            StepsExhausted: The sample has used all its steps.
        """
        children = self._levels.pop(length, [])
        growing = [child for child in children if not all(child.applied)]
        complete = [child for child in children if all(child.applied)]
        return self._best(growing, length, width) + self._best(complete, length, COMPLETE)

    def _best(self, children: Sequence[Child], length: int, width: int) -> list[Child]:
        pool, most = self._pool, int(width * CONSIDERED) if self._ranking else width
        rivals: dict[tuple[int, ...], int] = {}
        found: list[tuple[float, Child]] = []
        enough: list[float] = []
        seen: set[frozenset[int]] = set()
        for promise, child in pool.best_first(children, lambda child: child.promise(pool), lambda child: child.fresh):
            streams = frozenset((*child.parent.streams, *child.fresh))
            if streams in seen:
                continue
            seen.add(streams)
            if len(enough) == most and enough[0] >= promise:
                break
            better = rivals.get(child.applied, 0)
            rivals[child.applied] = better + 1
            score = promise + self.rival * better
            found.append((score, child))
            heapq.heappush(enough, score)
            if len(enough) > most:
                heapq.heappop(enough)
        found = heapq.nlargest(most, found, key=lambda pair: pair[0])
        return self._ranking.best(found, length, width) if self._ranking else [child for _, child in found]
