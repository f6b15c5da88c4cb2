"""The streams that the drafts of one beam search share: each application of a function to streams exists once."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from pipeline.lms.embedded.dependence.dependences import Dependences
from pipeline.lms.embedded.draft import Draft, Move
from pipeline.lms.embedded.formulas.needs import Mask, Needs, found_in
from pipeline.lms.embedded.formulas.tape import Nodes
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.strong.dependence_guide import DependenceGuide
from pipeline.lms.embedded.strong.dim_guide import DimGuide
from pipeline.lms.embedded.strong.variation import Dims, after, all_dims
from pipeline.lms.embedded.types.type_table import TypeId, TypeTable
from step_runtime.base.shapes import Dim

T = TypeVar("T")

# Scores, in the units of the softmax at sharpness 1.
_MISFIT = -5.01
"""For a stream that depends on the inputs in another way than the reference, where its operands do not,"""
_MISPLACED = -13.53
"""for a stream whose elements get more from the inputs than any element of an output, where its operands' do not, or
nothing, for example as a mask leaves nothing,"""
_BESIDE = -2.56
"""for one that the reference does not compute on its way, by its elements, where it computes the operands,"""
_UNLIKE = -2.59
_UNLIKE_AGAIN = -2.0
"""for one that the reference does not compute on its way, by its dependences, where it computes the operands or not,"""
_RESEMBLING = -1.2
"""and for one that only resembles such a value,"""
_SAME = 0.999
_REGAINED = 0.21
"""for repeating along a dim that was folded before,"""
_CONSTANT = -1.17
"""for folding over a dim along which nothing varies, unless that counts,"""
_UNKNOWN = -0.75
_UNKNOWN_AFTER = -0.4
"""for one whose formulas the reference lacks, the more so where it has those of the operands,"""
NEEDED = 1.9
_IDLE = -0.6
"""and for one that the draft needs by its formulas, or of which it needs nothing although the reference has them."""

_FOLLOWED = 3
"""Steps that an operation of the reference counts for, when what a draft needs is found out."""


class StreamPool:
    """Numbers streams as they are made: inputs first.

    Settling a stream computes where its elements come from, and by which formulas. Until then it may be taken for more
    outputs than it can be, and its score is an upper bound, except where its formulas dispel doubts.

    Attributes:
        guide: The dependences of all streams.
        first: The number of inputs.
        scores: How plausible the move is that makes each stream, given its operands.
        reached: The outputs that each stream may be, as bits,
        ends: and those whose formulas it has, if it is settled.
    """

    def __init__(
        self,
        table: TypeTable,
        dependences: Dependences,
        dims: DimGuide,
        steps: StepLimit,
        trust: float,
        *,
        step_dims: Dims = frozenset(),
    ) -> None:
        self._table = table
        self.draft = Draft.start(table.inputs)
        self.guide = DependenceGuide(dependences, self.draft, steps)
        self.first = len(table.inputs)
        self.scores = [0.0] * self.first
        self._fits = [1.0] * self.first
        self._dims = dims
        self._likeness = [1.0] * self.first
        """How much of each stream the reference computes on its way, by its dependences."""
        self._numbers: list[int | None] = list(dims.inputs)
        """Where the elements of each settled stream come from,"""
        self._places = [
            dims.fit(*one) for one in zip(dims.inputs, map(table.types.__getitem__, table.inputs), strict=True)
        ]
        """and how that fits the reference."""
        self._passes = [1.0] * self.first
        """How much of each settled stream the reference computes on its way."""
        self._folded: list[frozenset[Dim]] = [frozenset()] * self.first
        """The dims that were folded on the way to each stream."""
        self.reached = [0] * self.first
        self.ends = [0] * self.first
        self._given = [(0.0, 0, 0)] * self.first
        """For each stream its score by types, how many dims it regains, and how many it folds that do not vary."""
        self._varying: list[Dims] = [all_dims(table, type_) | step_dims for type_ in table.inputs]
        self._trust = trust
        self._steps = steps
        self._computed = [1.0] * self.first
        """The share of each stream's values that the reference computes."""
        self._doubts = [0.0] * self.first
        """The part of each stream's score by which its dependences are doubted, unless its formulas are known."""
        self._needed: dict[tuple[int, ...], Mask] = {}
        """What each draft needs, by its streams,"""
        self._gains: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[bool, bool]] = {}
        """and what it gains by some more."""
        self._at: dict[int, Nodes] = {}
        """The values of the reference that each stream has,"""
        self._formulas: dict[int, tuple[float, ...]] = {}
        """and what its formulas say."""
        self._known: dict[tuple[object, ...], int] = {}
        self._as: dict[int, int] = {}
        """The streams as which others, which are the same at a larger shape, are judged."""

    def again(self, move: Move, stream: int) -> int:
        """The stream that a move makes, which is another one at a larger shape: it is judged as that one."""
        known = self._known.get((move.key, move.coercions))
        if known is not None:
            return known
        made = self.add(move, 0.0)
        self._as[made] = stream
        self.scores[made], self._fits[made], self.reached[made] = 0.0, self._fits[stream], 0
        return made

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
        self._numbers.append(None)
        self._places.append(1.0)
        self._passes.append(1.0)
        self.reached.append(self._alike(stream, move.result))
        self.ends.append(0)
        self._folded.append(frozenset().union(*folded, own))
        alike, alike_before = self.guide.passes(stream), min(self._likeness[source] for source in move.sources)
        self._likeness.append(alike)
        resembling = self.guide.resembles(stream) if alike < 1.0 else 1.0
        unlike = (_UNLIKE if alike_before == 1.0 else _UNLIKE_AGAIN) * (1.0 - resembling)
        unlike += _RESEMBLING * (resembling - alike) * (alike_before == 1.0)
        constant = 0 if constant and self.guide.counts(move) else constant
        self._given.append((score, regained, constant))
        score += _CONSTANT * constant + _REGAINED * regained
        doubts = self._trust * (_MISFIT * max(0.0, before - fit) + unlike)
        self._doubts.append(doubts)
        self._computed.append(1.0)
        self.scores.append(score + doubts)

    def best_first(
        self, items: Iterable[T], score: Callable[[T], float], streams: Callable[[T], Sequence[int]]
    ) -> Iterator[tuple[float, T]]:
        """Items with their scores, best first; the streams of each are settled when nothing else may be better.

        Raises:
            StepsExhausted: The sample has used all its steps.
        """
        waiting = [(-score(item), place, item, self._settled(streams(item))) for place, item in enumerate(items)]
        heapq.heapify(waiting)
        while waiting:
            negative, place, item, exact = heapq.heappop(waiting)
            if exact:
                yield -negative, item
                continue
            for stream in streams(item):
                self.settle(stream)
            heapq.heappush(waiting, (-score(item), place, item, True))

    def _settled(self, streams: Sequence[int]) -> bool:
        return all(self._numbers[stream] is not None for stream in streams)

    def settle(self, stream: int) -> int:
        """Finds out where the elements of a stream come from.

        Raises:
            StepsExhausted: The sample has used all its steps.
        """
        known = self._numbers[stream]
        if known is not None:
            return known
        move = self.move(stream)
        number = self._dims.moved(move, [self.settle(source) for source in move.sources])
        self._numbers[stream] = number
        like = self._as.get(stream)
        if like is None:
            self._judge(stream, number)
        else:
            self.settle(like)
            self._places[stream], self._passes[stream] = self._places[like], self._passes[like]
        return number

    def _judge(self, stream: int, number: int) -> None:
        """Compares where the elements of a stream come from with the reference."""
        move = self.move(stream)
        before = min(self._places[source] for source in move.sources)
        lost = self.guide.depends(stream) and self._dims.loses(number, list(map(self.settle, move.sources)))
        place = 0.0 if lost else self._dims.fit(number, self._table.types[move.result])
        self._places[stream] = min(place, before)
        passes = self._dims.passes(number)
        passes_before = min(self._passes[source] for source in move.sources)
        self._passes[stream] = min(passes, passes_before)
        misplaced = _MISPLACED * max(0.0, before - place) + _BESIDE * max(0.0, passes_before - passes)
        self._compare(stream, self._dims.computes(number), misplaced)
        for output in range(len(self._table.outputs)) if self.reached[stream] else ():
            if self.reached[stream] >> output & 1:
                way = self._table.coercions(move.result, self._table.outputs[output])[0]
                self.reached[stream] ^= (not self._dims.reaches(number, way, output)) << output
                self.ends[stream] |= self._dims.equals(number, way, output) << output

    def _compare(self, stream: int, computes: float | None, misplaced: float) -> None:
        """Counts the share of a stream's values that the reference computes; it is not doubted if these are all."""
        before = min(self._computed[source] for source in self.move(stream).sources)
        share = self._computed[stream] = 1.0 if computes is None else computes
        if computes == 1.0:
            self.scores[stream] -= self._doubts[stream]
            return
        self.scores[stream] += self._trust * (misplaced + _UNKNOWN_AFTER * max(0.0, before - share))
        if self.needs is not None:
            self.scores[stream] += _UNKNOWN * (1.0 if computes is None else 1.0 - share)

    def ended(self, streams: Iterable[int]) -> bool:
        """Whether some streams have the formulas of all outputs, as far as they are settled."""
        return reduce(or_, map(self.ends.__getitem__, streams), 0) == (1 << len(self._table.outputs)) - 1

    def _alike(self, stream: int, type_: TypeId) -> int:
        """The outputs that a stream may be by its type and by its dependences."""
        found = 0
        for output, wanted in enumerate(self._table.outputs):
            ways = self._table.coercions(type_, wanted)
            if ways and not ways[0].repeats:
                found |= (self.guide.matches(stream, output) > _SAME) << output
        return found

    def judged(self, stream: int) -> tuple[float, ...]:
        """What the score of a settled stream is made of, and how far the reference agrees with it and its operands."""
        stream = self._as.get(stream, stream)
        sources = self.move(stream).sources
        given, regained, constant = self._given[stream]
        agreements = self._fits, self._likeness, self._places, self._passes
        after = [agreement[stream] for agreement in agreements]
        before = [min(map(agreement.__getitem__, sources)) for agreement in agreements]
        drops = [max(0.0, one - other) for one, other in zip(before, after, strict=True)]
        first = drops[1] * (before[1] == 1.0)
        return (given, regained, constant, *drops, first, *(one < 1.0 for one in after), min(after) == 1.0)

    def known(self, stream: int) -> tuple[float, ...]:
        """What the formulas of a settled stream say: whether the reference has all, some, or they are not known.

        Then, whether it has all of the operands' but not this one's, and whether these are the operands' own.
        """
        stream = self._as.get(stream, stream)
        known = self._formulas.get(stream)
        if known is None:
            computed = self._dims.computes(self.settle(stream))
            sources = self.move(stream).sources
            before = min(map(self._computed.__getitem__, sources))
            share = 1.0 if computed is None else computed
            values = self.values(stream)
            own = np.sort(np.concatenate([self.values(source) for source in sources]))
            copied = len(values) > 0 and len(own) > 0 and len(found_in(own, values)) == len(values)
            known = self._formulas[stream] = (
                computed == 1.0, 0.0 if computed is None else computed % 1.0, computed is None,
                (before == 1.0) * (1.0 - share), copied,
            )  # fmt: skip
        return known

    def values(self, stream: int) -> NDArray[np.uint64]:
        """The formulas of a settled stream's elements, each once."""
        return self._dims.values(self.settle(self._as.get(stream, stream)))

    def places(self, stream: int) -> Nodes:
        """The values of the reference that a settled stream has."""
        known = self._at.get(stream)
        if known is None:
            assert self.needs is not None
            known = self._at[stream] = self.needs.places(self.values(stream))
        return known

    def gained(self, streams: tuple[int, ...], fresh: tuple[int, ...]) -> float:
        """The score for what new streams add to those that a draft has, once they are settled."""
        if self.needs is None or not self._settled(fresh):
            return 0.0
        useful, idle = self.progress(streams, fresh)
        return NEEDED * useful + _IDLE * idle

    def gives(self, streams: tuple[int, ...], fresh: tuple[int, ...]) -> bool:
        """Whether some new streams are values of the reference, of which a draft needs one."""
        return all(self.known(stream)[0] for stream in fresh) and self.progress(streams, fresh)[0]

    def progress(self, streams: tuple[int, ...], fresh: tuple[int, ...]) -> tuple[bool, bool]:
        """Whether a draft needs one of some new streams, and whether it does not although the reference has them."""
        found = self._gains.get((streams, fresh))
        if found is None:
            needed = self._lacks(streams)
            useful = any(needed[self.places(stream)].any() for stream in fresh)
            known = [] if useful else [self.known(stream) for stream in fresh]
            idle = not useful and all(one[0] for one in known) and not all(one[-1] for one in known)
            found = self._gains[streams, fresh] = useful, idle
        return found

    def _lacks(self, streams: tuple[int, ...]) -> Mask:
        """The values of the reference that the outputs still need, where a draft has some streams."""
        known = self._needed.get(streams)
        if known is None:
            assert self.needs is not None
            self._steps.spend(_FOLLOWED * self.needs.work)
            had = self.needs.given.copy()
            for stream in streams:
                had[self.places(stream)] = True
            known = self._needed[streams] = self.needs.needed(had)
        return known

    @property
    def needs(self) -> Needs | None:
        """The values of the reference, if all are known."""
        return self._dims.needs

    def move(self, stream: int) -> Move:
        """The move that made a stream."""
        return self.draft.moves[stream - self.first]

    def type_of(self, stream: int) -> TypeId:
        """A stream's type."""
        return self.draft.streams[stream]

    def numbered(self, draft: Draft, number: Mapping[int, int]) -> DependenceGuide:
        """The dependences of a draft whose streams are some of these, by their numbers here and there."""
        return self.guide.following(draft, [own for own, _ in sorted(number.items(), key=lambda pair: pair[1])])
