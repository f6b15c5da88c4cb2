"""A draft's progress along the reading: the terms its streams hold, and the steps that are open from there."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipeline.lms.embedded.meeting import Meeting, meetings
from pipeline.lms.embedded.moves import Draft, Routing
from pipeline.lms.embedded.reference import Reading, Terms
from pipeline.lms.embedded.task_view import Offer, TaskView
from step_runtime.base.functions import Fn
from step_runtime.base.types import DType


class Hint(NamedTuple):
    """A step that leads to something the reference computes."""

    offer: Offer
    meeting: Meeting
    scan: bool | None
    routing: Routing | None
    branches: tuple[Fn | None, ...]
    terms: Terms
    distance: float
    """How far the sources are from what they serve."""
    detour: bool = False
    """Whether the reference itself does not compute it on its way, as far as can be read."""


class Trail:
    """Follows one draft. `hints` are open steps; a step whose result is there already is not offered again."""

    def __init__(
        self,
        view: TaskView,
        reading: Reading,
        draft: Draft,
        offers: Sequence[Offer],
        routings: Sequence[Routing],
        *,
        detours: bool = False,
    ) -> None:
        self._view = view
        self._reading = reading
        self._draft = draft
        self._offers = offers
        self._routings = routings
        self._detours = detours
        self._terms: list[Terms] = []
        self._known: list[int] = []
        self._made: set[tuple[Terms, DType]] = set()
        self._open: list[Hint] = []
        for stream, terms in enumerate(reading.inputs):
            self._arrive(stream, terms)

    def advance(self) -> None:
        """Takes note of the draft's last move."""
        move = self._draft.moves[-1]
        arguments = tuple(itertools.chain.from_iterable(self._terms[source] for source in move.sources))
        if move.routing is not None:
            terms = self._reading.routed(move.routing, move.fns, arguments[:-1], arguments[-1])
        else:
            how = "Map" if move.fold is None else "Scan" if move.fold.scan else "Accum"
            terms = self._reading.value(next(move.functions()), arguments, how)
        self._arrive(len(self._draft.streams) - 1, terms)

    def hints(self) -> list[Hint]:
        """The steps that are open now: detours only of functions that were not used, where nothing else is left."""
        self._open = [hint for hint in self._open if self._new(hint)]
        direct = [hint for hint in self._open if not hint.detour]
        if direct:
            return direct
        used = {fn for move in self._draft.moves for fn in move.functions()}
        return [hint for hint in self._open if hint.offer.fn not in used]

    def reads(self, stream: int, output: int) -> bool:
        """Whether a stream holds what an output shall hold."""
        return self._terms[stream] == self._reading.outputs[output]

    def _new(self, hint: Hint) -> bool:
        output = hint.routing.merge.output if hint.routing else hint.offer.fn.output
        return (hint.terms, output) not in self._made

    def _arrive(self, stream: int, terms: Terms) -> None:
        self._terms.append(terms)
        if not (self._reading.wanted(terms) or self._useful(terms)):
            return
        self._known.append(stream)
        self._made.add((terms, self._view.space.types[self._draft.streams[stream]].dtype))
        for offer in self._offers:
            for meeting in self._meetings(offer, stream):
                self._open += self._steps(offer, meeting)
        for routing in self._routings:
            offer = self._view.routing_offers[id(routing)]
            for meeting in self._meetings(offer, stream):
                self._open += self._routes(offer, routing, meeting)

    def _useful(self, terms: Terms) -> bool:
        return self._detours and self._reading.useful(terms)

    def _distance(self, offer: Offer, meeting: Meeting) -> float:
        """How far the sources are from what they are to serve."""
        places = itertools.accumulate(meeting.counts[:-1], initial=0)
        fits = (
            self._view.space.fit(self._draft.streams[source], *offer.suffixes[place])
            for source, place in zip(meeting.sources, places, strict=True)
        )
        return sum(distance for _, distance in fits)

    def _meetings(self, offer: Offer, newest: int) -> Iterator[Meeting]:
        """Sources for an offer among the streams on the trail, the newest one among them.

        Terms know no shapes, so that much seems to fit: a stream must serve without a dim that nothing told of.
        """
        return meetings(self._view.space, self._draft.streams, self._known, offer, newest)

    def _steps(self, offer: Offer, meeting: Meeting) -> Iterator[Hint]:
        arguments = self._held(meeting)
        for scan in (False, True) if offer.fn.stateful else (None,):
            how = "Map" if scan is None else "Scan" if scan else "Accum"
            terms = self._reading.value(offer.fn, arguments, how)
            only_picked = len(arguments) > 1 and all(term in arguments for term in terms)
            if only_picked:
                continue
            wanted = self._reading.wanted(terms)
            if wanted or self._useful(terms):
                yield Hint(offer, meeting, scan, None, (), terms, self._distance(offer, meeting), not wanted)

    def _routes(self, offer: Offer, routing: Routing, meeting: Meeting) -> Iterator[Hint]:
        *data, index = self._held(meeting)
        for order in routing.orders():
            terms = self._reading.routed(routing, order, tuple(data), index)
            if self._reading.wanted(terms):
                yield Hint(offer, meeting, None, routing, order, terms, self._distance(offer, meeting))

    def _held(self, meeting: Meeting) -> Terms:
        """The terms of the components that the sources give together."""
        return tuple(itertools.chain.from_iterable(self._terms[source] for source in meeting.sources))
