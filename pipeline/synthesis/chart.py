"""A task's chart: the streams that are near its landmarks, and all the ways found to make each of them.

The enumeration runs once, and samples share what it found. A node is a stream, known by its type and its value; a
derivation makes it of others by a rule. Streams that give an output when read at its type are results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log2
from typing import NamedTuple, TypeAlias

import torch

from pipeline.synthesis.batch_execution import BatchExecutor
from pipeline.synthesis.bottom_up import Block, StreamRef
from pipeline.synthesis.fingerprints import fingerprints_of
from pipeline.synthesis.grammar import Grammar
from pipeline.synthesis.observation import Observation, least_instance
from pipeline.synthesis.phases import DECLARED, INVENTED, SPARE, RoundLimits, Types
from pipeline.synthesis.precedents import Maker, Profile, maker_of_input, nearest
from pipeline.synthesis.rules import Rule, RuleTable
from pipeline.synthesis.search_budget import OutOfBudget, SearchBudget
from pipeline.synthesis.search_round import Meeting, SearchRound
from pipeline.synthesis.terms import ProgramTerm, SeedStream, SeedStreams, Term
from pipeline.synthesis.top_down import InvertibleOperands, OutputContext, Subgoal
from pipeline.synthesis.transplants import programs_of
from pipeline.synthesis.type_space import CoercionPath, TypeId, TypeSpace
from pipeline.synthesis.value_blocks import ROWS, digests, operand
from step_runtime.base.errors import RunError, StepError
from step_runtime.base.types import StreamType
from step_runtime.execution.invocation import default_dtype
from step_runtime.primitives import Operand
from step_runtime.program.graph import Program, StreamId
from step_runtime.tasks.task import SolvedTask, Task

NodeId: TypeAlias = int

SIZE = 4_000
"""Candidates that the enumeration tries: what a sample may try lies far below."""
_SECONDS = 50.0
"""A worker's limit for a call is longer; no task of the data comes near."""
_SHOWN = 8
"""Precedents that count, the most relevant first."""
_LIMITS = tuple(
    RoundLimits(cost, 4_000, choices=True, free=free) for cost, free in ((5, True), (8, False), (12, True), (18, True))
)
_TYPES = (DECLARED, SPARE, INVENTED)
"""What the rounds of the enumeration go through, all types at each limit: nothing deeper fits into `SIZE`."""


class Derivation(NamedTuple):
    """A node made by a rule of others; `way` has the bits of the rule whatever made its operands."""

    rule: Rule
    operands: tuple[NodeId, ...]
    result: NodeId
    way: float


@dataclass(frozen=True, eq=False)
class Start:
    """A node that is there at first: an input, or a stream of a precedent's plan, with its bits."""

    node: NodeId
    term: Term
    maker: Maker | None
    bits: float


