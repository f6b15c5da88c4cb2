"""Classical synthesis: bottom-up and top-down enumeration that meet at a value, checked by the verifier.

It runs the task's functions and its reference, which no proposer may: a baseline, and no language model.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import islice, product

import torch
from torch import Tensor

from pipeline.synthesis.assembly import Assembler, Meeting
from pipeline.synthesis.batch_execution import BatchExecutor
from pipeline.synthesis.bottom_up import Block, BottomUp, StreamRef
from pipeline.synthesis.rules import Rulebook
from pipeline.synthesis.search_budget import FoundProgram, OutOfBudget, Reason, SearchBudget, SearchOutcome
from pipeline.synthesis.top_down import Subgoal, TopDown
from pipeline.synthesis.type_space import TypeId, TypeSpace
from pipeline.synthesis.value_blocks import ValueIndex, sane
from step_runtime.cost.front import pareto_front
from step_runtime.execution.invocation import default_dtype
from step_runtime.primitives import Copy
from step_runtime.program.printer import print_program
from step_runtime.tasks.task import Task
from step_runtime.verification.costing import TaskCosts
from step_runtime.verification.instance import TaskInstance, instances
from step_runtime.verification.verify import Verifier

SEED = 0
"""The seed of the data on which values are observed; the verifier also uses others."""
_MOST_TOGETHER = 64
"""The most programs tried for an additional way to an output, if a task has several outputs."""
_LEAST_BEYOND = 20_000
"""The candidates up to which a search goes on at least, if more than one program is wanted."""


class BidirectionalSearch:
    """One task's search."""

    def __init__(self, task: Task, budget: SearchBudget) -> None:
        self._start = time.monotonic(), time.process_time()
        self._task = task.without_impl()
        self._verifier = Verifier(self._task)
        instance = min(instances(self._task), key=_numbers)
        self._space = TypeSpace(instance.scope)
        self._executor = BatchExecutor(instance, self._space, budget)
        self._book = Rulebook(self._space)
        self._wanted, inputs = self._observed(instance)
        usual = all(bool(sane(value).all()) for value in self._wanted)
        self._bottom_up = BottomUp(self._executor, self._book, inputs, sane_only=usual)
        self._top_down = TopDown(self._executor, self._book, self._bottom_up.buckets)
        self._assembler = Assembler(self._space, self._bottom_up, self._top_down)
        self._streams: dict[TypeId, tuple[ValueIndex, list[int]]] = {
            type_: (ValueIndex(), []) for type_ in self._book.types
        }
        self._ways: list[list[Meeting]] = [[] for _ in self._wanted]
        self._refused: set[str] = set()

    def _observed(self, instance: TaskInstance) -> tuple[list[Tensor], dict[TypeId, Tensor]]:
        """The outputs' values, and those of the inputs by type."""
        data = instance.sample_inputs(SEED)
        wanted = []
        for type_, parts in zip(self._space.outputs, instance.reference(), strict=True):
            wanted.append(self._executor.layout(self._space.types[type_]).pack(parts, 1))
        inputs: dict[TypeId, list[Tensor]] = {}
        for type_, parts in zip(self._space.inputs, data.values(), strict=True):
            inputs.setdefault(type_, []).append(self._executor.layout(self._space.types[type_]).pack(parts, 1))
        return wanted, {type_: torch.cat(values) for type_, values in inputs.items()}

    def run(self) -> SearchOutcome:
        """Searches until there are programs enough, the budget is used up, or nothing is left to try."""
        reason: Reason | None = "exhausted"
        found: dict[str, int] = {}
        budget = self._executor.budget
        try:
            for text, length in self._programs():
                found[text] = length
                if len(found) == budget.programs:
                    break
                if len(found) == 1 and not budget.thorough:
                    self._executor.limit_candidates(max(2 * self._executor.candidates, _LEAST_BEYOND))
            if self._executor.full:
                reason = "memory"
        except OutOfBudget as error:
            reason = error.reason
        impl = next(iter(found), None)
        buckets = [bucket for by_cost in self._bottom_up.buckets.values() for bucket in by_cost.values()]
        return SearchOutcome(
            impl,
            None if found else reason,
            time.monotonic() - self._start[0],
            time.process_time() - self._start[1],
            self._executor.candidates,
            sum(len(bucket.values) for bucket in buckets),
            sum(len(goals.values) for goals in self._top_down.sets),
            len(self._refused),
            found[impl] if impl else None,
            self._front(list(found)),
        )

    def _programs(self) -> Iterator[tuple[str, int]]:
        """Distinct programs that pass the verifier, each with its number of primitives besides Copies."""
        known = set[str]()
        for meetings in self._meetings():
            program = self._assembler.program(meetings)
            text = print_program(program)
            if text in known or text in self._refused:
                continue
            if self._verifier.verify(text).passed:
                known.add(text)
                yield text, sum(not isinstance(node.op, Copy) for node in program.nodes)
            else:
                self._refused.add(text)

    def _front(self, texts: Sequence[str]) -> tuple[FoundProgram, ...]:
        """The programs that no other beats."""
        if not texts:
            return ()
        costs = TaskCosts(self._task)
        priced = [FoundProgram(text, costs.price(text, formulas=False).cost.figures()) for text in texts]
        return tuple(pareto_front(priced, lambda program: program.figures, "memory"))

    def _meetings(self) -> Iterator[tuple[Meeting, ...]]:
        """A meeting for every output, in all ways found."""
        for meeting in self._found():
            output = self._assembler.output(meeting.subgoal)
            others = [ways if place != output else [meeting] for place, ways in enumerate(self._ways)]
            self._ways[output].append(meeting)
            yield from islice(product(*others), _MOST_TOGETHER)

    def _found(self) -> Iterator[Meeting]:
        """Where streams and subgoals meet, in turns: the side that has tried fewer candidates continues."""
        for output, value in enumerate(self._wanted):
            before = len(self._top_down.sets)
            self._top_down.add_output(output, value)
            for number in range(before, len(self._top_down.sets)):
                yield from self._met_from_above(number)
        for type_ in dict.fromkeys(self._space.inputs):
            yield from self._filled(type_, 0)
        spent = {"up": 0, "down": 0}
        bottom_up = self._bottom_up.run(self._book.remaining(self._space.outputs))
        ended = False
        while not (ended and self._top_down.idle):
            before = self._executor.candidates
            down = ended or (not self._top_down.idle and spent["down"] <= spent["up"])
            if down:
                new = self._top_down.step()
                if new is not None:
                    yield from self._met_from_above(new)
            else:
                made = next(bottom_up, None)
                ended = made is None
                if isinstance(made, Block):
                    for row, subgoal in self._top_down.find(made.type, made.values):
                        yield Meeting(made.derivation.made(row), subgoal)
                elif made is not None:
                    yield from self._filled(*made)
            spent["down" if down else "up"] += self._executor.candidates - before

    def _filled(self, type_: TypeId, cost: int) -> Iterator[Meeting]:
        """Makes a full bucket known; inputs meet subgoals here, other streams when they are made."""
        bucket = self._bottom_up.buckets[type_][cost]
        index, costs = self._streams[type_]
        index.add(bucket.values)
        costs.append(cost)
        if not cost:
            for row, subgoal in self._top_down.find(type_, bucket.values):
                yield Meeting(StreamRef(type_, cost, row), subgoal)
        self._top_down.offer(type_, cost)

    def _met_from_above(self, number: int) -> Iterator[Meeting]:
        goals = self._top_down.sets[number]
        index, costs = self._streams[goals.type]
        for row, block, other in index.find(goals.values):
            yield Meeting(StreamRef(goals.type, costs[block], other), Subgoal(number, row))


def synthesize(task: Task, budget: SearchBudget | None = None) -> SearchOutcome:
    """Searches for a program of a task, whose code runs in this process; see `session` for where it may hang.

    Raises:
        TaskError: The task's own code fails.
    """
    start = time.monotonic()
    with default_dtype(torch.float64):
        try:
            return BidirectionalSearch(task, budget or SearchBudget()).run()
        except OutOfBudget as error:
            return SearchOutcome(None, error.reason, time.monotonic() - start)


def _numbers(instance: TaskInstance) -> int:
    """Numbers in all inputs."""
    return sum(part.numel() for parts in instance.sample_inputs(SEED).values() for part in parts)
