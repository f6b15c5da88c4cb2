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
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeAlias

from pipeline.base.text import counted
from pipeline.splitting.composing import Composition, JointError, compose, composed
from pipeline.splitting.cuts import ReferenceCuts, find_cuts
from pipeline.splitting.subtasks import Offered, SubtaskWriter, parameters_read, typed
from pipeline.synthesis.parallel_search import SearchPool, search_pool
from pipeline.synthesis.search_budget import Reason, SearchBudget, SearchOutcome, why
from pipeline.verification import judge
from pipeline.verification.pool import WorkerLost, Workers
from step_runtime.base.errors import TaskError
from step_runtime.tasks.task import SolvedTask, Task


@dataclass(frozen=True)
class SubtaskAttempt:
    """A sub-task that was tried.

    Attributes:
        task: The sub-task.
        given: The cuts that it starts from.
        impl: Its program; None if none was found.
        reason: Why there is none.
        candidates: Streams computed in search of it.
        seconds: Processor time.
    """

    task: Task
    given: tuple[str, ...]
    impl: str | None
    reason: Reason | None
    candidates: int
    seconds: float

    @property
    def goal(self) -> str:
        """What it computes."""
        return self.task.outputs[0].name


@dataclass
class SplitOutcome:
    """The outcome of splitting a task.

    Attributes:
        impl: A program that passed the verifier, or None.
        parts: The solved sub-tasks that the program is composed of, in their order; without a program, all solved ones.
        attempts: Every sub-task that was tried, in their order.
        reason: What ended the search without a program.
        error: Why the reference can't be split.
        unsolved: The outputs that no sub-task made.
        obstacle: The first value that was needed and not made, its code, and values on its way that are no cuts.
        reached: The last value that was made, and a program for it alone, of inputs; None if there is none.
        slow: The functions that take more than some milliseconds a call, in words.
    """

    impl: str | None = None
    parts: tuple[SolvedTask, ...] = ()
    attempts: list[SubtaskAttempt] = field(default_factory=list)
    reason: Reason | None = None
    error: str | None = None
    unsolved: tuple[str, ...] = ()
    obstacle: str = ""
    reached: tuple[str, str] | None = None
    slow: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def candidates(self) -> int:
        """Streams computed in all searches."""
        return sum(attempt.candidates for attempt in self.attempts)

    @property
    def detail(self) -> str:
        """How a program was composed."""
        return f"{counted(len(self.parts), 'sub-task')}, {counted(self.candidates, 'candidate')}"

    @property
    def headline(self) -> str:
        """What its program is composed of, or what stayed unsolved, and why."""
        if self.impl is not None:
            return f"verified, composed of {self.detail}"
        effort = f"{counted(len(self.attempts), 'sub-task')} and {counted(self.candidates, 'candidate')}"
        solved = ", ".join(part.task.outputs[0].name for part in self.parts)
        left = f"; solved: {solved}" if solved else ""
        unsolved = f"; no program makes {', '.join(self.unsolved)}" if self.unsolved else ""
        unsolved += f"; first of all not {self.obstacle}" if self.obstacle else ""
        return (
            f"no program composed in {effort}, {self.processor:.1f} s of processor time:"
            f" {why(self.reason or 'exhausted', self.error)}{left}{unsolved}"
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it: the sub-tasks that were tried, in order, and which the program is composed of."""
        return {
            "passed": self.impl is not None,
            "reason": self.reason,
            "seconds": round(self.seconds, 3),
            "processor": round(self.processor, 3),
            "candidates": self.candidates,
            "reached": None if self.reached is None else {"value": self.reached[0], "impl": self.reached[1]},
            "parts": [part.task.outputs[0].name for part in self.parts],
            "subtasks": [
                {
                    "goal": attempt.goal,
                    "given": list(attempt.given),
                    "passed": attempt.impl is not None,
                    "reason": attempt.reason,
                    "candidates": attempt.candidates,
                    "processor": round(attempt.seconds, 3),
                }
                for attempt in self.attempts
            ],
        }

    @property
    def processor(self) -> float:
        """Processor time of all searches, in seconds."""
        return sum(attempt.seconds for attempt in self.attempts)


@dataclass(frozen=True)
class _Round:
    """The candidates of each sub-task that is offered ten functions; which are offered, and from which cuts."""

    candidates: int
    offered: Offered = "all"
    further: bool = False


_ROUNDS = (
    _Round(100, "suited"),
    _Round(100, "likely"),
    _Round(100),
    _Round(500, "likely"),
    _Round(500),
    _Round(500, "likely", further=True),
    _Round(1_500, "likely"),
    _Round(4_000, "likely"),
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

_MEETINGS = 5
"""Meetings of types that a sub-task's search looks at, for each candidate."""

_LEAST_SECONDS, _SECONDS = 10.0, 0.02
"""Of processor time for a sub-task's search, at least and for each candidate: its last bound, for slow functions."""

_Key: TypeAlias = tuple[str, tuple[str, ...], tuple[str, ...]]
"""A sub-task: its output, the cuts that it starts from, and its functions."""


def _key(task: Task, given: tuple[str, ...]) -> _Key:
    return repr(task.outputs[0]), given, tuple(fn.func_name for fn in task.fns)


class SplitSearch:
    """One task's search by splitting.

    Args:
        task: The task.
        pool: Where sub-tasks are searched, and where the reference runs.
        budget: For all of it; the reason is the first of its limits that is reached.
    """

    def __init__(self, task: Task, pool: SearchPool, budget: SearchBudget) -> None:
        self._task, self._pool = task.without_impl(), pool
        self._start = time.monotonic()
        self._clock = self._start + budget.clock
        self._budget = budget
        self._outcome = SplitOutcome()
        self._solved: dict[str, SubtaskAttempt] = {}
        self._tried: dict[_Key, int] = {}
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
            return SplitOutcome(reason="exhausted", error=f"its reference can't be split: {error}", unsolved=unsolved)
        self._found, self._writer = found, SubtaskWriter(self._task, found)
        self._outcome.slow = found.slow
        turn = 0
        while turn < len(_ROUNDS) and not self._over:
            # What is solved gives the nearest rounds something new to start from.
            turn = 0 if self._round(_ROUNDS[turn]) else turn + 1
            if self._complete and self._compose():
                return self._end(None)
        return self._end(self._over or "exhausted")

    @property
    def _over(self) -> Reason | None:
        """The limit that is reached."""
        if self._left < 1:
            return "candidates"
        if self._outcome.processor > self._budget.seconds:
            return "time"
        return "clock" if time.monotonic() > self._clock else None

    @property
    def _left(self) -> int:
        """The candidates that are left."""
        return self._budget.candidates - self._outcome.candidates

    def _end(self, reason: Reason | None) -> SplitOutcome:
        outcome = self._outcome
        outcome.reason, outcome.seconds = reason, time.monotonic() - self._start
        if outcome.impl is None:
            outcome.parts = tuple(SolvedTask(each.task, each.impl or "") for each in self._solved.values())
            outcome.unsolved = tuple(spec.name for spec in self._task.outputs if spec.name not in self._solved)
            outcome.obstacle = self._writer.obstacle([*self._solved])
            outcome.reached = self._reached(outcome.parts)
        return outcome

    def _reached(self, parts: Sequence[SolvedTask]) -> tuple[str, str] | None:
        """The last value of the reference that is made, and its program."""
        made = [goal for goal in self._writer.goals if goal in self._solved]
        for goal in made[::-1]:
            whole = self._task.model_copy(update={"outputs": [self._writer.declared(goal)]})
            try:
                return goal, compose(whole, parts).text
            except JointError:  # Parts of other values may fit together where these don't.
                continue
        return None

    def _round(self, turn: _Round) -> bool:
        """Tries the open sub-tasks in their order, but in the nearest round until one is solved; whether one is."""
        self._depths, solved = {}, len(self._solved)
        for goal in [*self._order()]:
            while not (self._over or self._complete or (turn is _ROUNDS[0] and len(self._solved) > solved)):
                if (subtask := self._next(goal, turn)) is None:
                    break
                self._try(*subtask, turn)
            if goal not in self._solved and goal in self._writer.named:
                self._depths[goal] = self._depth(goal) + 1
        return len(self._solved) > solved

    def _try(self, task: Task, given: tuple[str, ...], turn: _Round) -> None:
        """Searches for a sub-task's program. One search runs at a time, so that any machine finds the same."""
        most = turn.candidates * max(len(task.fns), _OFFERED) // _OFFERED
        left = max(self._budget.seconds - self._outcome.processor, 1.0)
        seconds = min(left, _LEAST_SECONDS + most * _SECONDS)
        budget = SearchBudget(seconds, min(most, self._left), meetings=_MEETINGS * most)
        try:
            outcome = self._pool.outcome(self._pool.search(task, budget))
        except TaskError:  # A part of the reference that can't run by itself is no sub-task.
            outcome = SearchOutcome(None, "crashed", 0.0)
        self._note(task, given, outcome)

    def _depth(self, goal: str) -> int:
        """How many values, each made of the one before, stayed unsolved in this round on the way to a goal."""
        known = [*self._solved]
        on_the_way = [each for each in self._depths if each != goal and self._writer.is_between(each, goal, known)]
        return max((self._depths[each] for each in on_the_way), default=0)

    @property
    def _complete(self) -> bool:
        return all(spec.name in self._solved for spec in self._task.outputs)

    def _next(self, goal: str, turn: _Round) -> tuple[Task, tuple[str, ...]] | None:
        """The next sub-task for a goal that is still needed."""
        if goal in self._solved or self._depth(goal) >= _MOST_UNSOLVED:
            return None
        if not self._writer.is_needed(goal, [*self._solved]):
            return None
        for cuts in self._starts(goal, [*self._solved], further=turn.further):
            given = self._writer.given(goal, cuts)
            for order, without in product(self._writer.orders(goal, cuts), (self._used, frozenset[str]())):
                task = self._writer.subtask(goal, cuts, without, turn.offered, order)
                if task is not None and task.fns and self._tried.get(key := _key(task, given), 0) < turn.candidates:
                    self._tried[key] = turn.candidates
                    return task, given
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
            self._writer.settle(attempt.goal, typed(task.outputs[0], self._task))
        if outcome.reason == "exhausted":
            self._tried[_key(task, given)] = _ROUNDS[-1].candidates

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
    """Solves tasks by splitting them, one after the other; each has the whole budget.

    Raises:
        TaskError: A task's own code fails.
    """
    if not tasks:
        return
    with search_pool(workers, budget.clock, PRELOAD) as pool:
        for task in tasks:
            yield task, SplitSearch(task, pool, budget).run()
