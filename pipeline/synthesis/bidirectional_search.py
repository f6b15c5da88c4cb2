"""Classical synthesis: bottom-up and top-down enumeration that meet at a value, checked by the verifier.

It runs the task's functions and its reference, which no proposer may: a baseline, and no language model. A search goes
in rounds, from seed streams up and from the outputs down, until landmarks are reached, which the next starts from.

A phase is a choice of types and a depth: what rounds leave out at first. Widening goes along the diagonals: a phase
that is wider by one step in one dimension comes after all those of which it is a step in neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

import numpy
import torch

from pipeline.synthesis.bottom_up import BatchExecutor, Block, BottomUp, Bucket, RuleApplication, StreamRef
from pipeline.synthesis.observation import Observation, least_instance
from pipeline.synthesis.rules import (
    ProgramBuilder,
    RoundLimits,
    Rulebook,
    RuleTable,
    RuleTerm,
    SeedStream,
    SeedStreams,
    Term,
    TermWriter,
    follow,
    functions_of,
    tidy,
)
from pipeline.synthesis.search_budget import OutOfBudget, Reason, SearchBudget, SearchOutcome
from pipeline.synthesis.top_down import InvertibleOperands, OutputContext, Subgoal, TopDown
from pipeline.synthesis.type_space import TypeId, TypeSpace
from pipeline.synthesis.value_blocks import ValueIndex
from step_runtime.base.types import StreamType
from step_runtime.execution.invocation import default_dtype
from step_runtime.primitives import Copy
from step_runtime.program.graph import Program, StreamId
from step_runtime.program.printer import print_program
from step_runtime.tasks.task import Task
from step_runtime.verification.verify import Verifier


@dataclass(frozen=True)
class Types:
    """The types of the streams that a phase makes.

    Attributes:
        name: What they add to the declared types.
        spare: How much oftener a dim may occur than in a declared type.
        invented: The dims that elements may have and their stream lacks.
        width: The steps of depth that they are worth: each of these dims multiplies the types.
    """

    name: str
    spare: int
    invented: int
    width: int


@dataclass(frozen=True)
class Depth:
    """How far the rounds of a phase go.

    Attributes:
        name: What limits them.
        limits: The limits of a round.
        share: The share of the whole budget that a round may use.
    """

    name: str
    limits: RoundLimits
    share: float


@dataclass(frozen=True)
class Phase:
    """A choice of types and a depth."""

    types: Types
    depth: Depth

    @property
    def name(self) -> str:
        """As the documentation calls it."""
        return f"{self.depth.name}, {self.types.name}"


DECLARED = Types("declared types", 0, 0, 0)
SPARE = Types("a dim more", 1, 0, 1)
INVENTED = Types("dims of elements", 0, 1, 2)
BOTH = Types("a dim more and dims of elements", 1, 1, 4)
TYPES = (DECLARED, SPARE, INVENTED, BOTH)

_TOGETHER = 2**14
"""Candidates of one rule on streams of the same costs: a tenth of a second where functions are simple."""

NEAR = Depth("a function or two", RoundLimits(5, 4_000, choices=False, free=True, together=_TOGETHER), 0.05)
SHORT = Depth("three functions", RoundLimits(8, 16_000, choices=False, together=_TOGETHER), 0.1)
MIDDLE = Depth("few choices", RoundLimits(11, 8_000, choices=True, together=_TOGETHER), 0.1)
LONG = Depth("more choices", RoundLimits(14, 8_000, choices=True), 0.1)
REPEATED = Depth("functions again", RoundLimits(18, 16_000, choices=True, once=False), 0.2)
UNLIMITED = Depth("no end", RoundLimits(40, 30_000, choices=True, once=False), 0.25)
DEPTHS = (NEAR, SHORT, MIDDLE, LONG, REPEATED, UNLIMITED)


def widening() -> Iterator[Phase]:
    """The phases in their order; where both are as wide, the one of fewer types comes first.

    Dims of elements are structure that types do not force, so that only depths that count choices admit them.
    """
    steps = [
        (number + types.width, types.width, types, depth)
        for number, depth in enumerate(DEPTHS)
        for types in TYPES
        if depth.limits.choices or not types.invented
    ]
    for _, _, types, depth in sorted(steps, key=lambda entry: entry[:2]):
        yield Phase(types, depth)


PHASES = tuple(widening())


def resumed(phase: Phase) -> tuple[Phase, ...]:
    """The phases that follow where one has reached landmarks: the nearest, this one, as more may be there, and all."""
    return tuple(dict.fromkeys((PHASES[0], phase, *PHASES)))


class Meeting:
    """A stream made bottom-up that has the value of a subgoal found top-down."""

    def __init__(self, stream: StreamRef | RuleApplication, subgoal: Subgoal) -> None:
        self.stream = stream
        self.subgoal = subgoal


class Assembler:
    """Writes programs for the outputs of a task from meetings, one for each."""

    def __init__(self, space: TypeSpace, bottom_up: BottomUp, top_down: TopDown) -> None:
        self._space = space
        self._bottom_up = bottom_up
        self._top_down = top_down
        self._terms: dict[StreamRef, Term] = {}

    def output(self, subgoal: Subgoal) -> int:
        """The output that a subgoal serves."""
        context = self._top_down.context(subgoal)
        while not isinstance(context, OutputContext):
            context = self._top_down.context(context.wanted)
        return context.output

    def program(self, meetings: Sequence[Meeting]) -> Program:
        """The program that gives the outputs, in order."""
        writer = TermWriter(ProgramBuilder(self._space.scope))
        results = tuple(self._result(writer, meeting) for meeting in meetings)
        return tidy(writer.builder.program(results))

    def term(self, made: StreamRef | RuleApplication) -> Term:
        """How a stream is made, apart from the tables of streams."""
        if isinstance(made, RuleApplication):
            return RuleTerm(made.rule, tuple(self.term(stream) for stream in made.operands))
        if made not in self._terms:
            found = self._bottom_up.buckets[made.type][made.cost].made(made.row)
            self._terms[made] = self.term(found) if isinstance(found, RuleApplication) else found
        return self._terms[made]

    def _result(self, writer: TermWriter, meeting: Meeting) -> StreamId:
        stream = writer.stream(self.term(meeting.stream))
        context = self._top_down.context(meeting.subgoal)
        while not isinstance(context, OutputContext):
            parts = [writer.stream(self.term(other)) for other in context.others]
            parts.insert(context.hole, stream)
            stream = context.rule.write(writer.builder, parts)
            context = self._top_down.context(context.wanted)
        return follow(writer.builder, context.path, stream)


_MOST_TOGETHER = 64
"""The most programs tried for an additional way to an output, if a task has several outputs."""


class SearchRound:
    """Searches from seed streams; it ends early when a bucket is full in which streams have reached landmarks.

    Args:
        executor: Runs rules, within the budget.
        table: The rules of the space.
        limits: How far it goes.
        invertible: The operands that can be solved for.
        seeds: What to start from; what a later round is to start from is added.
        observation: The outputs' values, and landmarks.
        listener: Told of every block of streams when it is made.
    """

    def __init__(
        self,
        executor: BatchExecutor,
        table: RuleTable,
        limits: RoundLimits,
        invertible: InvertibleOperands,
        seeds: SeedStreams,
        observation: Observation,
        listener: Callable[[Block], None] = lambda block: None,
    ) -> None:
        self._executor, self._space = executor, table.space
        self._seeds, self._observation, self._listener = seeds, observation, listener
        starts = _buckets(self._space, seeds, free=limits.free)
        served = {fn for stream in seeds for fn in functions_of(stream.term)}
        costs = {type_: min(by_cost) for type_, by_cost in starts.items()}
        book = self._book = Rulebook(table, costs, limits, served, lambda: executor.spend(0))
        self.bottom_up = BottomUp(executor, book, starts, sane_only=observation.sane_only)
        self.top_down = TopDown(executor, book, self.bottom_up.buckets, invertible)
        self.assembler = Assembler(self._space, self.bottom_up, self.top_down)
        self._starts = [(type_, cost) for type_, by_cost in starts.items() for cost in by_cost]
        self._streams: dict[TypeId, tuple[ValueIndex, list[int]]] = {type_: (ValueIndex(), []) for type_ in book.types}
        self._ways: list[list[Meeting]] = [[] for _ in observation.wanted]
        self.reached: list[SeedStream] = []

    def _is_wanted(self, type_: StreamType) -> bool:
        return self._observation.landmarks.wanted(self._executor.layout(type_))

    def programs(self) -> Iterator[Program]:
        """The programs of all ways to meet.

        Raises:
            OutOfBudget: The budget is used up.
        """
        for meetings in self._meetings():
            yield self.assembler.program(meetings)

    def _meetings(self) -> Iterator[tuple[Meeting, ...]]:
        """A meeting for every output, in all ways found."""
        for meeting in self.met():
            output = self.assembler.output(meeting.subgoal)
            others = [ways if place != output else [meeting] for place, ways in enumerate(self._ways)]
            self._ways[output].append(meeting)
            yield from islice(product(*others), _MOST_TOGETHER)

    def met(self) -> Iterator[Meeting]:
        """Where streams and subgoals meet, in turns: the side that has tried fewer candidates continues."""
        yield from self._met_at_first()
        spent = {"up": 0, "down": 0}
        landmarks = [type_ for type_ in self._book.types if self._is_wanted(self._space.types[type_])]
        bottom_up = self.bottom_up.run(self._book.remaining(self._space.outputs, landmarks))
        ended = False
        while not (ended and self.top_down.idle):
            before = self._executor.candidates
            down = ended or (not self.top_down.idle and spent["down"] <= spent["up"])
            if down:
                new = self.top_down.step()
                yield from () if new is None else self._met_from_above(new)
            else:
                made = next(bottom_up, None)
                ended = made is None
                if self.reached and not isinstance(made, Block):
                    return
                yield from () if made is None else self._met_from_below(made)
            spent["down" if down else "up"] += self._executor.candidates - before

    def _met_at_first(self) -> Iterator[Meeting]:
        """Where the seed streams have the outputs' values."""
        for output, value in enumerate(self._observation.wanted):
            before = len(self.top_down.sets)
            self.top_down.add_output(output, value)
            for number in range(before, len(self.top_down.sets)):
                yield from self._met_from_above(number)
        for type_, cost in self._starts:
            bucket = self.bottom_up.buckets[type_][cost]
            for row, subgoal in self.top_down.find(type_, bucket.values):
                yield Meeting(StreamRef(type_, cost, row), subgoal)
            self._make_known(type_, cost)

    def _met_from_below(self, made: Block | tuple[TypeId, int]) -> Iterator[Meeting]:
        """Streams meet subgoals when they are made; a full bucket then meets those found later."""
        if isinstance(made, Block):
            self._listener(made)
            for row, subgoal in self.top_down.find(made.type, made.values):
                yield Meeting(made.derivation.made(row), subgoal)
            self._note_landmarks(made)
        else:
            self._make_known(*made)

    def _note_landmarks(self, made: Block) -> None:
        """Adds the streams that have landmarks."""
        kind = self._space.types[made.type]

        def term(row: int) -> Term:
            return self.assembler.term(made.derivation.made(row))

        for row in sorted(set(self._observation.reached(kind, made.values, term))):
            stream = SeedStream(kind, made.values[row : row + 1].clone(), term(row), 1)
            if self._seeds.add(stream):
                self.reached.append(stream)

    def _make_known(self, type_: TypeId, cost: int) -> None:
        index, costs = self._streams[type_]
        index.add(self.bottom_up.buckets[type_][cost].values)
        costs.append(cost)
        self.top_down.offer(type_, cost)

    def _met_from_above(self, number: int) -> Iterator[Meeting]:
        goals = self.top_down.sets[number]
        index, costs = self._streams[goals.type]
        for row, block, other in index.find(goals.values):
            yield Meeting(StreamRef(goals.type, costs[block], other), Subgoal(number, row))


