"""One round of a search: bottom-up from given streams and top-down from the outputs, until landmarks are reached."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

import numpy
import torch
from torch import Tensor

from pipeline.synthesis.assembly import Assembler, Meeting
from pipeline.synthesis.batch_execution import BatchExecutor
from pipeline.synthesis.bottom_up import Block, BottomUp, Bucket, StreamRef
from pipeline.synthesis.landmarks import Landmarks
from pipeline.synthesis.rulebook import Reach, Rulebook
from pipeline.synthesis.rules import RuleTable
from pipeline.synthesis.terms import Term, functions_of
from pipeline.synthesis.top_down import Holes, Subgoal, TopDown
from pipeline.synthesis.type_space import TypeId, TypeSpace
from pipeline.synthesis.value_blocks import ValueIndex
from step_runtime.base.types import StreamType
from step_runtime.program.graph import Program

_MOST_TOGETHER = 64
"""The most programs tried for an additional way to an output, if a task has several outputs."""


@dataclass(frozen=True, eq=False)
class Given:
    """A stream that a round starts from: `values` is one row, and `cost` 0 for an input and 1 for what is made."""

    type: StreamType
    values: Tensor
    term: Term
    cost: int


class SearchRound:
    """Searches from given streams; it ends early when a bucket is full in which streams have reached landmarks.

    Args:
        executor: Runs rules, within the budget.
        table: The rules of the space.
        reach: How far it goes.
        holes: The operands that can be solved for.
        given: What to start from.
        wanted: The outputs' values.
        landmarks: Those not reached yet.
        sane_only: Whether streams with infinite or huge numbers are dropped.
        once: As of `BottomUp`.
    """

    def __init__(
        self,
        executor: BatchExecutor,
        table: RuleTable,
        reach: Reach,
        holes: Holes,
        given: Iterable[Given],
        wanted: Sequence[Tensor],
        landmarks: Landmarks,
        *,
        sane_only: bool,
        once: bool,
    ) -> None:
        self._executor, self._space = executor, table.space
        self._wanted, self._landmarks = wanted, landmarks
        given = list(given)
        starts = _buckets(self._space, given, free=reach.free)
        served = {fn for stream in given for fn in functions_of(stream.term)}
        costs = {type_: min(by_cost) for type_, by_cost in starts.items()}
        book = self._book = Rulebook(table, costs, reach, served, lambda: executor.spend(0))
        self._bottom_up = BottomUp(executor, book, starts, sane_only=sane_only, once=once)
        self._top_down = TopDown(executor, book, self._bottom_up.buckets, holes)
        self._assembler = Assembler(self._space, self._bottom_up, self._top_down)
        self._starts = [(type_, cost) for type_, by_cost in starts.items() for cost in by_cost]
        self._streams: dict[TypeId, tuple[ValueIndex, list[int]]] = {type_: (ValueIndex(), []) for type_ in book.types}
        self._ways: list[list[Meeting]] = [[] for _ in wanted]
        self.reached: list[Given] = []

    def _is_wanted(self, type_: StreamType) -> bool:
        return self._landmarks.wanted(self._executor.layout(type_))

    @property
    def distinct(self) -> int:
        """Streams of different value that were kept."""
        return sum(len(bucket.values) for by_cost in self._bottom_up.buckets.values() for bucket in by_cost.values())

    @property
    def subgoals(self) -> int:
        """Values wanted top-down."""
        return sum(len(goals.values) for goals in self._top_down.sets)

    def programs(self) -> Iterator[Program]:
        """The programs of all ways to meet.

        Raises:
            OutOfBudget: The budget is used up.
        """
        for meetings in self._meetings():
            yield self._assembler.program(meetings)

    def _meetings(self) -> Iterator[tuple[Meeting, ...]]:
        """A meeting for every output, in all ways found."""
        for meeting in self._found():
            output = self._assembler.output(meeting.subgoal)
            others = [ways if place != output else [meeting] for place, ways in enumerate(self._ways)]
            self._ways[output].append(meeting)
            yield from islice(product(*others), _MOST_TOGETHER)

    def _found(self) -> Iterator[Meeting]:
        """Where streams and subgoals meet, in turns: the side that has tried fewer candidates continues."""
        yield from self._met_at_first()
        spent = {"up": 0, "down": 0}
        landmarks = [type_ for type_ in self._book.types if self._is_wanted(self._space.types[type_])]
        bottom_up = self._bottom_up.run(self._book.remaining(self._space.outputs, landmarks))
        ended = False
        while not (ended and self._top_down.idle):
            before = self._executor.candidates
            down = ended or (not self._top_down.idle and spent["down"] <= spent["up"])
            if down:
                new = self._top_down.step()
                yield from () if new is None else self._met_from_above(new)
            else:
                made = next(bottom_up, None)
                ended = made is None
                if self.reached and not isinstance(made, Block):
                    return
                yield from () if made is None else self._met_from_below(made)
            spent["down" if down else "up"] += self._executor.candidates - before

    def _met_at_first(self) -> Iterator[Meeting]:
        """Where the given streams have the outputs' values."""
        for output, value in enumerate(self._wanted):
            before = len(self._top_down.sets)
            self._top_down.add_output(output, value)
            for number in range(before, len(self._top_down.sets)):
                yield from self._met_from_above(number)
        for type_, cost in self._starts:
            bucket = self._bottom_up.buckets[type_][cost]
            for row, subgoal in self._top_down.find(type_, bucket.values):
                yield Meeting(StreamRef(type_, cost, row), subgoal)
            self._make_known(type_, cost)

    def _met_from_below(self, made: Block | tuple[TypeId, int]) -> Iterator[Meeting]:
        """Streams meet subgoals when they are made; a full bucket then meets those found later."""
        if isinstance(made, Block):
            for row, subgoal in self._top_down.find(made.type, made.values):
                yield Meeting(made.derivation.made(row), subgoal)
            self._note_landmarks(made)
        else:
            self._make_known(*made)

    def _note_landmarks(self, made: Block) -> None:
        kind = self._space.types[made.type]
        for row in sorted(set(self._landmarks.reached(kind, self._executor.layout(kind), made.values))):
            term = self._assembler.term(made.derivation.made(row))
            self.reached.append(Given(kind, made.values[row : row + 1].clone(), term, 1))

    def _make_known(self, type_: TypeId, cost: int) -> None:
        index, costs = self._streams[type_]
        index.add(self._bottom_up.buckets[type_][cost].values)
        costs.append(cost)
        self._top_down.offer(type_, cost)

    def _met_from_above(self, number: int) -> Iterator[Meeting]:
        goals = self._top_down.sets[number]
        index, costs = self._streams[goals.type]
        for row, block, other in index.find(goals.values):
            yield Meeting(StreamRef(goals.type, costs[block], other), Subgoal(number, row))


def _buckets(space: TypeSpace, given: Iterable[Given], *, free: bool) -> dict[TypeId, dict[int, Bucket]]:
    """The given streams by type and cost, which is 0 if they are free."""
    grouped: dict[TypeId, dict[int, list[Given]]] = {}
    for stream in given:
        cost = 0 if free else stream.cost
        grouped.setdefault(space.intern(stream.type), {}).setdefault(cost, []).append(stream)
    return {
        type_: {
            cost: Bucket(
                torch.cat([each.values for each in streams]),
                numpy.zeros(len(streams), numpy.int64),
                given=[each.term for each in streams],
            )
            for cost, streams in sorted(by_cost.items())
        }
        for type_, by_cost in grouped.items()
    }
