"""Solves a task by splitting it: sub-tasks are searched one by one, and their programs are composed.

Values that the reference names, or a function of PyTorch gives, are tried as cuts before others. A value becomes a cut
when a program makes it from inputs and earlier cuts; one that no program is found for is none, so that what is made of
it is searched from what it is made of itself. In later rounds sub-tasks that stayed unsolved get more candidates, or
start from cuts further back.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Any, TypeAlias

from pipeline.splitting.composing import JointError, compose, wrong_joint
from pipeline.splitting.cuts import ReferenceCuts, find_cuts
from pipeline.splitting.library import Library
from pipeline.splitting.outcomes import SplitOutcome, SubtaskAttempt
from pipeline.splitting.subtasks import SubtaskWriter
from pipeline.synthesis.parallel_search import SearchPool, search_pool
from pipeline.synthesis.results import programs_of
from pipeline.synthesis.search_budget import SearchBudget, SearchOutcome
from pipeline.verification import worker
from pipeline.verification.pool import WorkerLost
from pipeline.verification.workers import Workers
from step_runtime.base.errors import StepError, TaskError
from step_runtime.tasks.task import SolvedTask, Task


@dataclass(frozen=True)
class _Round:
    """The candidates of each sub-task; of which values, and whether also from cuts further back."""

    candidates: int
    named: bool = False
    further: bool = False


_ROUNDS = (
    _Round(500, named=True),
    _Round(500, named=True, further=True),
    _Round(4_000, named=True),
    _Round(4_000),
    _Round(20_000, named=True),
    _Round(20_000, further=True),
    _Round(100_000, named=True),
    _Round(100_000, further=True),
    _Round(1_000_000, further=True),
)


MOST_VARIANTS = 24
"""Programs of other programs of sub-tasks that are verified, at most."""
_MOST_UNSOLVED = 3
"""Unsolved values, each made of the one before, beyond which nothing is tried in a round."""

_Running: TypeAlias = dict[Future[Any], tuple[Task, str, tuple[str, ...]]]
"""Searches, each with its sub-task, what that makes, and the cuts that it starts from."""


Chooser: TypeAlias = Callable[[Task, Sequence[str]], Sequence[str]]


def _no_choice(task: Task, values: Sequence[str]) -> Sequence[str]:
    return ()


class SplitSearch:
    """One task's search by splitting.

    Args:
        task: The task.
        pool: Where sub-tasks are searched, and where the reference runs.
        budget: For all of it; the reason is the first of its limits that is reached.
        width: How many searches run at a time.
        library: Programs that are known; solved sub-tasks are added.
        kept: Sub-tasks of an earlier split, by what they compute: tried before others, with their programs, if they
            have any.
        choose: Chooses cuts to try first, by name, for a task and what is said of each cut; none for the usual ones.
    """

    def __init__(
        self,
        task: Task,
        pool: SearchPool,
        budget: SearchBudget,
        width: int = 1,
        library: Library | None = None,
        kept: Mapping[str, Task] | None = None,
        choose: Chooser = _no_choice,
    ) -> None:
        self._task, self._pool, self._width = task.without_impl(), pool, width
        self._start = time.monotonic()
        self._deadline = self._start + budget.seconds
        self._budget = budget
        self._programs = budget.programs if budget.thorough else 1
        self._library, self._choose = library, choose
        self._chosen: frozenset[str] = frozenset()
        self._kept = dict(kept or {})
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
        except WorkerLost as error:
            return self._end(f"its reference {error}")
        except (SyntaxError, RecursionError) as error:
            return self._end(f"its reference can't be split: {error}")
        self._found, self._writer = found, SubtaskWriter(self._task, found)
        self._chosen = frozenset(self._choose(self._task, self._writer.choices))
        for turn in _ROUNDS:
            while self._round(turn):
                if self._compose():
                    return self._end("")
                if self._over:
                    break
            if self._over:
                return self._end("candidate limit reached" if self._left < 1 else "time limit reached")
        return self._end("every sub-task within reach was tried")

    @property
    def _over(self) -> bool:
        return time.monotonic() > self._deadline or self._left < 1

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
        return outcome

    def _round(self, turn: _Round) -> bool:
        """Tries the open sub-tasks, in their order and side by side; whether all outputs are made."""
        running: _Running = {}
        self._depths = {}
        waiting = [goal for goal in self._writer.goals if not turn.named or self._is_first(goal)]
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
            if goal not in self._solved and self._is_first(goal):
                self._depths[goal] = self._depth(goal) + 1
            return False
        task, given = subtask
        if not self._is_known(task, given):
            seconds = max(self._deadline - time.monotonic(), 1.0)
            budget = SearchBudget(seconds, min(turn.candidates, self._left), programs=self._programs)
            drafts = self._library.drafts(task) if self._library is not None else ()
            running[self._pool.search(task.without_impl(), budget, drafts)] = task, goal, given
        return True

    def _depth(self, goal: str) -> int:
        """How many values, each made of the one before, stayed unsolved in this round on the way to a goal."""
        known = [*self._solved]
        on_the_way = [each for each in self._depths if each != goal and self._writer.is_between(each, goal, known)]
        return max((self._depths[each] for each in on_the_way), default=0)

    def _take(self, running: _Running) -> None:
        """Waits for a search, and notes what came of it."""
        done, _ = wait(running, max(self._deadline - time.monotonic(), 0.0) + 1.0, FIRST_COMPLETED)
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

    def _is_first(self, goal: str) -> bool:
        """Whether a goal is tried in the first round: outputs, and cuts that are chosen or have a name."""
        return goal in (self._chosen | {*self._writer.outputs} if self._chosen else self._writer.named)

    def _next(self, goal: str, turn: _Round) -> tuple[Task, tuple[str, ...]] | None:
        """The next sub-task for a goal that is still needed."""
        if goal in self._solved or not self._is_needed(goal):
            return None
        if goal in self._kept:
            kept = self._kept.pop(goal)
            inputs = {spec.name for spec in self._task.inputs}
            return kept, tuple(spec.name for spec in kept.inputs if spec.name not in inputs)
        for cuts in self._starts(goal, [*self._solved], further=turn.further):
            for without in (self._used, frozenset[str]()):
                task = self._writer.subtask(goal, cuts, without)
                if task is None or not task.fns:
                    continue
                key = goal, self._writer.given(goal, cuts), frozenset(fn.func_name for fn in task.fns)
                if self._tried.get(key, 0) < turn.candidates:
                    self._tried[key] = turn.candidates
                    return task, key[1]
        return None

    @property
    def _used(self) -> frozenset[str]:
        """The functions that programs of sub-tasks use: a task mostly lists a function because it is needed once."""
        texts = [attempt.impl or "" for attempt in self._solved.values()]
        words = {word for text in texts for word in re.findall(r"\w+", text)}
        return frozenset(fn.func_name for fn in self._task.fns if fn.func_name in words)

    def _starts(self, goal: str, known: Sequence[str], *, further: bool) -> Iterator[list[str]]:
        """The cuts to start from: all, and from further back those without one or all of the nearest."""
        yield [*known]
        if further:
            nearest = self._writer.given(goal, known)
            yield from ([each for each in known if each != left] for left in nearest)
            if len(nearest) > 1:
                yield [each for each in known if each not in nearest]

    def _is_needed(self, goal: str) -> bool:
        outputs = [spec.name for spec in self._task.outputs if spec.name not in self._solved]
        return any(self._writer.is_between(goal, output, [*self._solved]) for output in outputs)

    def _is_known(self, task: Task, given: tuple[str, ...]) -> bool:
        """Whether the library has a program for a sub-task, which is then taken."""
        for impl in self._known_programs(task):
            known = SubtaskAttempt(
                task.without_impl(), given, impl, None, 0, 0.0, time.monotonic() - self._start, known=True
            )
            self._add(known)
            return True
        return False

    def _known_programs(self, task: Task) -> Iterator[str]:
        if task.impl and worker.verdict_of(self._pool.run(worker.judge, task, task.impl)).passed:
            yield task.impl
        if self._library is not None:
            yield from self._library.programs(task, self._pool)

    def _note(self, task: Task, given: tuple[str, ...], outcome: SearchOutcome) -> None:
        at, others = time.monotonic() - self._start, tuple(programs_of(outcome)[1:])
        found = outcome.impl, outcome.reason, outcome.candidates, outcome.processor
        self._add(SubtaskAttempt(task, given, *found, at, others=others))
        if outcome.reason == "exhausted":
            key = task.outputs[0].name, given, frozenset(fn.func_name for fn in task.fns)
            self._tried[key] = _ROUNDS[-1].candidates
        if outcome.impl is not None and self._library is not None:
            self._library.add(SolvedTask(task, outcome.impl), self._pool)

    def _add(self, attempt: SubtaskAttempt) -> None:
        self._outcome.attempts.append(attempt)
        if attempt.impl is not None and attempt.impl not in self._refused:
            self._solved[attempt.goal] = attempt

    def _compose(self) -> bool:
        """Composes the parts and verifies the whole; else a part that is wrong there is given up."""
        parts = [SolvedTask(each.task, each.impl or "") for each in self._needed_parts()]
        try:
            made = compose(self._task, parts)
        except JointError as error:
            self._refuse(error.joint)
            return False
        verdict = worker.verdict_of(self._pool.run(worker.judge, self._task, made.text))
        if verdict.passed:
            self._outcome.impl, self._outcome.parts = made.text, tuple(parts)
            self._outcome.variants = tuple(self._variants(parts))
            return True
        try:
            arguments = made.joined, made.joints, self._found
            wrong = self._pool.run(wrong_joint, self._task, *arguments).result()
        except (WorkerLost, StepError):
            wrong = None
        self._refuse(wrong or parts[-1].task.outputs[0].name)
        return False

    def _variants(self, parts: Sequence[SolvedTask]) -> Iterator[str]:
        """Right programs in which one sub-task has another program, as far as the time goes."""
        seen = {self._outcome.impl}
        for place, part in enumerate(parts):
            for other in self._solved[part.task.outputs[0].name].others:
                own = [*parts[:place], SolvedTask(part.task, other), *parts[place + 1 :]]
                text = compose(self._task, own).text
                if self._over or len(seen) > MOST_VARIANTS:
                    return
                if text not in seen and worker.verdict_of(self._pool.run(worker.judge, self._task, text)).passed:
                    yield text
                seen.add(text)

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

    def _refuse(self, goal: str) -> None:
        """Gives a sub-task's program up."""
        attempt = self._solved.pop(goal, None)
        if attempt is not None:
            self._refused.add(attempt.impl or "")


PRELOAD = ("pipeline.splitting.cuts", "pipeline.splitting.composing", "pipeline.splitting.library", worker.__name__)
"""Modules that the workers of splits find imported."""


def split_all(
    tasks: Sequence[Task],
    budget: SearchBudget,
    workers: Workers,
    library: Library | None = None,
    kept: Callable[[Task], Mapping[str, Task]] = lambda task: {},
    choose: Chooser = _no_choice,
) -> Iterator[tuple[Task, SplitOutcome]]:
    """Solves tasks by splitting them, one after the other; each has the whole budget, and all workers.

    Args:
        tasks: The tasks.
        budget: For each, by the clock, and of candidates of all its sub-tasks.
        workers: Where sub-tasks are searched and references run.
        library: Programs that are known; solved sub-tasks are added.
        kept: The sub-tasks of an earlier split of a task, by what they compute.
        choose: Chooses the cuts of a task that are tried first.

    Raises:
        TaskError: A task's own code fails.
    """
    if not tasks:
        return
    with search_pool(workers, budget.seconds, PRELOAD) as pool:
        for task in tasks:
            yield task, SplitSearch(task, pool, budget, workers.count, library, kept(task), choose).run()
