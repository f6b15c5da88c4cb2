"""Which streams of a finished draft are the outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from pipeline.lms.embedded.draft import Draft
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.strong.dependence_guide import DependenceGuide
from pipeline.lms.embedded.strong.reference_guide import ReferenceGuide
from pipeline.lms.embedded.types.coercions import Coercion
from pipeline.lms.embedded.types.type_table import TypeTable
from step_runtime.primitives import Repeat

_READ = 6.0
"""For a stream that holds what the reference returns."""
_MATCHES = 6.0
"""For a stream that depends on the inputs as the output does,"""
_PLACED = 4.0
"""and one whose elements come from where those of the output do."""
_BOUND_TWICE = -4.0
_INPUT = -2.0
_BROADCAST = 0.1
"""How often an output may be a stream that only repeats a computed one."""


Placed: TypeAlias = Callable[[int, int, Coercion], float]
"""Whether the elements of a stream, at the end of a coercion, come from where those of an output do."""


class OutputBinder:
    """Binds the outputs of one draft to its streams; without `placed`, where elements come from is unknown."""

    def __init__(
        self,
        table: TypeTable,
        draft: Draft,
        guide: ReferenceGuide | None,
        choice: SeededChoice,
        dependences: DependenceGuide | None = None,
        placed: Placed | None = None,
    ) -> None:
        self._placed = placed
        self._dependences = dependences
        self._table = table
        self._draft = draft
        self._guide = guide
        self._choice = choice
        self._bound: dict[int, int] = {}

    def bind(self, *, leaving: bool = False) -> bool:
        """Writes results and coercions into the draft; False if an output stays open, or a stream is left over.

        With `leaving`, streams may be left over, but none is repeated.
        """
        self._bound.clear()
        outputs = range(len(self._table.outputs))
        strays = [stream for stream, used in enumerate(self._draft.uses) if not used and not leaving]
        if len(strays) > len(outputs):
            return False
        for stray in strays:
            if not self._pick([(stray, output) for output in outputs if output not in self._bound]):
                return False
        for output in outputs:
            streams = range(len(self._draft.streams))
            if output not in self._bound and not self._pick([(stream, output) for stream in streams]):
                return False
        output_coercions = tuple(self._coercions(self._bound[output], output)[0] for output in outputs)
        broadcast = any(isinstance(op, Repeat) for ending in output_coercions for op in ending.ops)
        if broadcast and (leaving or not self._choice.happens(_BROADCAST)):
            return False
        self._draft.results = tuple(self._bound[output] for output in outputs)
        self._draft.output_coercions = output_coercions
        # Terms have no shapes: a stream that needs a broadcast to the right one is the less likely interpretation.
        self._draft.read = not broadcast and all(self._reads(self._bound[output], output) for output in outputs)
        return True

    def _coercions(self, stream: int, output: int) -> tuple[Coercion, ...]:
        return self._table.coercions(self._draft.streams[stream], self._table.outputs[output])

    def _reads(self, stream: int, output: int) -> bool:
        return self._guide is not None and self._guide.reads(stream, output)

    def _pick(self, pairs: Sequence[tuple[int, int]]) -> bool:
        """Binds one of these pairs of stream and output, if possible."""
        fitting = [pair for pair in pairs if self._coercions(*pair)]
        if fitting:
            stream, output = self._choice.pick(fitting, [self._score(*pair) for pair in fitting])
            self._bound[output] = stream
        return bool(fitting)

    def _score(self, stream: int, output: int) -> float:
        ending = self._coercions(stream, output)[0]
        score = -ending.cost + _READ * self._reads(stream, output)
        if self._placed is not None:
            score += _PLACED * self._placed(stream, output, ending)
        if self._dependences is not None:
            score += _MATCHES * self._dependences.matches(stream, output)
        taken = stream in self._bound.values()
        return score + _BOUND_TWICE * taken + _INPUT * (stream < len(self._table.inputs))
