"""How the small proposer gets to where it wants to be: paths are thought out first, and walked if they lead there."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pipeline.lms.embedded.choice import Choice
from pipeline.lms.embedded.counsel import Advice
from pipeline.lms.embedded.ngrams import Grams, History, Taken
from pipeline.lms.embedded.outlines import How, how_applied
from pipeline.lms.embedded.space import TypeId
from pipeline.lms.embedded.steps import Aim, Step, Steps

_LONGEST = 10
_THERE = 2.5
"""For the function itself against one more structural primitive."""


class Paths:
    """Finds paths for one sample, each step weighted by what was read."""

    def __init__(self, steps: Steps, grams: Grams, choice: Choice) -> None:
        self._steps = steps
        self._grams = grams
        self._choice = choice

    def application(
        self, advice: Advice, all_streams: Sequence[TypeId], all_histories: Sequence[History]
    ) -> list[Step] | None:
        """Structural primitives, then the function as advised; None if they do not lead there.

        Results of the path are numbered on from the streams there are.
        """
        streams, histories = list(all_streams), list(all_histories)
        aim = Aim(advice.offer, advice.routing, *advice.meeting)
        seen = {source: {streams[source]} for source in aim.sources}
        path: list[Step] = []
        while len(path) < _LONGEST:
            steps = [
                step
                for step in self._steps.towards(aim, streams)
                if (self.how(step, streams) == advice.how if step.fns else step.result not in seen[step.sources[0]])
            ]
            if not steps:
                return None
            taken = [Taken(step.kind, tuple(histories[source] for source in step.sources)) for step in steps]
            likely = [math.log(self._grams.weight(one)) for one in taken]
            scores = [score + _THERE * bool(step.fns) for score, step in zip(likely, steps, strict=True)]
            place = self._choice.pick(range(len(steps)), scores)
            path.append(steps[place])
            if path[-1].fns:
                return path
            source, made = path[-1].sources[0], path[-1].result
            seen[len(streams)] = {*seen[source], made}
            aim = aim.moved(source, len(streams))
            streams.append(made)
            histories.append(taken[place].result)
        return None

    def output(self, stream: int, streams: Sequence[TypeId]) -> list[Step] | None:
        """The structural primitives that make a stream an output; none if it is one; None if they cannot."""
        type_, number = streams[stream], stream
        path: list[Step] = []
        while type_ not in self._steps.space.outputs:
            steps = list(self._steps.towards_outputs(number, type_))
            if not steps or len(path) == _LONGEST:
                return None
            path.append(self._choice.any_of(steps))
            type_, number = path[-1].result, len(streams) + len(path) - 1
        return path

    def how(self, step: Step, streams: Sequence[TypeId]) -> How:
        """How a step applies its function."""
        return how_applied(step.op, self._steps.space.types[streams[step.sources[0]]].shape)
