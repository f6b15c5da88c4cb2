"""Which streams of a growing draft can be the operands of a function, and how well they fit."""

from __future__ import annotations

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
_TAKEN_TWICE = -4.0
"""For a stream that this function already takes."""
_NEWEST = 0.3
_WIDE = 1.0
"""For each further component that one stream serves."""
_OTHER_ROLE = -1.5
"""For an input to which the reference does nothing that this function does."""
_UNSERVED = -9.0
_MISFIT = -6.0
"""For a stream that would get to the result in a way in which the reference has none of its inputs."""


_UNFIT = -2.0
"""With a lower score, a stream is not meant to be an operand."""
_TORN = -6.0
"""For a stream of its own where a function of the task gives this and the next components together."""


class OperandCandidate(NamedTuple):
    """A stream that serves the next components of a need: their number, its distance, and its score without that."""

    stream: int
    serves: int
    distance: float
    score: float


class OperandRanking:
    """Follows one draft, whose streams only grow in number; `read` says whether the reference may be used.

    With `dependences`, streams whose dependences fit the reference are preferred.
    """

    def __init__(self, view: TaskView, draft: Draft, *, read: bool, dependences: DependenceGuide | None = None) -> None:
        self._dependences = dependences
        self._view = view
        self._draft = draft
        self._read = read
        self._known: dict[tuple[Callee, int], tuple[list[OperandCandidate], int]] = {}

    def readiness(self, callee: Callee) -> float:
        """How well the existing streams serve a callee, each component on its own."""
        total, place = 0.0, 0
        while place < len(callee.need):
            ways = [(self._score(each) - 0.5 * each.distance, each.serves) for each in self._at(callee, place)]
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
            scores = [
                self._score(each)
                + _TAKEN_TWICE * (each.stream in operands.sources)
                + _NEWEST * (each.stream == newest)
                - each.distance
                for each in found
            ]
            chosen = choice.pick(found, scores)
            total += chosen.score - _WIDE * (chosen.serves - 1) - chosen.distance
            total += _TAKEN_TWICE * (chosen.stream in operands.sources)
            total += _TAKEN_TUPLE * (chosen.serves > 1 and bool(self._draft.uses[chosen.stream]))
            operands = Operands((*operands.sources, chosen.stream), (*operands.counts, chosen.serves))
            place += chosen.serves
        return operands, total

    def takes(self, callee: Callee, stream: int) -> bool:
        """Whether a stream can be an operand of a callee, by types and by dependences."""
        return any(
            each.stream == stream and each.score > _UNFIT
            for place in range(len(callee.need))
            for each in self._at(callee, place)
        )

    def _score(self, serving: OperandCandidate) -> float:
        return serving.score + _TAKEN_ALREADY * bool(self._draft.uses[serving.stream])

    def _at(self, callee: Callee, place: int) -> list[OperandCandidate]:
        """The streams that serve a callee's components from a place on."""
        streams = self._draft.streams
        found, looked_at = self._known.get((callee, place), ([], 0))
        if looked_at < len(streams):
            for stream in range(looked_at, len(streams)):
                count, distance = callee.fit(streams[stream], place)
                if count:
                    other = self._read and not self._view.agrees(callee.fn, place, stream)
                    score = _WIDE * (count - 1) + _OTHER_ROLE * other
                    score += _TORN * (count == 1 and self._view.tupled(callee)[place])
                    if self._dependences is not None:
                        score += _MISFIT * (1 - self._dependences.place_fit(callee, place, stream))
                    found.append(OperandCandidate(stream, count, distance, score))
            self._known[callee, place] = found, len(streams)
        return found
