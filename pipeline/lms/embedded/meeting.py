"""How the sources of a function meet: the coercions that bring them to one shape, and how a function folds them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipeline.lms.embedded.choice import Choice
from pipeline.lms.embedded.layout import ONE
from pipeline.lms.embedded.moves import Draft, Move, Routing
from pipeline.lms.embedded.scoring import Habits
from pipeline.lms.embedded.space import INVENTED, Fold, Join, Space, TypeId
from pipeline.lms.embedded.task_view import Offer, TaskView
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Dim
from step_runtime.base.types import StreamType

# Scores, in the units of the softmax at sharpness 1.
_COST = -0.8
"""For each unit of a plan's cost."""
_SCAN = -0.7
"""Scan against Accum, before anything is known."""
_GONE = 0.6
"""For each dim that Accum folds and the outputs lack; as much against it for one that they have."""
_PLACEHOLDER = -0.8
_DEEPER = -0.8
"""For each dim after the first that is folded at once."""
_REPEATED = -2.0
"""For folding with Accum what was only just repeated."""
_EMITS = 2.0
"""For scanning with a function that emits, and against reducing with it."""
_HABIT = 0.7


class Meeting(NamedTuple):
    """Streams that together serve a need, and how many components of it each serves."""

    sources: tuple[int, ...]
    counts: tuple[int, ...]


def meetings(
    space: Space, streams: Sequence[TypeId], among: Sequence[int], offer: Offer, newest: int
) -> Iterator[Meeting]:
    """Sources for an offer among some streams, the newest one among them, that serve without an invented dim."""
    need = len(offer.need)
    fits = [[(stream, *space.fit(streams[stream], *suffix)) for stream in among] for suffix in offer.suffixes]
    serving = [[(stream, count) for stream, count, far in row if count and far < INVENTED] for row in fits]

    def extend(sources: tuple[int, ...], counts: tuple[int, ...], place: int) -> Iterator[Meeting]:
        for stream, count in serving[place]:
            met = Meeting((*sources, stream), (*counts, count))
            if place + count < need:
                yield from extend(*met, place + count)
            elif newest in met.sources:
                yield met

    return extend((), (), 0)


class Meetings:
    """Turns a function and its sources into a move, for one sample.

    `read` says whether the sample may use what was read of the functions' code.
    """

    def __init__(self, view: TaskView, habits: Habits, choice: Choice, *, read: bool) -> None:
        self._view = view
        self._space: Space = view.space
        self._habits = habits
        self._choice = choice
        self._read = read
        self._fold_scores: dict[tuple[str, Fold], float] = {}

    def apply(self, draft: Draft, offer: Offer, meeting: Meeting, scan: bool | None = None) -> Move | None:
        """A function on its sources; `scan` says how it folds, if that is decided. None where they cannot meet."""
        types = [draft.streams[source] for source in meeting.sources]
        joins = self._space.joins(types, offer.served(meeting.counts), offer.suffixes[0][1])
        if not offer.fn.stateful:
            if not joins:
                return None
            join = self._choice.pick(joins, [_COST * join.cost for join in joins])
            return Move((offer.fn,), meeting.sources, join.plans, self._type(offer.fn, join.shape))
        grown = tuple(self._grown(draft, offer, meeting, joins))
        meetings = [*((join, False) for join in joins), *((join, True) for join in grown)]
        ways = [
            (join, fold, larger)
            for join, larger in meetings
            for fold in self._space.folds(join.shape)
            if scan in (None, fold.scan)
        ]
        if not ways:
            return None
        scores = [self._fold_score(offer.fn, join, fold, grown=larger) for join, fold, larger in ways]
        join, fold, _ = self._choice.pick(ways, scores)
        # The placeholder outside a dim that is folded stays: alone after Accum, outermost after Scan.
        shape = (*join.shape, *(ONE,) * fold.placeholder)[0 if fold.scan else fold.b :]
        return Move((offer.fn,), meeting.sources, join.plans, self._type(offer.fn, shape), fold)

    def route(self, draft: Draft, routing: Routing, meeting: Meeting, branches: tuple[Fn | None, ...]) -> Move | None:
        """A routing on its data's sources and, last, its index; `branches` in the order of the bits."""
        types = [draft.streams[source] for source in meeting.sources]
        joins = [*self._index_joins(self._view.routing_offers[id(routing)], meeting, types)]
        if not joins:
            return None
        join = self._choice.pick(joins, [_COST * join.cost for join in joins])
        return Move(branches, meeting.sources, join.plans, self._type(routing.merge, join.shape), routing=routing)

    def _type(self, fn: Fn, shape: tuple[Dim, ...]) -> TypeId:
        return self._space.intern(StreamType(fn.output, shape))

    def _grown(self, draft: Draft, offer: Offer, meeting: Meeting, joins: Sequence[Join]) -> Iterator[Join]:
        """Joins at the shape of some other stream, larger than need be: a fold may count what was repeated."""
        types = [draft.streams[source] for source in meeting.sources]
        served, number = offer.served(meeting.counts), offer.suffixes[0][1]
        for dims in dict.fromkeys(self._view.plain_shape(type_) for type_ in draft.streams):
            for join in self._space.joins(types, served, number, dims):
                if joins and len(join.shape) > len(joins[0].shape):
                    yield join

    def _index_joins(self, offer: Offer, meeting: Meeting, types: Sequence[TypeId]) -> Iterator[Join]:
        served, number = offer.served(meeting.counts), offer.suffixes[0][1]
        yield from self._space.joins(types, served, number)
        for join in self._space.joins(types[:-1], served[:-1], number):
            # An index may route whole slices: then it has the outer dims only.
            for inner in range(1, len(join.shape)):
                target = self._space.intern(StreamType(served[-1], join.shape[inner:]))
                for plan in self._space.plans(types[-1], target)[:1]:
                    yield Join(join.shape, (*join.plans, plan), join.cost + plan.cost)

    def _fold_score(self, fn: Fn, join: Join, fold: Fold, *, grown: bool) -> float:
        key = (fn.label, fold)
        known = self._fold_scores.get(key)
        if known is None:
            known = self._fold_scores[key] = self._score_fold(fn, fold)
        return known + _COST * join.cost + _REPEATED * (grown and not fold.scan)

    def _score_fold(self, fn: Fn, fold: Fold) -> float:
        kept = self._space.kept_dims
        gone = sum(1 if dim not in kept else -1 for dim in fold.inner)
        score = _DEEPER * (fold.b - 1) + _PLACEHOLDER * fold.placeholder
        if self._read and self._view.emits(fn):
            score += _EMITS if fold.scan else -_EMITS
        score += _SCAN - 0.5 * _GONE * gone if fold.scan else _GONE * gone
        return score + _HABIT * self._habits.fold_bias(fold.scan, fn, fold.inner, self._view.context)