def _buckets(space: TypeSpace, seeds: Iterable[SeedStream], *, free: bool) -> dict[TypeId, dict[int, Bucket]]:
    """The seed streams by type and cost, which is 0 if they are free."""
    grouped: dict[TypeId, dict[int, list[SeedStream]]] = {}
    for stream in seeds:
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


_GRAVEST: tuple[Reason, ...] = ("exhausted", "memory", "candidates", "meetings", "time", "clock", "crashed")
"""Of the reasons of several phases, the last in this order counts."""


class BidirectionalSearch:
    """One task's search, in rounds: each starts from the landmarks that those before have reached.

    Its phases differ in what they leave out at first; each has a share of the budget.
    """

    def __init__(self, task: Task, budget: SearchBudget) -> None:
        self._start = time.monotonic(), time.process_time()
        self._task = task.without_impl()
        self._verifier = Verifier(self._task)
        self._instance = least_instance(self._task)
        self._executor = BatchExecutor(self._instance, TypeSpace(self._instance.scope), budget)
        self._observation = Observation(self._instance, self._executor)
        self._seeds = SeedStreams(self._observation.inputs)
        self._refused: set[str] = set()
        self._tables: dict[Types, tuple[RuleTable, InvertibleOperands]] = {}
        self._known: set[str] = set()
        self._turn: SearchRound | None = None

    def run(self) -> SearchOutcome:
        """Searches until there are programs enough, the budget is used up, or nothing is left to try."""
        reasons: list[Reason] = []
        found: dict[str, int] = {}
        budget = self._executor.budget
        left = PHASES
        while left and not self._executor.over and len(found) < budget.programs:
            phase = left[0]
            try:
                for text, length in self._programs(phase):
                    found.setdefault(text, length)
                    if len(found) >= budget.programs:
                        break
                reasons.append("memory" if self._executor.full else "exhausted")
            except OutOfBudget as error:
                reasons.append(error.reason)
            reached = self._turn.reached if self._turn else []
            if found and not reached:
                break
            left = resumed(phase) if reached else left[1:]
        impl = next(iter(found), None)
        return SearchOutcome(
            impl,
            None if found else max(reasons or ["time"], key=_GRAVEST.index),
            time.monotonic() - self._start[0],
            time.process_time() - self._start[1],
            self._executor.candidates,
            len(self._refused),
            found[impl] if impl else None,
            tuple(found)[1:],
            missed=() if found else self._observation.landmarks.missed(),
        )

    def _programs(self, phase: Phase) -> Iterator[tuple[str, int]]:
        """Programs of one round that pass the verifier, each with its number of primitives besides Copies."""
        types, depth = phase.types, phase.depth
        if types not in self._tables:
            space = TypeSpace(self._instance.scope, types.spare)
            self._tables[types] = (
                RuleTable(space, types.invented, self._executor.meet),
                InvertibleOperands(self._executor),
            )
        table, invertible = self._tables[types]
        self._executor.enter(table.space, depth.share)
        self._turn = None
        turn = self._turn = SearchRound(self._executor, table, depth.limits, invertible, self._seeds, self._observation)
        for program in turn.programs():
            text = print_program(program)
            if text in self._known or text in self._refused:
                continue
            if self._verifier.verify(text).passed:
                self._known.add(text)
                yield text, sum(not isinstance(node.op, Copy) for node in program.nodes)
            else:
                self._refused.add(text)


def synthesize(task: Task, budget: SearchBudget | None = None) -> SearchOutcome:
    """Searches for a program of a task, whose code runs in this process; see `session` for where it may hang.

    Args:
        task: The task.
        budget: When to give up.

    Raises:
        TaskError: The task's own code fails.
    """
    start = time.monotonic()
    with default_dtype(torch.float64):
        try:
            return BidirectionalSearch(task, budget or SearchBudget()).run()
        except OutOfBudget as error:
            return SearchOutcome(None, error.reason, time.monotonic() - start)