class Chart:
    """What samples of one task, shown the same solved tasks, have in common.

    Attributes:
        task: The task.
        scope: The names at the sizes of the observed data.
        space: The types that paths to outputs are found in.
        grammar: The costs of productions.
        types: The type of each node.
        starts: The nodes to start from.
        derivations: The ways to make nodes.
        uses: For each node the numbers of the derivations that it is an operand of.
        landmarks: The nodes that have a value that the reference computes.
        results: For each output the nodes that give it, each with the path to its type.

    Raises:
        TaskCodeError: The task's own code fails.
    """

    def __init__(self, task: Task, shown: Sequence[SolvedTask] = (), size: int = SIZE) -> None:
        self.task = task.without_impl()
        instance = least_instance(self.task)
        self.scope = instance.scope
        self.space = TypeSpace(self.scope)
        self._executor = BatchExecutor(instance, self.space, SearchBudget(_SECONDS, size))
        self._instance = instance
        fingerprints = fingerprints_of(self.task, self.scope.fns)
        precedents = nearest(shown, Profile.of(self.task, self.scope, [*fingerprints.values()]), _SHOWN)
        self.grammar = Grammar(self.scope, fingerprints, precedents)
        self.types: list[StreamType] = []
        self.starts: list[Start] = []
        self.derivations: list[Derivation] = []
        self.uses: list[list[int]] = []
        self.landmarks: set[NodeId] = set()
        self.results: list[dict[NodeId, CoercionPath]] = [{} for _ in self.scope.outputs]
        self._nodes: dict[tuple[StreamType, int], NodeId] = {}
        self._derived: dict[tuple[Rule, tuple[NodeId, ...]], NodeId] = {}
        self._buckets: dict[tuple[TypeId, int], list[NodeId]] = {}
        self._tables: dict[Types, tuple[RuleTable, InvertibleOperands]] = {}
        with default_dtype(torch.float64):
            self._observation = Observation(instance, self._executor)
            self._seeds = SeedStreams(self._observation.inputs)
            for stream in self._observation.inputs:
                self.starts.append(Start(self._node(stream), stream.term, maker_of_input(stream.type), 0.0))
            try:
                for program, weight in programs_of(precedents, self.task, self.scope, fingerprints):
                    for stream in streams_of(self._executor, program, self._observation.inputs):
                        self._transplant(stream, weight)
                self._enumerate()
            except OutOfBudget:
                pass

    def _transplant(self, stream: SeedStream, weight: float) -> None:
        node = self._node(stream)
        self.starts.append(Start(node, stream.term, None, 1 - 2 * log2(weight)))
        if self._observation.has_landmark(stream):
            self.landmarks.add(node)
            self._seeds.add(stream)

    def _enumerate(self) -> None:
        number = 0
        phases = [(types, limits) for limits in _LIMITS for types in _TYPES]
        while number < len(phases) and not all(self.results):
            reached = self._round(*phases[number])
            number = 0 if reached else number + 1

    def _round(self, types: Types, limits: RoundLimits) -> bool:
        """Whether one round has reached landmarks."""
        if types not in self._tables:
            space = TypeSpace(self.scope, types.spare)
            self._tables[types] = RuleTable(space, types.invented), InvertibleOperands(self._executor)
        table, invertible = self._tables[types]
        self._executor.enter(table.space, 1.0)
        turn = SearchRound(self._executor, table, limits, invertible, self._seeds, self._observation, self._made)
        self._turn, self._buckets = turn, {}
        for meeting in turn.met():
            self._met(turn, meeting)
        for stream in turn.reached:
            self.landmarks.add(self._node(stream))
        return bool(turn.reached)

    def _node(self, stream: SeedStream) -> NodeId:
        return self._numbered(stream.type, digests(stream.values).tolist())[0]

    def _numbered(self, type_: StreamType, values: Sequence[int]) -> list[NodeId]:
        found = []
        for digest in values:
            key = type_, digest
            if key not in self._nodes:
                self._nodes[key] = len(self.types)
                self.types.append(type_)
                self.uses.append([])
            found.append(self._nodes[key])
        return found

    def _bucket(self, type_: TypeId, cost: int) -> list[NodeId]:
        """The nodes of a bucket of the round; it is full when it is first asked for."""
        key = type_, cost
        if key not in self._buckets:
            values = self._turn.bottom_up.buckets[type_][cost].values
            self._buckets[key] = self._numbered(self._executor.space.types[type_], digests(values).tolist())
        return self._buckets[key]

    def _made(self, block: Block) -> None:
        rule, costs, rows = block.derivation
        results = self._numbered(self._executor.space.types[block.type], digests(block.values).tolist())
        sources = [self._bucket(path.source, cost) for path, cost in zip(rule.operands, costs, strict=True)]
        columns = [[nodes[row] for row in at.tolist()] for nodes, at in zip(sources, rows, strict=True)]
        for result, operands in zip(results, zip(*columns, strict=True), strict=True):
            self._derive(rule, operands, result)

    def _derive(self, rule: Rule, operands: tuple[NodeId, ...], result: NodeId) -> None:
        if (rule, operands) in self._derived:
            return
        self._derived[rule, operands] = result
        if result in operands:
            return
        number = len(self.derivations)
        for node in {*operands}:
            self.uses[node].append(number)
        self.derivations.append(Derivation(rule, operands, result, self.grammar.way(rule)))

    def _met(self, turn: SearchRound, meeting: Meeting) -> None:
        """Adds what leads from a stream to an output."""
        made = meeting.stream
        if isinstance(made, StreamRef):
            node = self._ref(made)
        else:
            node = self._derived[made.rule, tuple(map(self._ref, made.operands))]
        context = turn.top_down.context(meeting.subgoal)
        while not isinstance(context, OutputContext):
            operands = [self._ref(other) for other in context.others]
            operands.insert(context.hole, node)
            node = self._goal(turn, context.wanted)
            self._derive(context.rule, tuple(operands), node)
            context = turn.top_down.context(context.wanted)
        self.results[context.output].setdefault(node, context.path)

    def _goal(self, turn: SearchRound, wanted: Subgoal) -> NodeId:
        goals = turn.top_down.sets[wanted.set]
        values = goals.values[wanted.row : wanted.row + 1]
        return self._numbered(self._executor.space.types[goals.type], digests(values).tolist())[0]

    def _ref(self, stream: StreamRef) -> NodeId:
        return self._bucket(stream.type, stream.cost)[stream.row]


def streams_of(executor: BatchExecutor, program: Program, inputs: Sequence[SeedStream]) -> Iterator[SeedStream]:
    """The streams that a program's functions make, up to the first primitive that fails.

    Raises:
        OutOfBudget: The time is up.
    """
    streams: dict[StreamId, Operand] = {
        place: operand(stream.type, executor.layout(stream.type), stream.values) for place, stream in enumerate(inputs)
    }
    for node in program.nodes:
        executor.spend(1 if node.op.functions() else 0)
        if any(stream not in streams for stream in node.inputs):
            continue
        try:
            made = executor.add(node.op, *(streams[stream] for stream in node.inputs))
        except RunError as error:
            if error.code == "time-limit":
                raise OutOfBudget("clock") from None
            return
        except StepError:
            return
        streams |= zip(node.outputs, made, strict=True)
        for number, result in zip(node.outputs, made, strict=True):
            *shape, rows = result.type.shape
            # A routed stream has one dim, in which the rows of a block are no longer apart.
            if node.op.functions() and rows == ROWS:
                type_ = StreamType(result.type.dtype, tuple(shape))
                values = executor.layout(type_).pack(tuple(result.data), 1)
                yield SeedStream(type_, values, ProgramTerm(program, number), 1)
