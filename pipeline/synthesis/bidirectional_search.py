"""Classical synthesis: bottom-up and top-down enumeration that meet at a value, checked by the verifier.

It runs the task's functions and its reference, which no proposer may: a baseline, and no language model.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from pipeline.synthesis.batch_execution import BatchExecutor
from pipeline.synthesis.draft_streams import draft_streams
from pipeline.synthesis.landmarks import landmarks_of
from pipeline.synthesis.rules import Rulebook
from pipeline.synthesis.search_budget import FoundProgram, OutOfBudget, Reason, SearchBudget, SearchOutcome
from pipeline.synthesis.search_round import Given, SearchRound
from pipeline.synthesis.terms import InputTerm
from pipeline.synthesis.top_down import Holes
from pipeline.synthesis.type_space import TypeSpace
from pipeline.synthesis.value_blocks import sane
from step_runtime.base.types import StreamType
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


class _Phase(NamedTuple):
    """What a part of the search leaves out.

    Attributes:
        spare: How much oftener a dim may occur than in a declared type.
        once: As of `BottomUp`.
        share: The share of the budget at which the phase ends.
    """

    spare: int
    once: bool
    share: float


_PHASES = (_Phase(0, True, 0.3), _Phase(1, True, 0.6), _Phase(0, False, 0.9), _Phase(1, False, 1.0))
_GRAVEST: tuple[Reason, ...] = ("exhausted", "memory", "candidates", "time", "crashed")
"""Of the reasons of several phases, the last in this order counts."""
_LEAST_BEYOND = 20_000
"""The candidates up to which a search goes on at least, if more than one program is wanted."""


class BidirectionalSearch:
    """One task's search, in rounds: each starts from the landmarks that those before have reached.

    Its phases differ in what they leave out at first; each has a share of the budget.
    """

    def __init__(self, task: Task, budget: SearchBudget, drafts: Sequence[str] = ()) -> None:
        self._start = time.monotonic(), time.process_time()
        self._task = task.without_impl()
        self._verifier = Verifier(self._task)
        self._instance = min(instances(self._task), key=_numbers)
        self._executor = BatchExecutor(self._instance, TypeSpace(self._instance.scope), budget)
        self._landmarks = landmarks_of(self._instance, SEED)
        self._wanted, self._given = self._observed()
        self._given += draft_streams(self._executor, drafts, self._given)
        usual = all(bool(sane(value).all()) for value in self._wanted)
        self._sane_only = usual and self._landmarks.finite
        self._refused: set[str] = set()
        self._books: dict[int, tuple[Rulebook, Holes]] = {}
        self._turn: SearchRound | None = None

    def _observed(self) -> tuple[list[Tensor], list[Given]]:
        """The outputs' values, and the inputs."""
        data, scope = self._instance.sample_inputs(SEED), self._instance.scope
        wanted = [
            self._executor.layout(type_).pack(parts, 1)
            for type_, parts in zip(scope.outputs, self._instance.reference(), strict=True)
        ]
        typed = zip(scope.inputs.values(), data.values(), strict=True)
        return wanted, [
            Given(type_, self._executor.layout(type_).pack(parts, 1), InputTerm(place), 0)
            for place, (type_, parts) in enumerate(typed)
        ]

    def run(self) -> SearchOutcome:
        """Searches until there are programs enough, the budget is used up, or nothing is left to try."""
        reasons: list[Reason] = []
        found: dict[str, int] = {}
        budget = self._executor.budget
        for phase in _PHASES:
            try:
                for text, length in self._programs(phase):
                    found.setdefault(text, length)
                    if len(found) >= budget.programs:
                        break
                    if len(found) == 1 and not budget.thorough:
                        self._executor.limit_candidates(max(2 * self._executor.candidates, _LEAST_BEYOND))
                reasons.append("memory" if self._executor.full else "exhausted")
            except OutOfBudget as error:
                reasons.append(error.reason)
            if found:
                break
        impl = next(iter(found), None)
        return SearchOutcome(
            impl,
            None if found else max(reasons, key=_GRAVEST.index),
            time.monotonic() - self._start[0],
            time.process_time() - self._start[1],
            self._executor.candidates,
            self._turn.distinct if self._turn else 0,
            self._turn.subgoals if self._turn else 0,
            len(self._refused),
            found[impl] if impl else None,
            self._front(list(found)),
        )

    def _programs(self, phase: _Phase) -> Iterator[tuple[str, int]]:
        """Programs that pass the verifier, each with its number of primitives besides Copies."""
        book, holes = self._rules(phase)
        known = set[str]()
        while True:
            turn = self._turn = SearchRound(
                self._executor,
                book,
                holes,
                self._given,
                self._wanted,
                self._landmarks,
                sane_only=self._sane_only,
                once=phase.once,
            )
            try:
                for program in turn.programs():
                    text = print_program(program)
                    if text in known or text in self._refused:
                        continue
                    if self._verifier.verify(text).passed:
                        known.add(text)
                        yield text, sum(not isinstance(node.op, Copy) for node in program.nodes)
                    else:
                        self._refused.add(text)
            finally:
                self._given += turn.reached
            if not turn.reached:
                return
            self._executor.forget()

    def _rules(self, phase: _Phase) -> tuple[Rulebook, Holes]:
        """The rules of a phase, listed once for all phases of the same types."""
        if phase.spare not in self._books:
            space = TypeSpace(self._instance.scope, phase.spare)
            self._executor.enter(space, phase.share)
            book = Rulebook(space, self._wanted_type, lambda: self._executor.spend(0))
            self._books[phase.spare] = book, Holes(self._executor, book)
        book, holes = self._books[phase.spare]
        self._executor.enter(book.space, phase.share)
        return book, holes

    def _wanted_type(self, type_: StreamType) -> bool:
        return self._landmarks.wanted(self._executor.layout(type_))

    def _front(self, texts: Sequence[str]) -> tuple[FoundProgram, ...]:
        """The programs that no other beats."""
        if not texts:
            return ()
        costs = TaskCosts(self._task)
        priced = [FoundProgram(text, costs.price(text, formulas=False).cost.figures()) for text in texts]
        return tuple(pareto_front(priced, lambda program: program.figures, "memory"))


def synthesize(task: Task, budget: SearchBudget | None = None, drafts: Sequence[str] = ()) -> SearchOutcome:
    """Searches for a program of a task, whose code runs in this process; see `session` for where it may hang.

    Args:
        task: The task.
        budget: When to give up.
        drafts: Failed programs, whose streams the search may use.

    Raises:
        TaskError: The task's own code fails.
    """
    start = time.monotonic()
    with default_dtype(torch.float64):
        try:
            return BidirectionalSearch(task, budget or SearchBudget(), drafts).run()
        except OutOfBudget as error:
            return SearchOutcome(None, error.reason, time.monotonic() - start)


def _numbers(instance: TaskInstance) -> int:
    """Numbers in all inputs."""
    return sum(part.numel() for parts in instance.sample_inputs(SEED).values() for part in parts)
