"""The streams that the drafts of one beam search share: each application of a function to streams exists once."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.lms.embedded.dependence.dependences import Dependences
from pipeline.lms.embedded.draft import Draft, Move
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.strong.dependence_guide import DependenceGuide
from pipeline.lms.embedded.strong.dim_guide import DimGuide
from pipeline.lms.embedded.strong.variation import Dims, after, all_dims
from pipeline.lms.embedded.types.type_table import TypeId, TypeTable
from step_runtime.base.shapes import Dim

# Scores, in the units of the softmax at sharpness 1.
_MISFIT = -3.25
"""For a stream that depends on the inputs in another way than the reference, where its operands do not,"""
_MISPLACED = -14.0
"""for a stream whose elements get more from the inputs than any element of an output, where its operands' do not,"""
_SAME = 0.999
_REGAINED = -0.48
"""for repeating along a dim that was folded before,"""
_CONSTANT = -1.18
"""and for folding over a dim along which nothing varies."""


class StreamPool:
    """Numbers streams as they are made: inputs first.

    Attributes:
        guide: The dependences of all streams.
        first: The number of inputs.
        scores: How plausible the move is that makes each stream, given its operands.
    """

    def __init__(
        self, table: TypeTable, dependences: Dependences, dims: DimGuide, steps: StepLimit, trust: float
    ) -> None:
        self._table = table
        self.draft = Draft.start(table.inputs)
        self.guide = DependenceGuide(dependences, self.draft, steps)
        self.first = len(table.inputs)
        self.scores = [0.0] * self.first
        self._fits = [1.0] * self.first
        self._dims = dims
        self._numbers = list(dims.inputs)
        """Where the elements of each stream come from,"""
        self._places = [1.0] * self.first
        """and how that fits the reference."""
        self._folded: list[frozenset[Dim]] = [frozenset()] * self.first
        """The dims that were folded on the way to each stream."""
        self.reached = [0] * self.first
        """The outputs that each stream may be, as bits."""
        self._varying: list[Dims] = [all_dims(table, type_) for type_ in table.inputs]
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
        varying, constant = after(self._table, move, [self._varying[source] for source in move.sources])
        self._varying.append(varying)
        self._fits.append(min(fit, before))
        number = self._dims.moved(move, [self._numbers[source] for source in move.sources])
        place = self._dims.fit(number, self._table.types[move.result])
        place_before = min(self._places[source] for source in move.sources)
        self._numbers.append(number)
        self._places.append(min(place, place_before))
        self.reached.append(self._outputs(stream, number, move.result))
        self._folded.append(frozenset().union(*folded, own))
        score += _CONSTANT * constant
        score += _MISPLACED * self._trust * max(0.0, place_before - place)
        self.scores.append(score + _MISFIT * self._trust * max(0.0, before - fit) + _REGAINED * regained)

    def _outputs(self, stream: int, number: int, type_: TypeId) -> int:
        """The outputs that a stream is, by its type, by where its elements come from and by its dependences."""
        found = 0
        for output, wanted in enumerate(self._table.outputs):
            ways = self._table.coercions(type_, wanted)
            if ways and not ways[0].repeats and self._dims.reaches(number, ways[0], output):
                found |= (self.guide.matches(stream, output) > _SAME) << output
        return found

    def move(self, stream: int) -> Move:
        """The move that made a stream."""
        return self.draft.moves[stream - self.first]

    def type_of(self, stream: int) -> TypeId:
        """A stream's type."""
        return self.draft.streams[stream]

    def numbered(self, draft: Draft, number: Mapping[int, int]) -> DependenceGuide:
        """The dependences of a draft whose streams are some of these, by their numbers here and there."""
        return self.guide.following(draft, [own for own, _ in sorted(number.items(), key=lambda pair: pair[1])])
