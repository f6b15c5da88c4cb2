"""Classical synthesis: bottom-up and top-down enumeration that meet at a value, checked by the verifier.

It runs the task's functions and its reference, which no proposer may: a baseline, and no language model.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from pipeline.synthesis.batch_execution import BatchExecutor
from pipeline.synthesis.draft_streams import draft_streams
from pipeline.synthesis.observation import Observation, least_instance
from pipeline.synthesis.rulebook import RoundLimits
from pipeline.synthesis.rules import RuleTable
from pipeline.synthesis.search_budget import FoundProgram, OutOfBudget, Reason, SearchBudget, SearchOutcome
from pipeline.synthesis.search_round import SearchRound
from pipeline.synthesis.seed_streams import SeedStreams
from pipeline.synthesis.top_down import InvertibleOperands
from pipeline.synthesis.type_space import TypeSpace
from step_runtime.cost.front import pareto_front
from step_runtime.execution.invocation import default_dtype
from step_runtime.primitives import Copy
from step_runtime.program.printer import print_program
from step_runtime.tasks.task import Task
from step_runtime.verification.task_costs import TaskCosts
from step_runtime.verification.verify import Verifier


class _Phase(NamedTuple):
    """What a part of the search leaves out.

    Attributes:
        spare: How much oftener a dim may occur than in a declared type.
        invented: The dims that elements may have and their stream lacks.
        limits: How far its rounds go.
        share: The share of the whole budget that a round may use.
    """

    spare: int
    invented: int
    limits: RoundLimits
    share: float


_PHASES = (
    _Phase(0, 0, RoundLimits(5, 4_000, False, free=True), 0.04),
    _Phase(0, 0, RoundLimits(8, 16_000, False), 0.12),
    _Phase(1, 0, RoundLimits(6, 4_000, False, free=True), 0.06),
    _Phase(0, 0, RoundLimits(11, 8_000, True), 0.1),
    _Phase(0, 0, RoundLimits(8, 16_000, False, free=True), 0.08),
    _Phase(1, 0, RoundLimits(9, 8_000, False), 0.12),
    _Phase(0, 1, RoundLimits(10, 4_000, True), 0.05),
    _Phase(0, 0, RoundLimits(14, 8_000, True), 0.1),
    _Phase(1, 0, RoundLimits(12, 8_000, True), 0.1),
    _Phase(0, 0, RoundLimits(12, 8_000, False), 0.1),
    _Phase(0, 1, RoundLimits(14, 8_000, True, once=False), 0.1),
    _Phase(0, 1, RoundLimits(18, 16_000, True, once=False), 0.2),
    _Phase(1, 1, RoundLimits(18, 16_000, True, once=False), 0.2),
    _Phase(1, 1, RoundLimits(24, 30_000, True), 0.2),
    _Phase(0, 1, RoundLimits(40, 30_000, True, once=False), 1.0),
    _Phase(1, 1, RoundLimits(40, 30_000, True, once=False), 1.0),
)
_WITH_DRAFTS = 6
"""The phase from which on all streams of drafts are started from: they are many."""
_GRAVEST: tuple[Reason, ...] = ("exhausted", "memory", "candidates", "time", "crashed")
"""Of the reasons of several phases, the last in this order counts."""
_LEAST_BEYOND = 20_000
"""The candidates up to which a search continues at least, if more than one program is wanted."""


class BidirectionalSearch:
    """One task's search, in rounds: each starts from the landmarks that those before have reached.

    Its phases differ in what they leave out at first; each has a share of the budget.
    """

    def __init__(self, task: Task, budget: SearchBudget, drafts: Sequence[str] = ()) -> None:
        self._start = time.monotonic(), time.process_time()
        self._task = task.without_impl()
        self._verifier = Verifier(self._task)
        self._instance = least_instance(self._task)
        self._executor = BatchExecutor(self._instance, TypeSpace(self._instance.scope), budget)
        self._observation = Observation(self._instance, self._executor)
        self._seeds = SeedStreams(self._observation.inputs)
        self._drafted = draft_streams(self._executor, drafts, self._observation.inputs)
        self._take_drafted(near=True)
        self._refused: set[str] = set()
        self._tables: dict[tuple[int, int], tuple[RuleTable, InvertibleOperands]] = {}
        self._known: set[str] = set()
        self._turn: SearchRound | None = None

    def _take_drafted(self, *, near: bool) -> None:
        """Starts from streams of drafts, too: first from those with landmarks, later from all."""
        later = []
        for stream in self._drafted:
            if not near or self._observation.has_landmark(stream):
                self._seeds.add(stream)
            else:
                later.append(stream)
        self._drafted = later

    def run(self) -> SearchOutcome:
        """Searches until there are programs enough, the budget is used up, or nothing is left to try."""
        reasons: list[Reason] = []
        found: dict[str, int] = {}
        budget = self._executor.budget
        phase = 0
        while phase < len(_PHASES) and not self._executor.over and len(found) < budget.programs:
            try:
                for text, length in self._programs(_PHASES[phase]):
                    found.setdefault(text, length)
                    if len(found) >= budget.programs:
                        break
                    if len(found) == 1 and not budget.thorough:
                        self._executor.limit_candidates(max(2 * self._executor.candidates, _LEAST_BEYOND))
                reasons.append("memory" if self._executor.full else "exhausted")
            except OutOfBudget as error:
                reasons.append(error.reason)
            reached = self._turn.reached if self._turn else []
            if found and not reached:
                break
            phase = 0 if reached else phase + 1
            if phase == _WITH_DRAFTS:
                self._take_drafted(near=False)
        impl = next(iter(found), None)
        return SearchOutcome(
            impl,
            None if found else max(reasons or ["time"], key=_GRAVEST.index),
            time.monotonic() - self._start[0],
            time.process_time() - self._start[1],
            self._executor.candidates,
            self._turn.distinct if self._turn else 0,
            self._turn.subgoals if self._turn else 0,
            len(self._refused),
            found[impl] if impl else None,
            self._front(list(found)),
            missed=() if found else self._observation.landmarks.missed(),
        )

    def _programs(self, phase: _Phase) -> Iterator[tuple[str, int]]:
        """Programs of one round that pass the verifier, each with its number of primitives besides Copies."""
        kind = phase.spare, phase.invented
        if kind not in self._tables:
            space = TypeSpace(self._instance.scope, phase.spare)
            self._tables[kind] = RuleTable(space, phase.invented), InvertibleOperands(self._executor)
        table, invertible = self._tables[kind]
        self._executor.enter(table.space, phase.share)
        self._turn = None
        turn = self._turn = SearchRound(
            self._executor,
            table,
            phase.limits,
            invertible,
            self._seeds,
            self._observation,
        )
        for program in turn.programs():
            text = print_program(program)
            if text in self._known or text in self._refused:
                continue
            if self._verifier.verify(text).passed:
                self._known.add(text)
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
