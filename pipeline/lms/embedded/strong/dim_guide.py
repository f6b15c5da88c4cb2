"""Where the streams of a draft get their elements from, compared with the reference."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pipeline.lms.embedded.draft import Draft, Move
from pipeline.lms.embedded.formulas.needs import Needs
from pipeline.lms.embedded.formulas.residues import ORDERED, SIGNED
from pipeline.lms.embedded.influence.streams import UNREAD, Streams
from pipeline.lms.embedded.influence.task_influence import TaskInfluence
from pipeline.lms.embedded.lowering import route, zipped
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.types.coercions import Coercion
from step_runtime.base.errors import RuleError
from step_runtime.base.types import StreamType
from step_runtime.primitives import Accum, Map, Primitive, Promote, Scan

_ELSEWHERE = 0.5
"""The part of a similarity that is lost where no element comes from where it does in the reference."""
_ALIGNED = 0.15
"""The part of a fit that elements at the same positions make up: a function may move elements to others."""
_FOLLOWED = 27
"""Steps that following a function counts for, once more for each set of constants,"""
_READING = 350
"""those for reading it, which is done once for each set,"""
_MOVED = 130
"""those for the rest of a move,"""
_ROUTED = 300
"""for each branch of a routing,"""
_RESHAPED = 16
"""for each primitive that brings its operands to one shape,"""
_ELEMENTS = 9
"""and the number of elements of its result that count as one step."""


class DimGuide:
    """Follows drafts of one sample."""

    def __init__(self, influence: TaskInfluence, steps: StepLimit) -> None:
        self._influence = influence
        self._steps = steps
        self._ends: dict[tuple[int, int], tuple[Coercion, int]] = {}
        """The streams at the ends of coercions, which are kept so that their identities last."""

    @property
    def inputs(self) -> tuple[int, ...]:
        """The numbers of the inputs."""
        return self._influence.inputs

    def compared(self, draft: Draft, similarity: float) -> float:
        """The similarity of a finished draft, less where its elements come from elsewhere than the reference's.

        Such a draft does not compute the reference, whatever the interpretation says, which knows no dims. One with the
        reference's formulas does; how long it takes to compare these in other worlds is not counted here.
        """
        ends = self._ends_of(draft)
        draft.agreement = self._influence.agreement(ends)
        equal = all(self._influence.equals(number, place) for place, number in enumerate(ends))
        if equal or (draft.agreement == 1.0 and self._influence.compares):
            ordered = self._influence.ordered and self._computes_in(ORDERED, draft)
            draft.computes = ordered or self._computes_in(SIGNED, draft)
        if equal or draft.computes:
            draft.agreement, draft.read = 1.0, True
            return 1.0
        draft.read = draft.read and draft.agreement == 1.0
        return similarity * (1.0 - _ELSEWHERE * (1.0 - draft.agreement))

    def _computes_in(self, worlds: range, draft: Draft) -> bool:
        """Whether the results of a finished draft are the outputs in all of some worlds."""
        return all(self._computes_there(world, draft) for world in worlds)

    def _computes_there(self, world: int, draft: Draft) -> bool:
        streams, inputs = self._influence.in_world(world)
        numbers = list(inputs)
        for move in draft.moves:
            numbers.append(self._result(move, [numbers[source] for source in move.sources], streams))
        ends = zip(draft.results, draft.output_coercions, strict=True)
        found = [_ended(streams, numbers[stream], coercion) for stream, coercion in ends]
        return all(self._influence.equals(number, place, world) for place, number in enumerate(found))

    def _ends_of(self, draft: Draft) -> list[int]:
        """The streams that are the results of a finished draft."""
        numbers = list(self.inputs)
        for move in draft.moves:
            numbers.append(self.moved(move, [numbers[source] for source in move.sources]))
        ends = zip(draft.results, draft.output_coercions, strict=True)
        return [self._coerced(numbers[stream], coercion) for stream, coercion in ends]

    def fit(self, number: int, type_: StreamType) -> float:
        """How well the reference agrees with where a stream's elements come from: from 0 to 1."""
        return (1 - _ALIGNED) * self._influence.fit(number) + _ALIGNED * self._influence.alignment(number, type_)

    def loses(self, number: int, sources: Sequence[int]) -> bool:
        """Whether a stream gets nothing from the inputs, although a stream that it is made of does."""
        independent = self._influence.independent
        return independent(number) and not all(map(independent, sources))

    def passes(self, number: int) -> float:
        """As `TaskInfluence.passes`."""
        return self._influence.passes(number)

    def reaches(self, number: int, ending: Coercion, output: int) -> bool:
        """Whether a stream, at the end of a coercion, gets its elements from where an output does."""
        return self._influence.reaches(self._coerced(number, ending), output)

    def equals(self, number: int, ending: Coercion, output: int) -> bool:
        """Whether a stream, at the end of a coercion, is an output by the formulas of its elements."""
        return self._influence.equals(self._coerced(number, ending), output)

    @property
    def needs(self) -> Needs | None:
        """The values of the reference, if all are known."""
        return self._influence.needs

    def values(self, number: int) -> NDArray[np.uint64]:
        """As `TaskInfluence.values`."""
        return self._influence.values(number)

    def computes(self, number: int) -> float | None:
        """As `TaskInfluence.computes`."""
        return self._influence.computes(number)

    def moved(self, move: Move, sources: Sequence[int]) -> int:
        """The number of a move's result, by those of its sources; what a primitive rejects is unread."""
        try:
            result = self._result(move, sources, self._influence.streams)
        except RuleError:
            result = UNREAD
        reshaped = sum(len(way.ops) for way in move.coercions)
        branches = _ROUTED * len(move.fns) if move.routing else 0
        steps = _MOVED + branches + _RESHAPED * reshaped + self._influence.streams.size(result) // _ELEMENTS
        self._steps.spend_once((move.key[:1], move.result, move.fold, move.coercions, *sources), steps)
        return result

    def _result(self, move: Move, sources: Sequence[int], streams: Streams) -> int:
        coerced = self._coerced if streams is self._influence.streams else partial(_ended, streams)
        parts = [coerced(source, way) for source, way in zip(sources, move.coercions, strict=True)]
        if move.routing is not None:
            return route(streams, move.fns, move.routing.merge, parts, selects=move.routing.selects)
        stream = zipped(streams, parts)
        (fn,) = move.functions()
        if move.fold is not None and move.fold.placeholder:
            stream = streams.add(Promote(streams.rank(stream)), stream)[0]
        op: Primitive = Map(fn) if move.fold is None else (Scan if move.fold.scan else Accum)(fn, move.fold.b)
        (result,) = streams.add(op, stream)
        if streams is self._influence.streams:
            work = streams.work(op, stream)
            self._steps.spend_once((op, stream), work.followed * _FOLLOWED)
            for reading in work.readings:
                self._steps.spend_once(reading, _READING)
        return result

    def _coerced(self, stream: int, coercion: Coercion) -> int:
        if not coercion.ops:
            return stream
        known = self._ends.get((stream, id(coercion)))
        if known is None:
            end = _ended(self._influence.streams, stream, coercion)
            known = self._ends[stream, id(coercion)] = (coercion, end)
        return known[1]


def _ended(streams: Streams, stream: int, coercion: Coercion) -> int:
    """The stream at the end of a coercion."""
    for op in coercion.ops:
        (stream,) = streams.add(op, stream)
    return stream
