"""Applies skills as moves, for both proposers.

A skill is applied as a whole, step by step: its functions become functions of the task with the same role, which is
their types without dims and whether they have a state; the streams that it takes become streams that fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from pipeline.lms.embedded.draft import Routing
from pipeline.lms.embedded.operands import Callee, Operands
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.retrieval.applications import Application
from pipeline.lms.embedded.retrieval.fingerprints import Fingerprint, similarity
from pipeline.lms.embedded.retrieval.precedents import Precedents
from pipeline.lms.embedded.retrieval.recommender import Recommendation
from pipeline.lms.embedded.retrieval.skills import Skill
from pipeline.lms.embedded.types.type_table import INVENTED, TypeId
from step_runtime.base.functions import Fn
from step_runtime.base.types import STuple

_STARTED = 0.9
"""How often a skill starts where nothing else is recommended, if the task has a function for each of its roles."""
_ROLE = 0.4
"""The support for a function of the same role that does something else."""
_KEEN = 4.0
"""How strongly like functions, and relevant skills, are preferred."""
_UNUSED = 1.6
"""The score of a stream that is not used yet."""

Given: TypeAlias = tuple[Callee, Routing | None]
Step: TypeAlias = tuple[Application, Given]


class SkillGuide:
    """Applies skills in one program, step by step.

    Args:
        precedents: What solved tasks, and with them skills, teach about the task.
        callees: What the program may apply.
        streams: The types of the program's streams, which grow with it.
        uses: How often each is used, likewise.
        choice: Of the sample.
    """

    def __init__(
        self,
        precedents: Precedents,
        callees: Sequence[Given],
        streams: Sequence[TypeId],
        uses: Sequence[int],
        choice: SeededChoice,
    ) -> None:
        self._skills, self._fingerprints = precedents.skills, precedents.fingerprints
        self._callees, self._streams, self._uses, self._choice = callees, streams, uses, choice
        self._left: list[Step] = []
        self._held: list[int] = []
        """The streams that the skill takes, then those that its applications made."""

    def next(self, applied: set[Fn]) -> Recommendation | None:
        """The next step of the current skill, or the first one of another; it is to be followed by `made` or `drop`."""
        if not self._left and not (self._skills and self._begin(applied)):
            return None
        application, (callee, routing) = self._left[0]
        sources = tuple(self._held[source] for source in application.sources)
        operands = _operands(callee, sources, self._streams)
        if operands is None:
            self.drop()
            return None
        return Recommendation(callee, routing, operands, application.how, 1.0)

    def made(self, stream: int) -> None:
        """Records the result of the step."""
        self._left.pop(0)
        self._held.append(stream)

    def drop(self) -> None:
        """Gives the current skill up."""
        self._left = []

    def _begin(self, applied: set[Fn]) -> bool:
        """Chooses a skill, functions for its own that are not applied yet, and streams; False if there are none."""
        skill, _ = self._choice.pick(self._skills, [_KEEN * relevance for _, relevance in self._skills])
        bound: dict[tuple[Fingerprint, ...], Given] = {}
        support = 0.0
        for application in skill.applications:
            if application.fingerprints in bound:
                continue
            free = [pair for pair in self._callees if pair not in bound.values() and pair[0].fn not in applied]
            ways = [(pair, role) for pair in free if (role := self._role(application, pair))]
            if not ways:
                return False
            pair, role = self._choice.pick(ways, [_KEEN * role for _, role in ways])
            bound[application.fingerprints] = pair
            support += role
        if not self._choice.happens(_STARTED * support / len(bound)):
            return False
        left = [(application, bound[application.fingerprints]) for application in skill.applications]
        held = self._taken(skill, left)
        if held is None:
            return False
        self._left, self._held = left, held
        return True

    def _role(self, application: Application, pair: Given) -> float:
        """The support for something as what a skill applies; 0 for another role."""
        callee, routing = pair
        if (routing is not None) != (application.how == "Route"):
            return 0.0
        one, other = application.fingerprints[0], self._fingerprints[callee.fn.label]
        if (one.stateful, one.inputs, one.output) != (other.stateful, other.inputs, other.output):
            return 0.0
        return _ROLE + (1 - _ROLE) * similarity(one, other)

    def _taken(self, skill: Skill, steps: Sequence[Step]) -> list[int] | None:
        """Streams for those that the skill takes; None if one has none."""
        held: dict[int, int] = {}
        for application, (callee, _) in steps:
            place = 0
            for source in application.sources:
                if source >= skill.takes:
                    output = steps[source - skill.takes][1][0].fn.output
                    place += len(output.components) if isinstance(output, STuple) else 1
                    continue
                if source not in held:
                    stream = self._fitting(callee, place)
                    if stream is None:
                        return None
                    held[source] = stream
                place += max(1, _fit(callee, place, self._streams[held[source]])[0])
        return [held[source] for source in range(skill.takes)] if len(held) == skill.takes else None

    def _fitting(self, callee: Callee, place: int) -> int | None:
        """A stream that serves a callee from a place on, likelier one that is not used yet; None if there is none."""
        fits = [(stream, *_fit(callee, place, type_)) for stream, type_ in enumerate(self._streams)]
        ways = [(stream, distance) for stream, count, distance in fits if count]
        if not ways:
            return None
        return self._choice.pick(ways, [_UNUSED * (not self._uses[stream]) - distance for stream, distance in ways])[0]


def _fit(callee: Callee, place: int, type_: TypeId) -> tuple[int, float]:
    """As `Callee.fit`; dims are not invented."""
    count, distance = callee.fit(type_, place) if place < len(callee.need) else (0, 0.0)
    return (count, distance) if distance < INVENTED else (0, 0.0)


def _operands(callee: Callee, sources: tuple[int, ...], streams: Sequence[TypeId]) -> Operands | None:
    """Streams in order as the operands of a callee; None if they don't serve it."""
    counts, place = [], 0
    for source in sources:
        counts.append(_fit(callee, place, streams[source])[0])
        if not counts[-1]:
            return None
        place += counts[-1]
    return Operands(sources, tuple(counts)) if place == len(callee.need) else None
