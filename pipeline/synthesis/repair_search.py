"""Repairs of failed programs: a bounded search around them, judged by the real verifier.

It starts from the plans of the nearest failures and tries edits in the order of their number and kind, those of plans
that got further first. Lowering a plan inserts the structural primitives that types ask for, so that failures of type
and shape are repaired at once; failures of value need edits. It runs what it tries: no proposer may.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from pipeline.synthesis.edits import Editor
from pipeline.synthesis.outlines import outlines
from pipeline.synthesis.plans import NotAPlan, Plan, PlanLowering, plan_of
from pipeline.synthesis.search_budget import Reason, RepairOutcome
from step_runtime.base.errors import STAGES, Diagnostic, RuleError
from step_runtime.language.parser import parse
from step_runtime.program.printer import print_program
from step_runtime.tasks.task import Task
from step_runtime.verification.verify import Verdict, Verifier

_MOST_OPEN = 200_000
"""Plans that may wait: some hundred megabytes."""
_FARTHER = 0.4
"""What a plan's edits cost less for each stage, or output, that it got further than another."""
_DEEPEST = 4
"""Edits from a failed program: beyond, a search from nothing is faster."""
_LATER = 0.1
"""What each program costs more than the one before it: the nearest come first."""
_OUTLINED = 1.0
"""What an outline costs more than a failed program."""
_OUTLINE = "all functions in the order of the task file"


@dataclass(order=True)
class _Open:
    priority: float
    number: int
    make: Callable[[], Plan] = field(compare=False)
    edits: tuple[str, ...] = field(compare=False)
    origin: str = field(compare=False)


class RepairSearch:
    """One task's search."""

    def __init__(self, task: Task, seconds: float) -> None:
        self._start = time.monotonic()
        self._deadline = self._start + seconds
        self._task = task.without_impl()
        self._verifier = Verifier(self._task, remember=False)
        scopes = self._verifier.scopes
        self._scope = scopes[0]
        self._lowering, self._editor = PlanLowering(self._scope), Editor(self._scope)
        self._open: list[_Open] = []
        self._number = itertools.count()
        self._tried: set[str] = set()
        self._plans: set[Plan] = set()

    def run(self, failures: Sequence[str]) -> RepairOutcome:
        """Searches around failed programs, the nearest first."""
        for place, text in enumerate(failures):
            program, _ = parse(text, self._scope)
            self._tried.add(text)
            try:
                plan = plan_of(program, self._scope)
            except NotAPlan:
                continue
            self._push(_LATER * place, partial(replace, plan), (), text)
        for place, outline in enumerate(outlines(self._scope)):
            self._push(_OUTLINED + _LATER * place, partial(replace, outline), (_OUTLINE,), "")
        while self._open:
            if time.monotonic() > self._deadline:
                return self._failed("time")
            outcome = self._try(heapq.heappop(self._open))
            if outcome is not None:
                return outcome
        return self._failed("exhausted")

    def _try(self, tried: _Open) -> RepairOutcome | None:
        """The outcome, if a plan's program passes; else the edits of the plan are to be tried."""
        plan, progress = tried.make(), 0
        if plan in self._plans or not plan.ordered:
            return None
        self._plans.add(plan)
        text, resolved = self._lowered(plan)
        if text is not None and text not in self._tried:
            self._tried.add(text)
            verdict = self._verifier.verify(text)
            if verdict.passed:
                what = tried.edits or ("structural primitives as types ask for them",)
                return RepairOutcome(text, None, self._seconds, len(self._tried), tried.origin, what)
            progress = self._progress(verdict)
        self._expand(tried, plan, progress)
        if resolved != plan and resolved not in self._plans:
            self._plans.add(resolved)
            self._expand(tried, resolved, progress)
        return None

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._start

    def _failed(self, reason: Reason) -> RepairOutcome:
        return RepairOutcome(None, reason, self._seconds, len(self._tried))

    def _lowered(self, plan: Plan) -> tuple[str | None, Plan]:
        """A plan's program, if it has one, and the plan with the shapes that came out."""
        try:
            program, resolved = self._lowering.program(plan)
        except (RuleError, ValueError):
            return None, plan
        return print_program(program), resolved

    def _expand(self, tried: _Open, plan: Plan, progress: int) -> None:
        if len(tried.edits) == _DEEPEST or len(self._open) > _MOST_OPEN:
            return
        base = max(tried.priority, 0.0) - _FARTHER * progress
        for edit in self._editor.edits(plan):
            self._push(base + edit.cost, edit.make, (*tried.edits, edit.what), tried.origin)

    def _push(self, priority: float, make: Callable[[], Plan], edits: tuple[str, ...], origin: str) -> None:
        heapq.heappush(self._open, _Open(priority, next(self._number), make, edits, origin))

    def _progress(self, verdict: Verdict) -> int:
        """How far a failed program got: to a value is one further than to a run, each right output one more."""
        stage = verdict.stage or STAGES[0]
        if stage != "value":
            return 0
        return 1 + self._right_outputs(verdict.diagnostics[0])

    def _right_outputs(self, diagnostic: Diagnostic) -> int:
        names = [spec.name for spec in self._task.outputs]
        failing = diagnostic.message.removeprefix("output ").split(" ", 1)[0]
        return names.index(failing) if failing in names else 0


def repair_failures(task: Task, failures: Sequence[str], seconds: float) -> RepairOutcome:
    """Searches for a repair of failed programs of a task, whose code runs in this process.

    Raises:
        TaskError: The task's own code fails.
    """
    return RepairSearch(task, seconds).run(failures)
