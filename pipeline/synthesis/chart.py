"""A task's chart: the streams that are near its landmarks, and all the ways found to make each of them.

The enumeration runs once, and samples share what it found. A node is a stream, known by its type and its value; a
derivation makes it of others by a rule. Streams that give an output when read at its type are results.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log2
from random import Random
from typing import NamedTuple, TypeAlias

import torch

from pipeline.synthesis.bidirectional_search import DECLARED, INVENTED, SPARE, Meeting, SearchRound, Types
from pipeline.synthesis.bottom_up import BatchExecutor, Block, StreamRef
from pipeline.synthesis.grammar import Grammar
from pipeline.synthesis.observation import Observation, least_instance
from pipeline.synthesis.precedents import Maker, Profile, fingerprints_of, maker_of_input, nearest
from pipeline.synthesis.rules import (
    ProgramBuilder,
    ProgramTerm,
    RoundLimits,
    Rule,
    RuleTable,
    RuleTerm,
    SeedStream,
    SeedStreams,
    Term,
    TermWriter,
    follow,
    tidy,
)
from pipeline.synthesis.search_budget import OutOfBudget, SearchBudget
from pipeline.synthesis.top_down import InvertibleOperands, OutputContext, Subgoal
from pipeline.synthesis.transplants import programs_of
from pipeline.synthesis.type_space import CoercionPath, TypeId, TypeSpace
from pipeline.synthesis.value_blocks import ROWS, digests, operand
from step_runtime.base.errors import RunError, StepError
from step_runtime.base.functions import Fn
from step_runtime.base.types import StreamType
from step_runtime.execution.invocation import default_dtype
from step_runtime.primitives import Operand
from step_runtime.program.graph import Program, StreamId
from step_runtime.program.printer import print_program
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


_NOISE = 0.3
"""Bits of noise at temperature 1: a derivation has some noise of its own at each step, and a program has many steps."""


def sample(chart: Chart, candidates: int, temperature: float, seed: int) -> str | None:
    """A program's text: one that gives the outputs on the observed data, else the nearest; None if types allow none.

    Args:
        chart: What is known of the task.
        candidates: Streams that may be tried between one landmark and the next.
        temperature: The scale of the noise; 0 for none.
        seed: Of the noise.
    """
    return _Sample(chart, candidates, temperature, Random(seed)).program()


class _Sample:
    def __init__(self, chart: Chart, candidates: int, temperature: float, random: Random) -> None:
        self._chart, self._candidates = chart, candidates
        self._temperature, self._random = temperature, random
        self._costs: dict[NodeId, float] = {}
        self._made: dict[NodeId, Derivation | Start] = {}
        self._fns: dict[NodeId, frozenset[Fn]] = {}
        self._served: frozenset[Fn] = frozenset()
        self._used: set[NodeId] = set()
        self._open: list[tuple[float, int, Derivation | Start, float]] = []
        self._pushed = 0
        self.tried = 0

    def program(self) -> str | None:
        """The program's text."""
        results: list[NodeId | None] = [None] * len(self._chart.results)
        for start in self._chart.starts:
            self._push(start, start.bits)
        left = self._candidates
        while self._open and left >= 0 and None in results:
            cost, _, way, repeated = heapq.heappop(self._open)
            node = way.node if isinstance(way, Start) else way.result
            if node in self._costs:
                continue
            if isinstance(way, Derivation) and (now := self._repeated(way)) > repeated:
                # A landmark has been reached since.
                self._enter(way, cost + now - repeated, now)
                continue
            self._reach(node, cost, way)
            if not (isinstance(way, Start) and not way.bits):
                left -= 1
                self.tried += 1
            if node in self._chart.landmarks:
                left = self._candidates
                self._served |= self._fns[node]
                self._use(node)
            for output, nodes in enumerate(self._chart.results):
                if results[output] is None and node in nodes:
                    results[output] = node
        return self._written(results)

    def _reach(self, node: NodeId, cost: float, way: Derivation | Start) -> None:
        self._costs[node] = 0.0 if node in self._chart.landmarks else cost
        self._made[node] = way
        if isinstance(way, Start):
            self._fns[node] = frozenset()
        else:
            self._fns[node] = frozenset((way.rule.fn,)).union(*(self._fns[operand] for operand in way.operands))
        for number in self._chart.uses[node]:
            derivation = self._chart.derivations[number]
            if derivation.result not in self._costs and all(operand in self._costs for operand in derivation.operands):
                self._push(derivation, self._cost(derivation))

    def _cost(self, derivation: Derivation) -> float:
        makers = tuple(self._maker(operand) for operand in derivation.operands)
        bits = derivation.way + self._chart.grammar.operands(derivation.rule, makers)
        return sum(self._costs[operand] for operand in derivation.operands) + bits

    def _maker(self, node: NodeId) -> Maker:
        way = self._made[node]
        return (way.maker or ()) if isinstance(way, Start) else self._chart.grammar.maker(way.rule)

    def _push(self, way: Derivation | Start, cost: float) -> None:
        """Lists a way to make a stream, with its noise; inputs are there at once."""
        repeated = self._repeated(way) if isinstance(way, Derivation) else 0.0
        if self._temperature and cost:
            cost += _NOISE * self._temperature * math.log(-math.log(self._random.random() or 0.5))
        self._enter(way, cost + repeated, repeated)

    def _repeated(self, derivation: Derivation) -> float:
        """Bits for applying a function again, and for operands that have led to a landmark already."""
        rule, grammar = derivation.rule, self._chart.grammar
        again = rule.fn in self._served or any(rule.fn in self._fns[operand] for operand in derivation.operands)
        bits = grammar.repetition(rule) if again else 0.0
        used = [place for place, operand in enumerate(derivation.operands) if operand in self._used]
        return bits + sum(grammar.reuse(rule, place) for place in used)

    def _use(self, landmark: NodeId) -> None:
        """Marks what the landmark was made of as used."""
        open_ = [landmark]
        while open_:
            way = self._made[open_.pop()]
            if isinstance(way, Derivation):
                self._used.update(way.operands)
                open_ += [operand for operand in way.operands if operand not in self._chart.landmarks]

    def _enter(self, way: Derivation | Start, cost: float, repeated: float) -> None:
        self._pushed += 1
        heapq.heappush(self._open, (cost, self._pushed, way, repeated))

    def _written(self, results: list[NodeId | None]) -> str | None:
        """The text of the program with these results; where one is missing, the last stream made that has its type."""
        chart = self._chart
        writer = TermWriter(ProgramBuilder(chart.scope))
        streams = []
        for output, node in enumerate(results):
            found = (node, chart.results[output][node]) if node is not None else self._nearest(output)
            if found is None:
                return None
            streams.append(follow(writer.builder, found[1], writer.stream(self._term(found[0], {}))))
        return print_program(tidy(writer.builder.program(tuple(streams))))

    def _nearest(self, output: int) -> tuple[NodeId, CoercionPath] | None:
        space, goal = self._chart.space, self._chart.scope.outputs[output]
        for node in reversed(self._costs):
            path = space.path(space.intern(self._chart.types[node]), goal)
            if path is not None:
                return node, path
        return None

    def _term(self, node: NodeId, known: dict[NodeId, Term]) -> Term:
        if node not in known:
            way = self._made[node]
            if isinstance(way, Start):
                known[node] = way.term
            else:
                known[node] = RuleTerm(way.rule, tuple(self._term(operand, known) for operand in way.operands))
        return known[node]
