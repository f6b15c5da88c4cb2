"""Solves a task by splitting it: sub-tasks are searched one by one, and their programs are composed.

A value becomes a cut when a program makes it from inputs and earlier cuts; one that no program is found for is none, so
that what is made of it is searched from what it is made of itself. A value that the reference names is tried whole,
then operator by operator. A sub-task is offered functions that execute what its reference does; in later rounds all
others, more candidates, and cuts further back.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any, TypeAlias

from pipeline.splitting.composing import Composition, composed
from pipeline.splitting.cuts import ReferenceCuts, find_cuts
from pipeline.splitting.outcomes import SplitOutcome, SubtaskAttempt
from pipeline.splitting.subtasks import SubtaskWriter, parameters_read
from pipeline.synthesis.parallel_search import SearchPool, search_pool
from pipeline.synthesis.search_budget import SearchBudget, SearchOutcome
from pipeline.verification import judge
from pipeline.verification.pool import WorkerLost, Workers
from step_runtime.base.errors import TaskError
from step_runtime.tasks.task import SolvedTask, Task


@dataclass(frozen=True)
class _Round:
    """The candidates of each sub-task that is offered ten functions; which are offered, and from which cuts.

    Of `likely` functions, each executes nothing that the reference does not.
    """

    candidates: int
    likely: bool = False
    further: bool = False


_ROUNDS = (
    _Round(500, likely=True),
    _Round(500),
    _Round(500, likely=True, further=True),
    _Round(4_000, likely=True),
    _Round(4_000, further=True),
    _Round(20_000),
    _Round(20_000, further=True),
    _Round(100_000),
    _Round(100_000, further=True),
    _Round(1_000_000, further=True),
)
_MOST_UNSOLVED = 3
"""Unsolved values, each made of the one before, beyond which nothing is tried in a round."""

_OFFERED = 10
"""Functions of a sub-task to which the candidates of a round are fitted; more functions get more."""

_Running: TypeAlias = dict[Future[Any], tuple[Task, str, tuple[str, ...]]]
"""Searches, each with its sub-task, what that makes, and the cuts that it starts from."""


class SplitSearch:
    """One task's search by splitting.

    Args:
        task: The task.
        pool: Where sub-tasks are searched, and where the reference runs.
        budget: For all of it; the reason is the first of its limits that is reached.
        width: How many searches run at a time.
    """

    def __init__(self, task: Task, pool: SearchPool, budget: SearchBudget, width: int = 1) -> None:
        self._task, self._pool, self._width = task.without_impl(), pool, width
        self._start = time.monotonic()
        self._clock = self._start + budget.clock
        self._budget = budget
        self._outcome = SplitOutcome()
        self._solved: dict[str, SubtaskAttempt] = {}
        self._tried: dict[tuple[str, tuple[str, ...], frozenset[str]], int] = {}
        self._refused: set[str] = set()
        self._depths: dict[str, int] = {}

    def run(self) -> SplitOutcome:
        """Splits, solves, composes and verifies, until there is a program or the time is up.

        Raises:
            TaskError: The task's own code fails.
        """
        try:
            found: ReferenceCuts = self._pool.run(find_cuts, self._task).result()
        except (WorkerLost, SyntaxError, RecursionError) as error:
            unsolved = tuple(spec.name for spec in self._task.outputs)
            return SplitOutcome(reason=f"its reference can't be split: {error}", unsolved=unsolved)
        self._found, self._writer = found, SubtaskWriter(self._task, found)
        for turn in _ROUNDS:
            while self._round(turn):
                if self._compose():
                    return self._end("")
                if self._over:
                    break
            if self._over:
                return self._end(self._over)
        return self._end("every sub-task within reach was tried")

    @property
    def _over(self) -> str:
        """The limit that is reached; empty for none."""
        if self._left < 1:
            return "candidate limit reached"
        if self._outcome.processor > self._budget.seconds:
            return "time limit reached"
        return "time limit by the clock reached" if time.monotonic() > self._clock else ""

    @property
    def _left(self) -> int:
        """The candidates that are left."""
        return self._budget.candidates - self._outcome.candidates

    def _end(self, reason: str) -> SplitOutcome:
        outcome = self._outcome
        outcome.reason, outcome.seconds = reason, time.monotonic() - self._start
        if outcome.impl is None:
            outcome.parts = tuple(SolvedTask(each.task, each.impl or "") for each in self._solved.values())
            outcome.unsolved = tuple(spec.name for spec in self._task.outputs if spec.name not in self._solved)
            outcome.obstacle = self._writer.obstacle([*self._solved])
        return outcome

    def _round(self, turn: _Round) -> bool:
        """Tries the open sub-tasks, in their order and side by side; whether all outputs are made."""
        running: _Running = {}
        self._depths = {}
        waiting = [*self._order()]
        while (waiting or running) and not self._over and not self._complete:
            if not waiting or len(running) >= self._width or not self._is_ready(waiting[0], running):
                self._take(running)
            elif not self._begin(waiting[0], turn, running):
                waiting.pop(0)
        for future in running:
            future.cancel()
        return self._complete

    def _is_ready(self, goal: str, running: _Running) -> bool:
        """Whether nothing that a goal starts from is still searched for."""
        busy = {each for _, each, _ in running.values()}
        return goal not in busy and not busy.intersection(self._writer.given(goal, {*self._solved, *busy}))

    def _begin(self, goal: str, turn: _Round, running: _Running) -> bool:
        """Begins with the next sub-task for a goal; whether there is one."""
        subtask = self._next(goal, turn) if self._depth(goal) < _MOST_UNSOLVED else None
        if subtask is None:
            if goal not in self._solved and goal in self._writer.named:
                self._depths[goal] = self._depth(goal) + 1
            return False
        task, given = subtask
        seconds = max(self._budget.seconds - self._outcome.processor, 1.0)
        most = turn.candidates * max(len(task.fns), _OFFERED) // _OFFERED
        budget = SearchBudget(seconds, min(most, self._left))
        running[self._pool.search(task, budget)] = task, goal, given
        return True

    def _depth(self, goal: str) -> int:
        """How many values, each made of the one before, stayed unsolved in this round on the way to a goal."""
        known = [*self._solved]
        on_the_way = [each for each in self._depths if each != goal and self._writer.is_between(each, goal, known)]
        return max((self._depths[each] for each in on_the_way), default=0)

    def _take(self, running: _Running) -> None:
        """Waits for a search, and notes what came of it."""
        done, _ = wait(running, max(self._clock - time.monotonic(), 0.0) + 1.0, FIRST_COMPLETED)
        for future in done:
            task, _, given = running.pop(future)
            try:
                outcome = self._pool.outcome(future)
            except TaskError:  # A part of the reference that can't run by itself is no sub-task.
                outcome = SearchOutcome(None, "crashed", 0.0)
            self._note(task, given, outcome)

    @property
    def _complete(self) -> bool:
        return all(spec.name in self._solved for spec in self._task.outputs)

    def _next(self, goal: str, turn: _Round) -> tuple[Task, tuple[str, ...]] | None:
        """The next sub-task for a goal that is still needed."""
        if goal in self._solved or not self._writer.is_needed(goal, [*self._solved]):
            return None
        for cuts in self._starts(goal, [*self._solved], further=turn.further):
            for without in (self._used, frozenset[str]()):
                task = self._writer.subtask(goal, cuts, without, likely=turn.likely)
                if task is None or not task.fns:
                    continue
                key = goal, self._writer.given(goal, cuts), frozenset(fn.func_name for fn in task.fns)
                if self._tried.get(key, 0) < turn.candidates:
                    self._tried[key] = turn.candidates
                    return task, key[1]
        return None

    def _order(self) -> Iterator[str]:
        """The goals in their order: a named value whole, then those on its way, one operator each, then it again."""
        between: list[str] = []
        for goal in self._writer.goals:
            if goal not in self._writer.named:
                between.append(goal)
                continue
            yield goal
            yield from (*between, goal) if between else ()
            between = []

    @property
    def _used(self) -> frozenset[str]:
        """The functions bound to a parameter that programs of sub-tasks use: each is mostly needed once."""
        texts = [attempt.impl or "" for attempt in self._solved.values()]
        words = {word for text in texts for word in re.findall(r"\w+", text)}
        used = (fn for fn in self._task.fns if fn.func_name in words)
        return frozenset(fn.func_name for fn in used if parameters_read(fn.apply) != frozenset())

    def _starts(self, goal: str, known: Sequence[str], *, further: bool) -> Iterator[list[str]]:
        """The cuts to start from: all, and from further back those without one or all of the nearest."""
        yield [*known]
        if further:
            nearest = self._writer.given(goal, known)
            yield from ([each for each in known if each != left] for left in nearest)
            if len(nearest) > 1:
                yield [each for each in known if each not in nearest]

    def _note(self, task: Task, given: tuple[str, ...], outcome: SearchOutcome) -> None:
        attempt = SubtaskAttempt(task, given, outcome.impl, outcome.reason, outcome.candidates, outcome.processor)
        self._outcome.attempts.append(attempt)
        if outcome.impl is not None and outcome.impl not in self._refused:
            self._solved[attempt.goal] = attempt
        if outcome.reason == "exhausted":
            key = attempt.goal, given, frozenset(fn.func_name for fn in task.fns)
            self._tried[key] = _ROUNDS[-1].candidates

    def _compose(self) -> bool:
        """Composes the parts and verifies the whole; else a part that is wrong there is given up."""
        parts = [SolvedTask(each.task, each.impl or "") for each in self._needed_parts()]
        made = composed(self._pool, self._task, self._found, parts)
        if isinstance(made, Composition):
            self._outcome.impl, self._outcome.parts = made.text, tuple(parts)
            return True
        given_up = self._solved.pop(made if made in self._solved else parts[-1].task.outputs[0].name)
        self._refused.add(given_up.impl or "")
        return False

    def _needed_parts(self) -> Iterable[SubtaskAttempt]:
        """The solved sub-tasks that the outputs are made of, in their order."""
        needed: dict[str, None] = {}
        open_ = [spec.name for spec in self._task.outputs]
        while open_:
            name = open_.pop()
            if name in self._solved and name not in needed:
                needed[name] = None
                open_ += self._solved[name].given
        return [attempt for name, attempt in self._solved.items() if name in needed]


PRELOAD = ("pipeline.splitting.cuts", "pipeline.splitting.composing", judge.__name__)
"""Modules that the workers of splits find imported."""


def split_all(tasks: Sequence[Task], budget: SearchBudget, workers: Workers) -> Iterator[tuple[Task, SplitOutcome]]:
    """Solves tasks by splitting them, one after the other; each has the whole budget, and all workers.

    Raises:
        TaskError: A task's own code fails.
    """
    if not tasks:
        return
    with search_pool(workers, budget.clock, PRELOAD) as pool:
        for task in tasks:
            yield task, SplitSearch(task, pool, budget, workers.count).run()
