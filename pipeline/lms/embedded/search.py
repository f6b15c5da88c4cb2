"""Draws one proposal after the other: function first, then its sources, until every function is used.

A draw that comes to an end has applied every function, and its outputs are all that is left over. A draw that cannot
go on, or has gone on for too long, is a dead end.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.lms.embedded.choice import Choice
from pipeline.lms.embedded.counsel import Counsel, choose_order
from pipeline.lms.embedded.ending import Ending
from pipeline.lms.embedded.meeting import Meeting, Meetings
from pipeline.lms.embedded.moves import Draft, Move, Routing
from pipeline.lms.embedded.outlines import How, how_folded
from pipeline.lms.embedded.precedents import Precedents
from pipeline.lms.embedded.pruning import pruned
from pipeline.lms.embedded.reference import Reading
from pipeline.lms.embedded.scoring import Habits
from pipeline.lms.embedded.servings import Servings
from pipeline.lms.embedded.space import Space
from pipeline.lms.embedded.task_view import Offer, TaskView
from pipeline.lms.embedded.trail import Hint, Trail

# Scores, in the units of the softmax at sharpness 1.
_APPLIED_AGAIN = -2.8
_SUPPORTED = 3.0
"""For a step along the reading that has a precedent which could not be better."""
_KEEN = 5.0
"""How much the better one of several precedents is preferred."""
# Probabilities.
_FOLLOWED = 0.97
"""How often an open step of the reading is taken."""
_DETOURS = 0.4
"""How often what the reference does not compute itself may be a step towards it."""
_UNROUTED = 0.04
"""How often functions that could be routed are applied on their own."""
_GIVES_UP = 0.5
"""How often a draw ends that has used every function and yet has something left over."""

_MOST_USES = 3
_ALONG = 0.5
"""What a step along the reading takes of a draw's moves: such steps come to an end of their own."""


@dataclass(frozen=True)
class Learned:
    """What was read, as it bears on one task."""

    habits: Habits
    precedents: Precedents


def _supported(hint: Hint, counsel: Counsel) -> float:
    """How well precedents support a step along the reading."""
    support = counsel.support(hint.offer, hint.routing, hint.meeting)
    return max((s for how, s in support.items() if hint.scan in (None, how.startswith("Scan"))), default=0.0)


