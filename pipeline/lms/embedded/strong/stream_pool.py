"""The streams that the drafts of one beam search share: each application of a function to streams exists once."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.lms.embedded.dependence.dependences import Dependences
from pipeline.lms.embedded.draft import Draft, Move
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.strong.dependence_guide import DependenceGuide
from pipeline.lms.embedded.types.type_table import TypeId, TypeTable
from step_runtime.base.shapes import Dim

# Scores, in the units of the softmax at sharpness 1.
_MISFIT = -5.0
"""For a stream that depends on the inputs in another way than the reference, where its operands do not,"""
_REGAINED = -1.2
"""and for repeating along a dim that was folded before."""


class StreamPool:
    """Numbers streams as they are made: inputs first.

    Attributes:
        guide: The dependences of all streams.
        first: The number of inputs.
        scores: How plausible the move is that makes each stream, given its operands.
    """

    def __init__(self, table: TypeTable, dependences: Dependences, steps: StepLimit, trust: float) -> None:
        self._table = table
        self.draft = Draft.start(table.inputs)
        self.guide = DependenceGuide(dependences, self.draft, steps)
        self.first = len(table.inputs)
        self.scores = [0.0] * self.first
        self._fits = [1.0] * self.first
        self._folded: list[frozenset[Dim]] = [frozenset()] * self.first
        """The dims that were folded on the way to each stream."""
        self._trust = trust
        self._known: dict[tuple[object, ...], int] = {}

    def add(self, move: Move, score: float) -> int:
        """The stream that a move makes, whose own score, by types, is given."""
        key = (move.key, move.coercions)
        known = self._known.get(key)
        if known is None:
            self.draft.add(move)
            self.guide.advance()
            known = self._known[key] = len(self.draft.streams) - 1
            self._record(move, known, score)
        return known

    def _record(self, move: Move, stream: int, score: float) -> None:
        fit = self.guide.fit_of(stream)
        before = min(self._fits[source] for source in move.sources)
        folded = [self._folded[source] for source in move.sources]
        regained = sum(
            dim in gone for gone, coercion in zip(folded, move.coercions, strict=True) for dim in coercion.repeats
        )
        own = move.fold.inner if move.fold is not None and not move.fold.scan else ()
        self._fits.append(min(fit, before))
        self._folded.append(frozenset().union(*folded, own))
        self.scores.append(score + _MISFIT * self._trust * max(0.0, before - fit) + _REGAINED * regained)

    def move(self, stream: int) -> Move:
        """The move that made a stream."""
        return self.draft.moves[stream - self.first]

    def type_of(self, stream: int) -> TypeId:
        """A stream's type."""
        return self.draft.streams[stream]

    def numbered(self, draft: Draft, number: Mapping[int, int]) -> DependenceGuide:
        """The dependences of a draft whose streams are some of these, by their numbers here and there."""
        return self.guide.following(draft, [own for own, _ in sorted(number.items(), key=lambda pair: pair[1])])
