"""One run: its state, and the iterations by which it grows.

Invariants: a task leaves the unsolved ones in the iteration that gives it an entry, and never comes back; entries are
in task order; attempts are in the order of the algorithm, regardless of threads; everything sampled is in the record,
no matter how the run ends; the selection strategy decides what an iteration shows and what it is called.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import dspy

from optimizers.attempt import Attempt
from optimizers.attempt_log import AttemptLog
from optimizers.budget import Budget, Spending
from optimizers.context_fit import ContextFit
from optimizers.context_window import Window
from optimizers.demonstrations import DemoFitter, ShownDemos, copy_program, demonstrated_tasks, entry_keys
from optimizers.domain import Domain
from optimizers.errors import RunStopped, attach_experience, one_line
from optimizers.experience import Entry, Experience, IterationResult, LevelScore
from optimizers.iteration_counts import IterationCounts, NearestMisses
from optimizers.observer import IterationStarted, Observer, RunStarted
from optimizers.parts import Parts
from optimizers.prompt_sizes import demo_count, trimmed
from optimizers.sampling import Sampler, TaskExample
from optimizers.sampling_loop import SamplingLoop
from optimizers.solutions import Solutions
from optimizers.strategies.base import DemoSet, Selection

logger = logging.getLogger(__name__)


@dataclass
class Run:
    """The state of one run; a strategy sees it as its `Progress`.

    Attributes:
        program: The working copy; its demonstrations are those of the current iteration.
        granularity: m, for the record.
        tasks: All tasks, by key, in the order of the training set.
        max_errors: Failures that end the run, as for `optimizers.driver.Driver`.
        stop_at_score: Percentage of solved tasks that ends it.
        context: Known facts about the LM's context window.
    """

    program: dspy.Module
    fitter: DemoFitter
    sampler: Sampler
    selection: Selection
    domain: Domain
    spending: Spending
    granularity: int
    observers: Sequence[Observer]
    tasks: Mapping[str, TaskExample]
    solutions: Solutions
    max_errors: int | None = None
    stop_at_score: float | None = None
    context: ContextFit = field(default_factory=lambda: ContextFit(None))
    iterations: list[IterationResult] = field(default_factory=list)
    attempts: AttemptLog = field(default_factory=AttemptLog)
    validation: list[LevelScore] = field(default_factory=list)
    _carried: tuple[str, ...] = ()
    _misses: NearestMisses = field(init=False)
    _parts: Parts = field(init=False)

    def __post_init__(self) -> None:
        self._misses = NearestMisses(self.domain.closeness)
        self._parts = Parts(self.domain, len(self.tasks))

    @property
    def budget(self) -> Budget:
        """The run's limits."""
        return self.spending.budget

    @property
    def seed(self) -> int:
        """The run's seed."""
        return self.sampler.sampling.seed

    @property
    def entries(self) -> Mapping[str, Entry]:
        """See `Progress.entries`."""
        return self.solutions.shown

    @property
    def unsolved(self) -> list[TaskExample]:
        """The tasks without an entry, in task order."""
        return self.solutions.unsolved

    @property
    def nearest_misses(self) -> Mapping[str, Mapping[str, Any]]:
        """See `Progress.nearest_misses`."""
        return self._misses.fields

    @property
    def max_demo_tokens(self) -> int | None:
        """See `Progress.max_demo_tokens`."""
        return self.budget.demo_tokens

    def demo_tokens(self, entry: Entry) -> int:
        """See `Progress.demo_tokens`."""
        return self.fitter.tokens(self.program, entry)

    @property
    def askable(self) -> list[TaskExample]:
        """The tasks with prompts that fit the LM without demonstrations, in task order."""
        return [task for task in self.tasks.values() if task.key not in self.context.too_long]

    @property
    def too_long(self) -> list[str]:
        """Keys of the tasks with prompts that exceed the LM's window even without demonstrations, in task order."""
        return [key for key in self.tasks if key in self.context.too_long]

    @property
    def window(self) -> Window:
        """The known size of the LM's context window."""
        return self.context.window(self.spending.tokens)

    @property
    def _open(self) -> list[TaskExample]:
        """The tasks to sample that the LM can be asked: unsolved ones, or all where an answer may get cheaper."""
        tasks = self.unsolved if self.domain.cost is None else self.tasks.values()
        every = (*tasks, *self._parts.open(self.solutions.entries))
        return [task for task in every if task.key not in self.context.too_long]

    @property
    def unanswered(self) -> set[str]:
        """Keys of the tasks without an answer to any sample of some iteration, such as tasks that the LM refuses."""
        return {key for result in self.iterations for key in result.unanswered}

    @property
    def settings(self) -> dict[str, Any]:
        """The run's settings."""
        sampling, budget = asdict(self.sampler.sampling), asdict(self.budget)
        others = {"granularity": self.granularity, "selection": self.selection.name, "threshold": self.domain.threshold}
        return {**sampling, **others, "budget": budget}

    def start(self) -> None:
        """Announces the run."""
        solved = tuple(key for key in self.tasks if key in self.entries)
        examples = {key: task.example for key, task in self.tasks.items()}
        self._notify("run_started", RunStarted(tuple(self.tasks), solved, self.settings, examples))

    def adopt(self, program: dspy.Module) -> None:
        """Adopts the demonstrations and the instructions of another optimizer's program."""
        made, tasks = dict(program.named_predictors()), self.tasks.values()
        for name, predictor in self.program.named_predictors():
            predictor.demos, predictor.signature = made[name].demos, made[name].signature
        self.program = trimmed(self.program, [each.example for each in tasks], self.window, self.budget.demos)
        self._carried = demonstrated_tasks(self.program, tasks)

    def learn(self) -> str:
        """Runs the strategy's iterations while a task is open; returns why they ended.

        Where answers have costs, the strategy starts over when it ends, until the budget is reached.
        """
        demo_sets, first = self.selection.demo_sets(self), 0
        while self._open:
            demo_set = next(demo_sets, None)
            if demo_set is None and (self._may_improve(first) or self._parts.fresh):
                demo_sets, first = self.selection.demo_sets(self), len(self.iterations)
                demo_set = next(demo_sets, None)
            if demo_set is None:
                return "exhausted" if self.unsolved else "solved"
            self.iterate(demo_set)
            solved = 100 * self.iterations[-1].solved_total / len(self.tasks)
            if self.unsolved and self.stop_at_score is not None and solved >= self.stop_at_score:
                return "score"
        return "exhausted" if self.unsolved else "solved"

    def _may_improve(self, first: int) -> bool:
        """Whether the strategy starts over: a budget ends the run, or answers became cheaper since index `first`."""
        found = any(result.improved for result in self.iterations[first:])
        return self.domain.cost is not None and (self.budget.limited or found)

    def choose(self, validation: Sequence[TaskExample] = ()) -> Sequence[Entry]:
        """The demonstrations of the compiled program: of the strategy's candidates the best on the validation set."""
        candidates = self.selection.candidates(self)
        if not candidates:
            return ()
        chosen = self._validate(candidates, validation) if validation and len(candidates) > 1 else 0
        return self.fit(candidates[chosen].demos, self.askable)

    def fit(self, demos: Sequence[Entry], tasks: Sequence[TaskExample]) -> Sequence[Entry]:
        """The demonstrations within the limits for prompts with any of the tasks."""
        return self.fitter.fit(self.program, demos, tasks, self.window).demos

    def iterate(self, demo_set: DemoSet) -> None:
        """One iteration over all open tasks (Algorithm 1, lines 6 to 17).

        Raises:
            RunStopped: A budget is reached, the LM fails, or the user interrupts; everything sampled until then is in
                the record, and tasks solved by it are solved.
        """
        self._check_budget()
        start, index, tasks = time.monotonic(), len(self.iterations), self._open
        shown = self._accepted(index, self._show(demo_set, tasks), tasks)
        window = self.window
        counts, stop = self._sample(index, demo_set, shown, tasks)
        self._misses.finish_iteration()
        learned, improved = self._learn_from(index, tasks, counts, window if stop is None else None)
        composed, entered = self._parts.divide(index, self.unsolved, self.solutions)
        solved = [key for key in self.tasks if key in (*learned, *composed)]
        input_tokens = self.spending.overhead_input + self.solutions.input_tokens
        result = IterationResult(
            index=index, label=demo_set.label, cycle=demo_set.cycle, level=demo_set.level,
            demos=self._carried + entry_keys(shown.demos), left_out=entry_keys(shown.left_out), tasks=_task_keys(tasks),
            reasons=shown.reasons,
            counts=tuple(count for task in tasks for count in counts.counts(task)),
            solved=tuple(solved), solved_total=self.solutions.solved,
            solved_parts=tuple(key for key in learned if key not in self.tasks), composed=composed,
            pass_at_1=self.solutions.pass_at(1), pass_at_8=self.solutions.pass_at(8),
            pass_at_n=self.solutions.pass_at(None),
            pass_at_1_pooled=self.solutions.pass_at(1, pooled=True),
            pass_at_8_pooled=self.solutions.pass_at(8, pooled=True),
            tokens=counts.tokens, tokens_prompt_per_task=input_tokens / len(self.tasks),
            samples=counts.samples, failures=counts.failures, unknown=counts.unknown, seconds=time.monotonic() - start,
            seconds_sampling=counts.seconds, seconds_verifying=counts.metric_seconds, complete=stop is None,
            improved=improved, costs=self.solutions.costs,
        )  # fmt: skip
        known = self.unanswered
        self.iterations.append(result)
        self._warn_of_unanswered(self.unanswered - known)
        self._notify("iteration_finished", result)
        if entered:
            self._notify("parts_entered", entered)
        if stop is not None:
            raise stop

    def program_with(self, demos: Sequence[Entry]) -> dspy.Module:
        """A copy of the program that carries these demonstrations."""
        program = copy_program(self.program)
        self.fitter.set(program, demos)
        return program

    def finish(self, compiled: dspy.Module, stopped: str, message: str, demos: Sequence[Entry]) -> Experience:
        """Announces the compiled program, and the record of the run as it carries it, which is returned."""
        self._notify("program_compiled", compiled)
        experience = replace(self.record(stopped, message, demos), carried=True)
        self._notify("run_finished", experience)
        return experience

    def fail(self, error: BaseException, stopped: str, message: str) -> None:
        """Attaches the record to the exception that ends the run, and announces it."""
        experience = self.record(stopped, message)
        attach_experience(error, experience)
        for observer in self.observers:
            try:
                getattr(observer, "run_failed", _ignored)(experience, error)
            except Exception as failure:
                logger.warning("%s.run_failed: %s", type(observer).__name__, one_line(failure))

    def record(self, stopped: str, message: str, demos: Sequence[Entry] = ()) -> Experience:
        """The record of the run."""
        return Experience(
            tasks=tuple(self.tasks),
            entries=tuple(self.solutions.entries.values()),
            iterations=tuple(self.iterations),
            attempts=self.attempts,
            stopped=stopped,
            message=message,
            demos=self._carried + entry_keys(demos),
            validation=tuple(self.validation),
            refused=self.solutions.refused,
            tokens=self.spending.tokens,
            overhead=self.spending.overhead.counts,
            seconds=self.spending.seconds,
            settings=self.settings,
        )

    def _validate(self, candidates: Sequence[DemoSet], tasks: Sequence[TaskExample]) -> int:
        """Index of the candidate whose demonstrations solve the validation tasks best; the first of equals."""
        scores: dict[int, float] = {}
        for place, candidate in enumerate(candidates):
            if place and entry_keys(candidate.demos) == entry_keys(candidates[place - 1].demos):
                continue  # measuring the same demonstrations twice is useless
            # The compiled program shows every task the same.
            shown = self._show(replace(candidate, select=None), tasks)
            counts, stop = self._sample(-1 - place, candidate, shown, tasks)
            if stop is not None:
                raise stop
            best = [counts.best(task) for task in tasks]
            scores[place] = sum(count.successes / count.samples for count in best if count.samples) / len(tasks)
            self.validation.append(LevelScore(candidate.level, candidate.label, entry_keys(shown.demos), scores[place]))
        return max(scores, key=lambda place: (scores[place], -place))

    def _notify(self, event: str, payload: Any) -> None:
        for observer in self.observers:
            getattr(observer, event, _ignored)(payload)

    def _show(self, demo_set: DemoSet, tasks: Sequence[TaskExample]) -> ShownDemos:
        return self.fitter.show(self.program, demo_set, tasks, self.window)

    def _accepted(self, index: int, shown: ShownDemos, tasks: Sequence[TaskExample]) -> ShownDemos:
        """The demonstrations that the LM does not refuse as too long; those chosen per task are not tried."""
        if not shown.demos or shown.own_programs:
            return shown
        work = self.sampler.worker(
            self.program, self._recorded(index), None, self.spending.deadline, self.window, batched=False
        )
        most, demos = self.context.accepted_demos(self.program, tasks, self.sampler, index, work), shown.demos
        while demo_count(self.program) > most:
            demos = demos[:-1]
            self.fitter.set(self.program, demos)
        return ShownDemos(demos, [*shown.demos[len(demos) :][::-1], *shown.left_out])

    def _recorded(self, index: int) -> Sequence[str]:
        """The predictors whose calls in an iteration are recorded."""
        return self.fitter.names if self.domain.traced_demos and index >= 0 else ()

    def _warn_of_unanswered(self, keys: Collection[str]) -> None:
        again = "it is tried again, but no longer counts among the failures that end the run"
        for key in (key for key in self.tasks if key in keys):
            consequence = "its prompt is too long for the LM" if key in self.context.too_long else again
            logger.warning("%s: no sample got an answer that was scored; %s", key, consequence)

    def _sample(
        self, index: int, demo_set: DemoSet, shown: ShownDemos, tasks: Sequence[TaskExample]
    ) -> tuple[IterationCounts, RunStopped | None]:
        """Announces and samples an iteration; returns its counts, and why it ended early, if it did."""
        sampling, counts, before = self.sampler.sampling, IterationCounts(self.sampler.sampling), len(self.attempts)
        total = len(tasks) * len(sampling.temperatures) * sampling.num_samples
        demos, left_out = self._carried + entry_keys(shown.demos), entry_keys(shown.left_out)
        label, cycle, overhead = demo_set.label, demo_set.cycle, self.spending.overhead.counts
        event = IterationStarted(
            index, label, cycle, demos, left_out, _task_keys(tasks), total, self.program, overhead, shown.reasons
        )
        self._notify("iteration_started", event)

        def take(attempt: Attempt) -> None:
            self.attempts.append(attempt)
            counts.add(attempt)
            self.spending.add(attempt.tokens)
            if index >= 0:
                self._misses.add(attempt)
            self._notify("sample_done", attempt)

        taught, window = self._recorded(index), self.window
        left = None if self.max_errors is None else self.max_errors - sum(each.failures for each in self.iterations)
        worked = any(each.samples > each.failures for each in self.iterations)
        loop = SamplingLoop(
            self.sampler, self.spending, take, self.unanswered, left, window, partial(self._notify, "in_flight"), worked
        )
        try:
            stop = loop.run(self.program, self.sampler.samples(index, tasks), counts, total, taught, shown.own_programs)
        finally:
            self.attempts.arrange(before, counts.places)
        if stop is not None and stop.stopped == "interrupted":
            stop = RunStopped(stop.stopped, f"interrupted in iteration {label}")
        return counts, stop

    def _check_budget(self) -> None:
        reached = self.spending.reached()
        if self.budget.iterations is not None and len(self.iterations) >= self.budget.iterations:
            done = len(self.iterations)
            reached = f"{done} iteration{'' if done == 1 else 's'} of {self.budget.iterations}"
        if reached:
            raise RunStopped("budget", f"budget reached: {reached}")

    def _learn_from(
        self, index: int, tasks: Sequence[TaskExample], counts: IterationCounts, window: Window | None
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Adds tokens to tasks and extends D by sigma; returns the keys of those solved, and of those improved.

        `window` is the context window known before the iteration, or None if the iteration was cut short.
        """
        sampled = (self.attempts[place] for place in range(len(self.attempts) - counts.samples, len(self.attempts)))
        earned: dict[str, Entry] = {}
        for task, correct, refusals in self.solutions.by_task(sampled, tasks, counts):
            if window is not None:
                self.context.learn(task, refusals, window)
            if entry := self.solutions.choose(index, task, correct, counts.best(task), counts.pooled(task)):
                earned[task.key] = entry
        if answered := [task for task in tasks if window is not None and counts.best(task).samples]:
            self.context.accept(self.program, answered)
        return self.solutions.extend(earned)


def _ignored(*_: Any) -> None:
    """In place of a method that a listener does not have."""


def _task_keys(tasks: Iterable[TaskExample]) -> tuple[str, ...]:
    return tuple(task.key for task in tasks)
