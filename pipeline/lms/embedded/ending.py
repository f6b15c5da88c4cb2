"""When a proposal is done: which streams are the outputs."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.lms.embedded.choice import Choice
from pipeline.lms.embedded.layout import Plan
from pipeline.lms.embedded.moves import Draft
from pipeline.lms.embedded.space import Space
from pipeline.lms.embedded.trail import Trail
from step_runtime.primitives import Repeat

_READ = 6.0
"""For a stream that holds what the reference returns."""
_BOUND_TWICE = -4.0
_INPUT = -2.0
_BROADCAST = 0.1
"""How often an output may be a stream that only repeats what was computed."""


class Ending:
    """Binds the outputs of one draft to its streams."""

    def __init__(self, space: Space, draft: Draft, trail: Trail | None, choice: Choice) -> None:
        self._space = space
        self._draft = draft
        self._trail = trail
        self._choice = choice
        self._bound: dict[int, int] = {}

    def bind(self) -> bool:
        """Writes results and endings into the draft; False if an output stays open or a stream is left over."""
        outputs = range(len(self._space.outputs))
        strays = [stream for stream, used in enumerate(self._draft.uses) if not used]
        if len(strays) > len(outputs):
            return False
        for stray in strays:
            if not self._pick([(stray, output) for output in outputs if output not in self._bound]):
                return False
        for output in outputs:
            streams = range(len(self._draft.streams))
            if output not in self._bound and not self._pick([(stream, output) for stream in streams]):
                return False
        endings = tuple(self._plans(self._bound[output], output)[0] for output in outputs)
        broadcast = any(isinstance(op, Repeat) for ending in endings for op in ending.ops)
        if broadcast and not self._choice.happens(_BROADCAST):
            return False
        self._draft.results = tuple(self._bound[output] for output in outputs)
        self._draft.endings = endings
        # Terms know no shapes: what only a broadcast brings to the right one is the less likely reading.
        self._draft.read = not broadcast and all(self._reads(self._bound[output], output) for output in outputs)
        return True

    def _plans(self, stream: int, output: int) -> tuple[Plan, ...]:
        return self._space.plans(self._draft.streams[stream], self._space.outputs[output])

    def _reads(self, stream: int, output: int) -> bool:
        return self._trail is not None and self._trail.reads(stream, output)

    def _pick(self, pairs: Sequence[tuple[int, int]]) -> bool:
        """Binds one of these pairs of stream and output, if one of them can be."""
        fitting = [pair for pair in pairs if self._plans(*pair)]
        if fitting:
            stream, output = self._choice.pick(fitting, [self._score(*pair) for pair in fitting])
            self._bound[output] = stream
        return bool(fitting)

    def _score(self, stream: int, output: int) -> float:
        score = -self._plans(stream, output)[0].cost + _READ * self._reads(stream, output)
        taken = stream in self._bound.values()
        return score + _BOUND_TWICE * taken + _INPUT * (stream < len(self._space.inputs))
