"""The ends of a beam search: the draft that a state is, its outputs, and how it compares with the reference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pipeline.lms.embedded.draft import Draft
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.strong.dim_guide import DimGuide
from pipeline.lms.embedded.strong.levels import State
from pipeline.lms.embedded.strong.output_binding import OutputBinder
from pipeline.lms.embedded.strong.slicing import trimmed
from pipeline.lms.embedded.strong.stream_pool import StreamPool
from pipeline.lms.embedded.task_view import TaskView
from pipeline.lms.embedded.types.coercions import Coercion

_COMPUTED = 5.0
"""How much more than its place it says that a stream has an output's formulas."""

# Steps, by what they cost in time.
_FINISHED = 300
_PROVED = 400
"""For each move of a draft whose formulas are compared in all worlds."""


class Finishing:
    """Finishes drafts of one beam search."""

    def __init__(
        self, view: TaskView, pool: StreamPool, dims: DimGuide, choice: SeededChoice, steps: StepLimit
    ) -> None:
        self._view = view
        self._pool = pool
        self._dims = dims
        self._choice = choice
        self._steps = steps

    def draft_of(self, state: State, *, partly: bool = False) -> Draft | None:
        """The draft of a state whose streams give the outputs; None if they do not.

        It applies all functions, unless it may do so `partly`.

        Raises:
            StepsExhausted: The sample has used all its steps.
        """
        self._steps.spend(_FINISHED)
        draft, number = self._as_draft(state.streams)
        guide = self._pool.numbered(draft, number)
        own = dict(zip(number.values(), number, strict=True))

        def placed(stream: int, output: int, ending: Coercion) -> float:
            number = self._pool.settle(own[stream])
            return self._dims.reaches(number, ending, output) + _COMPUTED * self._dims.equals(number, ending, output)

        binder = OutputBinder(self._view.table, draft, None, self._choice, guide, placed)
        if not partly and binder.bind():
            end: Draft | None = draft.copy()
        elif binder.bind(leaving=True):
            ends = tuple(zip(draft.results, draft.output_coercions, strict=True))
            end = trimmed(self._view.table, draft, ends, None if partly else set(self._view.fns))
        else:
            return None
        if end is None:
            return None
        end.similarity, end.worth = self._dims.compared(end, guide.similarity(draft)), state.score
        made = len(draft.moves) - len(state.replayed)
        end.repeated = max(0.0, 1.0 - made / max(1, len(end.moves)))
        if end.read:
            self._steps.spend(_PROVED * len(end.moves))
        return end

    def _as_draft(self, streams: Iterable[int]) -> tuple[Draft, dict[int, int]]:
        """The draft of some streams of the pool, and their numbers in it."""
        draft = Draft.start(self._view.table.inputs)
        number = {stream: stream for stream in range(self._pool.first)}
        for stream in sorted(streams)[self._pool.first :]:
            move = self._pool.move(stream)
            draft.add(replace(move, sources=tuple(number[source] for source in move.sources)))
            draft.support.append(0.0)
            number[stream] = len(draft.streams) - 1
        return draft, number