class Search:
    """Proposals for one task, for one sample; with a `reading`, they follow it where they can."""

    def __init__(self, view: TaskView, learned: Learned, choice: Choice, reading: Reading | None = None) -> None:
        self._view = view
        self._space: Space = view.space
        self._choice = choice
        self._reading = reading
        self._precedents = learned.precedents
        self._meetings = Meetings(view, learned.habits, choice, read=reading is not None)

    def draw(self) -> Draft | None:
        """One finished proposal, or None for a dead end."""
        draft = Draft.start(self._space.inputs)
        routings = self._choose_routings()
        offered = self._view.offered(routings)
        offers = [offer for offer, routing in offered if routing is None]
        trail = self._trail(draft, offers, routings)
        servings = Servings(self._view, draft, read=self._reading is not None)
        counsel = Counsel(self._space, self._precedents, draft.streams, offered)
        left = 2.0 * len(self._view.offers) + 3
        while left > 0:
            hints = () if trail is None else trail.hints()
            if self._all_applied(draft):
                lean = trail and pruned(self._space, draft, trail, set(self._view.fns))
                if lean:
                    return lean
                ended = Ending(self._space, draft, trail, self._choice).bind()
                if ended and (draft.read or not hints):
                    return draft
                if not hints and self._choice.happens(_GIVES_UP):
                    return None
            move = self._hinted(draft, trail, counsel)
            left -= _ALONG if move else 1
            move = move or self._advised(draft, counsel)
            move = move or self._next(draft, servings, offers, routings)
            if move is None:
                return None
            draft.add(move)
            draft.support.append(counsel.applied(move.maker, self._how(move), move.sources, len(draft.streams) - 1))
            if trail is not None:
                trail.advance()
        ended = self._all_applied(draft) and Ending(self._space, draft, trail, self._choice).bind()
        return draft if ended else None

    def _trail(self, draft: Draft, offers: Sequence[Offer], routings: Sequence[Routing]) -> Trail | None:
        if self._reading is None:
            return None
        detours = self._choice.happens(_DETOURS)
        return Trail(self._view, self._reading, draft, offers, routings, detours=detours)

    def _how(self, move: Move) -> How:
        if move.fold is None:
            return "Map" if move.routing is None else "Route"
        shape = self._space.types[move.result].shape
        return how_folded(move.fold.scan, shape[move.fold.b :] if move.fold.scan else shape)

    def _choose_routings(self) -> tuple[Routing, ...]:
        if not self._view.routings or self._choice.happens(_UNROUTED):
            return ()
        return (self._choice.any_of(self._view.routings),)

    def _all_applied(self, draft: Draft) -> bool:
        return len({fn for move in draft.moves for fn in move.functions()}) == len(self._view.offers)

    def _hinted(self, draft: Draft, trail: Trail | None, counsel: Counsel) -> Move | None:
        """A step along the reading, if one is open."""
        hints = trail.hints() if trail is not None and self._choice.happens(_FOLLOWED) else ()
        if not hints:
            return None
        applied = {fn for move in draft.moves for fn in move.functions()}
        scores = [
            _APPLIED_AGAIN * (hint.offer.fn in applied) - hint.distance + _SUPPORTED * _supported(hint, counsel)
            for hint in hints
        ]
        hint = self._choice.pick(hints, scores)
        if hint.routing is not None:
            return self._meetings.route(draft, hint.routing, hint.meeting, hint.branches)
        return self._meetings.apply(draft, hint.offer, hint.meeting, hint.scan)

    def _advised(self, draft: Draft, counsel: Counsel) -> Move | None:
        """What a precedent says comes next, as often as it is a good one."""
        advice = counsel.advice()
        if not advice or not self._choice.happens(max(each.support for each in advice)):
            return None
        chosen = self._choice.pick(advice, [_KEEN * math.log(each.support) for each in advice])
        if chosen.routing is not None:
            return self._route(draft, chosen.routing, chosen.meeting)
        return self._meetings.apply(draft, chosen.offer, chosen.meeting, chosen.scan)

    def _route(self, draft: Draft, routing: Routing, meeting: Meeting) -> Move | None:
        order = choose_order(routing, self._precedents, self._choice)
        return self._meetings.route(draft, routing, meeting, order)

    def _next(
        self, draft: Draft, servings: Servings, offers: Sequence[Offer], routings: Sequence[Routing]
    ) -> Move | None:
        """A step that types allow; None where there is none."""
        uses = Counter(fn for move in draft.moves for fn in move.functions())
        left: list[tuple[Offer | Routing, float]] = [
            (offer, _APPLIED_AGAIN * bool(uses[offer.fn]) + servings.readiness(offer))
            for offer in offers
            if uses[offer.fn] < _MOST_USES
        ]
        left += [(routing, 0.0) for routing in routings if not uses[routing.merge]]
        while left:
            chosen = self._choice.pick(left, [score for _, score in left])
            left.remove(chosen)
            move = self._apply(draft, servings, chosen[0])
            if move is not None and move.key not in draft.keys:
                return move
        return None

    def _apply(self, draft: Draft, servings: Servings, item: Offer | Routing) -> Move | None:
        offer = self._view.routing_offers[id(item)] if isinstance(item, Routing) else item
        meeting = servings.choose(offer, self._choice)
        if meeting is None:
            return None
        if isinstance(item, Routing):
            return self._route(draft, item, meeting)
        if len(meeting.sources) > 1 and self._view.projects(offer.fn):
            return None
        return self._meetings.apply(draft, offer, meeting)
