"""Recommendations from precedents while one program grows; for both proposers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pipeline.lms.embedded.draft import Routing
from pipeline.lms.embedded.operands import Callee, Operands, find_operands
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.retrieval.applications import How, Provenance
from pipeline.lms.embedded.retrieval.precedents import Precedents
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.types.type_table import TypeId
from step_runtime.base.functions import Fn

_EXPECTED = 0.7
"""How often many branches are in the expected order."""
_KEEN = 5.0
"""How much the better one of several precedents is preferred, and the better one of two orders of branches."""


class Recommendation(NamedTuple):
    """A possible application, how it is applied, and how well precedents support it."""

    callee: Callee
    routing: Routing | None
    operands: Operands
    how: How
    support: float

    @property
    def scan(self) -> bool | None:
        """Whether it scans, if it folds."""
        return self.how.startswith("Scan") if self.callee.fn.stateful and self.routing is None else None


class Recommender:
    """Follows one program. What is already made is not recommended again.

    `streams` are the types of the program's streams, and grow with it; precedents are sought for those that
    are inputs or made by a function.
    """

    def __init__(
        self,
        precedents: Precedents,
        streams: Sequence[TypeId],
        callees: Iterable[tuple[Callee, Routing | None]],
        steps: StepLimit,
    ) -> None:
        self._steps = steps
        self._precedents = precedents
        self._streams = streams
        self._callees = [(one, routing) for one, routing in callees if precedents.cover(routing or one.fn)]
        self._provenances: dict[int, Provenance] = {}
        self._heads: list[int] = []
        self._examined = 0
        """The number of heads examined so far; the others are examined when recommendations are requested."""
        self._made: set[Provenance] = set()
        self._applied: set[Fn] = set()
        self._known: list[tuple[Callee, Routing | None, Operands, tuple[Provenance, ...]]] = []
        for stream, provenance in enumerate(precedents.inputs):
            self._arrive(stream, provenance)

    def applied(self, maker: Fn | Routing, how: How, sources: Sequence[int], result: int) -> float:
        """Records an application; returns how well precedents support it."""
        provenances = tuple(self._provenances[source] for source in sources)
        fns = (maker.merge, *maker.branches) if isinstance(maker, Routing) else (maker,)
        support = self._precedents.support(maker, provenances, again=fns[0] in self._applied).get(how, 0.0)
        self._applied.update(fns)
        self._arrive(result, self._precedents.made(maker, how, provenances))
        return support

    def reshaped(self, source: int, result: int) -> None:
        """Records a stream with the same content as another one."""
        self._provenances[result] = self._provenances[source]

    def recommendations(self) -> list[Recommendation]:
        """The applications that precedents support now."""
        for newest in self._heads[self._examined :]:
            self._look_at(newest)
        self._examined = len(self._heads)
        return [
            Recommendation(callee, routing, operands, how, support)
            for callee, routing, operands, held in self._known
            for how, support in self._support(callee, routing, held).items()
            if self._precedents.made(routing or callee.fn, how, held) not in self._made
        ]

    def rejected(self, recommendations: Recommendation) -> None:
        """Records recommendations that cannot be followed."""
        self._made.add(
            self._precedents.made(
                recommendations.routing or recommendations.callee.fn,
                recommendations.how,
                self._held(recommendations.operands),
            )
        )

    def support(self, callee: Callee, routing: Routing | None, operands: Operands) -> dict[How, float]:
        """How well precedents support applying this to these streams, by how it is applied."""
        return self._support(callee, routing, self._held(operands))

    def ending(self, stream: int) -> float:
        """How well precedents support that a stream is an output."""
        return self._precedents.ending(self._provenances[stream])

    def _support(self, callee: Callee, routing: Routing | None, held: tuple[Provenance, ...]) -> dict[How, float]:
        return self._precedents.support(routing or callee.fn, held, again=callee.fn in self._applied)

    def _held(self, operands: Operands) -> tuple[Provenance, ...]:
        return tuple(self._provenances[source] for source in operands.sources)

    def _arrive(self, stream: int, provenance: Provenance) -> None:
        self._provenances[stream] = provenance
        self._heads.append(stream)
        self._made.add(provenance)

    def _look_at(self, newest: int) -> None:
        among = self._heads[: self._heads.index(newest) + 1]
        for callee, routing in self._callees:
            for operands in find_operands(self._streams, among, callee, newest, self._steps):
                held = self._held(operands)
                if self._support(callee, routing, held):
                    self._known.append((callee, routing, operands, held))


def choose_order(
    routing: Routing,
    precedents: Precedents,
    choice: SeededChoice,
    listed: float = 0.0,
    expected: tuple[Fn | None, ...] | None = None,
) -> tuple[Fn | None, ...]:
    """An order of branches, by precedents; `listed` is the score of the `expected` order, by default the listed one."""
    ways = routing.orders()
    if not ways:
        likely = expected is not None and choice.happens(_EXPECTED)
        return expected if likely and expected is not None else choice.shuffled(routing.passing())
    expected = expected or ways[0]
    scores = [_KEEN * precedents.order(routing, way) + listed * (way == expected) for way in ways]
    return choice.pick(ways, scores)
