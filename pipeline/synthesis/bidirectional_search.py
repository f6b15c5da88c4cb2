"""Classical synthesis: bottom-up and top-down enumeration that meet at a value, checked by the verifier.

It runs the task's functions and its reference, which no proposer may: a baseline, and no language model.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import torch

from pipeline.synthesis.batch_execution import BatchExecutor
from pipeline.synthesis.observation import Observation, least_instance
from pipeline.synthesis.phases import PHASES, Phase, Types, resumed
from pipeline.synthesis.rules import RuleTable, SeedStreams
from pipeline.synthesis.search_budget import OutOfBudget, Reason, SearchBudget, SearchOutcome
from pipeline.synthesis.search_round import SearchRound
from pipeline.synthesis.top_down import InvertibleOperands
from pipeline.synthesis.type_space import TypeSpace
from step_runtime.execution.invocation import default_dtype
from step_runtime.primitives import Copy
from step_runtime.program.printer import print_program
from step_runtime.tasks.task import Task
from step_runtime.verification.verify import Verifier

_GRAVEST: tuple[Reason, ...] = ("exhausted", "memory", "candidates", "time", "clock", "crashed")
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
