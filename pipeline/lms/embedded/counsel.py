"""What precedents advise next, while one program grows: for either proposer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pipeline.lms.embedded.choice import Choice
from pipeline.lms.embedded.meeting import Meeting, meetings
from pipeline.lms.embedded.moves import Routing
from pipeline.lms.embedded.outlines import How, Origin
from pipeline.lms.embedded.precedents import Precedents
from pipeline.lms.embedded.space import Space, TypeId
from pipeline.lms.embedded.task_view import Offer
from step_runtime.base.functions import Fn

_KEEN = 5.0
"""How much the better one of several precedents is preferred, and the better one of two orders of branches."""


class Advice(NamedTuple):
    """What could be applied to what, how, and how well precedents support it."""

    offer: Offer
    routing: Routing | None
    meeting: Meeting
    how: How
    support: float

    @property
    def scan(self) -> bool | None:
        """Whether it scans, if it folds."""
        return self.how.startswith("Scan") if self.offer.fn.stateful and self.routing is None else None


class Counsel:
    """Follows one program. What was made already is not advised again.

    `streams` are the types of the program's streams, and grow with it; precedents are looked for among those that
    are inputs or that a function made.
    """

    def __init__(
        self,
        space: Space,
        precedents: Precedents,
        streams: Sequence[TypeId],
        offers: Iterable[tuple[Offer, Routing | None]],
    ) -> None:
        self._space = space
        self._precedents = precedents
        self._streams = streams
        self._offers = [(one, routing) for one, routing in offers if precedents.speak_of(routing or one.fn)]
        self._origins: dict[int, Origin] = {}
        self._heads: list[int] = []
        self._looked_at = 0
        """How many heads were looked at; the others are when advice is asked for."""
        self._made: set[Origin] = set()
        self._applied: set[Fn] = set()
        self._known: list[tuple[Offer, Routing | None, Meeting, tuple[Origin, ...]]] = []
        for stream, origin in enumerate(precedents.inputs):
            self._arrive(stream, origin)

    def applied(self, maker: Fn | Routing, how: How, sources: Sequence[int], result: int) -> float:
        """Takes note that something was applied; how well precedents support it."""
        origins = tuple(self._origins[source] for source in sources)
        fns = (maker.merge, *maker.branches) if isinstance(maker, Routing) else (maker,)
        support = self._precedents.support(maker, origins, again=fns[0] in self._applied).get(how, 0.0)
        self._applied.update(fns)
        self._arrive(result, self._precedents.made(maker, how, origins))
        return support

    def reshaped(self, source: int, result: int) -> None:
        """Takes note of a stream that holds what another one holds."""
        self._origins[result] = self._origins[source]

    def advice(self) -> list[Advice]:
        """What precedents support now."""
        for newest in self._heads[self._looked_at :]:
            self._look_at(newest)
        self._looked_at = len(self._heads)
        return [
            Advice(offer, routing, meeting, how, support)
            for offer, routing, meeting, held in self._known
            for how, support in self._support(offer, routing, held).items()
            if self._precedents.made(routing or offer.fn, how, held) not in self._made
        ]

    def declined(self, advice: Advice) -> None:
        """Takes note of advice that cannot be followed."""
        self._made.add(self._precedents.made(advice.routing or advice.offer.fn, advice.how, self._held(advice.meeting)))

    def support(self, offer: Offer, routing: Routing | None, meeting: Meeting) -> dict[How, float]:
        """How well precedents support applying this to these, by how."""
        return self._support(offer, routing, self._held(meeting))

    def ending(self, stream: int) -> float:
        """How well precedents support that a stream is an output."""
        return self._precedents.ending(self._origins[stream])

    def _support(self, offer: Offer, routing: Routing | None, held: tuple[Origin, ...]) -> dict[How, float]:
        return self._precedents.support(routing or offer.fn, held, again=offer.fn in self._applied)

    def _held(self, meeting: Meeting) -> tuple[Origin, ...]:
        return tuple(self._origins[source] for source in meeting.sources)

    def _arrive(self, stream: int, origin: Origin) -> None:
        self._origins[stream] = origin
        self._heads.append(stream)
        self._made.add(origin)

    def _look_at(self, newest: int) -> None:
        among = self._heads[: self._heads.index(newest) + 1]
        for offer, routing in self._offers:
            for meeting in meetings(self._space, self._streams, among, offer, newest):
                held = self._held(meeting)
                if self._support(offer, routing, held):
                    self._known.append((offer, routing, meeting, held))


def choose_order(
    routing: Routing, precedents: Precedents, choice: Choice, listed: float = 0.0
) -> tuple[Fn | None, ...]:
    """An order of branches, by precedents; `listed` is the score of the order in which functions are listed."""
    ways = routing.orders()
    if not ways:
        return choice.shuffled(routing.passing())
    scores = [_KEEN * precedents.order(routing, way) + listed * (not place) for place, way in enumerate(ways)]
    return choice.pick(ways, scores)
