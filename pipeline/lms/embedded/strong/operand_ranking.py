"""Which streams of a growing draft can be the operands of a function, and how well they fit."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import NamedTuple

from pipeline.lms.embedded.draft import Draft
from pipeline.lms.embedded.operands import Callee, Operands
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.strong.dependence_guide import DependenceGuide
from pipeline.lms.embedded.task_view import TaskView

# Scores, in the units of the softmax at sharpness 1.
_TAKEN_ALREADY = -1.6
"""For a stream that another function already takes."""
_TAKEN_TUPLE = -3.0
"""For a stream of tuples that another function already takes."""
_NEWEST = 0.3
_UNSERVED = -9.0
_MISFIT = -6.0
"""For a stream that would get to the result in a way in which the reference has none of its inputs."""

_BEAM = 5
"""The number of partial choices of operands that are kept,"""
_EXTENDED = 6
"""and of streams with which each is extended."""
_UNFIT = -2.0
"""With a lower score, a stream is not meant to be an operand."""
_TORN = -6.0
"""For a torn stream,"""
_TORN_LATER = -1.0
"""and where all tuples of that kind are already taken."""
_RANK = itemgetter(0)


class OperandScores(NamedTuple):
    """What each property of an operand counts.

    Attributes:
        taken_twice: A stream that this function already takes.
        crossed: The same where the reference brings elements of one value together.
        wide: Each further component that one stream serves.
        other_role: An input to which the reference does nothing that this function does.
        dismantled: The elements of a Buffer that a function of the task takes as it is.
        diverted: Equal components that another function takes as all that it takes.
    """

    taken_twice: float = -4.0
    crossed: float = -1.0
    wide: float = 1.0
    other_role: float = -1.5
    dismantled: float = -3.0
    diverted: float = -1.5


class OperandCandidate(NamedTuple):
    """A stream that serves the next components of a need: their number, its distance, and its score without that.

    It is `torn` if a function of the task gives this and the next components together.
    """

    stream: int
    serves: int
    distance: float
    score: float
    torn: bool


class OperandRanking:
    """Follows one draft, whose streams only grow in number; `read` says whether the reference may be used.

    With `dependences`, streams whose dependences fit the reference are preferred.
    """

    def __init__(
        self,
        view: TaskView,
        draft: Draft,
        *,
        read: bool,
        dependences: DependenceGuide | None = None,
        scores: OperandScores = OperandScores(),  # noqa: B008
    ) -> None:
        self._scores = scores
        self._dependences = dependences
        self._view = view
        self._draft = draft
        self._read = read
        self.twice = scores.crossed if read and view.crosses else scores.taken_twice
        self._known: dict[tuple[Callee, int], tuple[list[OperandCandidate], int]] = {}

    def readiness(self, callee: Callee) -> float:
        """How well the existing streams serve a callee, each component on its own."""
        total, place = 0.0, 0
        while place < len(callee.need):
            found = self._at(callee, place)
            tear = self._tear(found)
            ways = [(self._score(each, tear) - 0.5 * each.distance, each.serves) for each in found]
            best, step = max([*ways, (_UNSERVED, 1)])
            total, place = total + best, place + step
        return total

    def choose(self, callee: Callee, choice: SeededChoice) -> tuple[Operands, float] | None:
        """Streams that serve a callee's components, first component first, with their score; None without any."""
        operands, place, total = Operands((), ()), 0, 0.0
        while place < len(callee.need):
            found = self._at(callee, place)
            if not found:
                return None
            newest = len(self._draft.streams) - 1
            tear = self._tear(found)
            scores = [
                self._score(each, tear)
                + self.twice * (each.stream in operands.sources)
                + _NEWEST * (each.stream == newest)
                - each.distance
                for each in found
            ]
            chosen = choice.pick(found, scores)
            total += chosen.score - self._scores.wide * (chosen.serves - 1) - chosen.distance
            total += self.twice * (chosen.stream in operands.sources)
            total += _TAKEN_TUPLE * (chosen.serves > 1 and bool(self._draft.uses[chosen.stream]))
            operands = Operands((*operands.sources, chosen.stream), (*operands.counts, chosen.serves))
            place += chosen.serves
        return operands, total

    def best(self, callee: Callee, dependences: DependenceGuide) -> list[tuple[Operands, float]]:
        """Some of the best streams that together serve a callee's components, each with its score.

        A beam search, component by component: what the first streams give together must fit the reference.
        """
        beam = [(0.0, 0.0, Operands((), ()), 0)]
        places: dict[int, list[tuple[float, float, OperandCandidate]]] = {}
        while any(place < len(callee.need) for *_, place in beam):
            longer = []
            for step in beam:
                place = step[3]
                if place == len(callee.need):
                    longer.append(step)
                    continue
                if place not in places:
                    places[place] = self._scored(callee, place)
                longer += self._longer(callee, step, places[place], dependences)
            beam = sorted(longer, key=_RANK, reverse=True)[:_BEAM]
            if not beam:
                return []
        return [(operands, score) for _, score, operands, _ in beam]

    def _scored(self, callee: Callee, place: int) -> list[tuple[float, float, OperandCandidate]]:
        """The streams that serve a place, with their scores, and the scores for being taken already."""
        found = self._at(callee, place)
        tear = self._tear(found)
        return [
            (
                self._score(each, tear) - self._scores.wide * (each.serves - 1) - each.distance,
                _TAKEN_TUPLE * (each.serves > 1 and bool(self._draft.uses[each.stream])),
                each,
            )
            for each in found
        ]

    def _longer(
        self,
        callee: Callee,
        step: tuple[float, float, Operands, int],
        scored: Sequence[tuple[float, float, OperandCandidate]],
        dependences: DependenceGuide,
    ) -> list[tuple[float, float, Operands, int]]:
        """A state of the beam, with its rank, its score, its operands and its place, each time one stream longer."""
        _, score, (sources, counts), place = step
        found = [(score + (own + self.twice * (each.stream in sources) + taken), each) for own, taken, each in scored]
        longer = []
        for total, each in sorted(found, key=_RANK, reverse=True)[:_EXTENDED]:
            met = Operands((*sources, each.stream), (*counts, each.serves))
            misfit = _MISFIT * (1 - dependences.partial_fit(callee, met)) if sources else 0.0
            longer.append((total + misfit, total, met, place + each.serves))
        return longer

    def takes(self, callee: Callee, stream: int) -> bool:
        """Whether a stream can be an operand of a callee, by types and by dependences."""
        return any(
            each.stream == stream and each.score + _TORN * each.torn > _UNFIT
            for place in range(len(callee.need))
            for each in self._at(callee, place)
        )

    def _score(self, serving: OperandCandidate, tear: float) -> float:
        return serving.score + _TAKEN_ALREADY * bool(self._draft.uses[serving.stream]) + tear * serving.torn

    def _tear(self, found: Sequence[OperandCandidate]) -> float:
        """The score for a torn stream among these."""
        tuples = [each.stream for each in found if each.serves > 1]
        return _TORN_LATER if tuples and all(self._draft.uses[stream] for stream in tuples) else _TORN

    def _at(self, callee: Callee, place: int) -> list[OperandCandidate]:
        """The streams that serve a callee's components from a place on."""
        streams = self._draft.streams
        found, looked_at = self._known.get((callee, place), ([], 0))
        if looked_at < len(streams):
            for stream in range(looked_at, len(streams)):
                each = self.candidate(callee, place, stream)
                if each is not None:
                    found.append(each)
            self._known[callee, place] = found, len(streams)
        return found

    def candidate(self, callee: Callee, place: int, stream: int) -> OperandCandidate | None:
        """A stream as the operand of a callee from a place on; None if its type does not serve."""
        type_ = self._draft.streams[stream]
        count, distance = callee.fit(type_, place)
        if not count:
            return None
        other = self._read and not self._view.agrees(callee.fn, place, stream)
        score = self._scores.wide * (count - 1) + self._scores.other_role * other
        score += self._scores.dismantled * self._view.dismantles(callee, place, type_)
        score += self._scores.diverted * (count > 1 and self._view.diverts(callee, type_))
        if self._dependences is not None:
            score += _MISFIT * (1 - self._dependences.place_fit(callee, place, stream))
        return OperandCandidate(stream, count, distance, score, count == 1 and self._view.tupled(callee)[place])
