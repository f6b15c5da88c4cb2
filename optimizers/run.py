"""One run: its state, and the iterations by which it grows.

Invariants: a task leaves the unsolved ones in the iteration that gives it an entry, and never comes back;
entries are in task order; attempts are in the order of their jobs, whatever the threads did; all that was
sampled is in the record, however the run ends.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any

import dspy
from dspy.utils.exceptions import ContextWindowExceededError, LMError

from optimizers.attempt import Attempt
from optimizers.attempt_log import AttemptLog
from optimizers.budget import Budget
from optimizers.demonstrations import fitting, set_demos
from optimizers.domain import Domain
from optimizers.errors import in_short
from optimizers.experience import Entry, Experience, IterationResult, LevelScore, TaskCount, mean_pass_at
from optimizers.filtering import choose_answer
from optimizers.ledger import Ledger, TokenCount
from optimizers.metering import is_transient
from optimizers.observer import IterationStarted, Observer, RunStarted
from optimizers.pool import Pool
from optimizers.sampling import FATAL, Job, Outcome, Sampler, Task, derive_seed
from optimizers.selection import iteration_label
from optimizers.tally import Tally

logger = logging.getLogger(__name__)

Samples = Pool[Job, Outcome]

# Seconds that samples in flight are given when a person interrupts.
PATIENCE = 5.0


class Stop(Exception):
    """Ends a run early: why, in the words of `Experience.stopped`, and the LM's error if that was it."""

    def __init__(self, stopped: str, message: str, cause: Exception | None = None) -> None:
        super().__init__(message)
        self.stopped, self.message, self.cause = stopped, message, cause


@dataclass(frozen=True, slots=True)
class Step:
    """What an iteration tries: the demonstrations d_j, hardest first, their level j, and the cycle.

    `label` names what is tried where it is no level.
    """

    demos: Sequence[Entry] = ()
    level: int = -1
    cycle: int = 0
    label: str | None = None


@dataclass
class Run:
    """The state of one run.

    Attributes:
        program: The working copy whose demonstrations are set.
        names: Of the predictors that get them; a warning tells, once, which of them none is there for.
        sampler: Draws and judges.
        domain, budget, granularity, observers: As the optimizer was given them.
        tasks: All tasks, by key, in the order of the training set.
        entries: D, by key.
        overhead: Tokens spent on no sample of an iteration, such as by another optimizer within the run.
        carried: Keys of the tasks whose demonstrations the program has from that optimizer.
    """

    program: dspy.Module
    names: Sequence[str]
    sampler: Sampler
    domain: Domain
    budget: Budget
    granularity: int
    observers: Sequence[Observer]
    tasks: Mapping[str, Task]
    entries: dict[str, Entry]
    iterations: list[IterationResult] = field(default_factory=list)
    attempts: AttemptLog = field(default_factory=AttemptLog)
    validation: list[LevelScore] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)
    spent: dict[str, TokenCount] = field(default_factory=dict)
    overhead: Ledger = field(default_factory=Ledger)
    carried: tuple[str, ...] = ()
    started: float = field(default_factory=time.monotonic)
    untaught: set[str] = field(default_factory=set)

    @property
    def unsolved(self) -> list[Task]:
        """The tasks without an entry, in task order."""
        return [task for key, task in self.tasks.items() if key not in self.entries]

    @property
    def refused(self) -> set[str]:
        """Keys of the tasks of which, in some iteration, no sample got an answer: refused for what they hold, say."""
        return {key for result in self.iterations for key in result.unanswered}

    @property
    def tokens(self) -> dict[str, TokenCount]:
        """All tokens so far, per predictor."""
        counts = self.ledger.counts
        for name, count in self.overhead.counts.items():
            counts[name] = counts.get(name, TokenCount()) + count
        return dict(sorted(counts.items()))

    @property
    def settings(self) -> dict[str, Any]:
        """What the run was asked to do."""
        sampling, budget = asdict(self.sampler.sampling), asdict(self.budget)
        others = {"granularity": self.granularity, "threshold": self.domain.threshold}
        return {**sampling, **others, "budget": budget}

    def tell(self, event: str, payload: Any) -> None:
        """Tells every observer."""
        for observer in self.observers:
            getattr(observer, event)(payload)

    def start(self) -> None:
        """Announces the run."""
        solved = tuple(key for key in self.tasks if key in self.entries)
        self.tell("run_started", RunStarted(tuple(self.tasks), solved, self.settings))

    def iterate(self, step: Step) -> bool:
        """One iteration over all unsolved tasks (Algorithm 1, lines 6 to 17); whether it solved any.

        Raises:
            Stop: A budget is reached, the LM fails, or a person interrupts; what was sampled until then is in
                the record, and what it solved is solved.
        """
        self._check_budget()
        start, index, tasks = time.monotonic(), len(self.iterations), self.unsolved
        kept, left_out = self._fit(step.demos, tasks)
        self._teach(kept)
        label = step.label or iteration_label(step.level, step.cycle, self.granularity)
        tally, stop = self._sample(self._announce(index, label, step.cycle, kept, left_out, tasks), tasks)
        solved = self._learn(index, tasks, tally)
        result = IterationResult(
            index=index, label=label, cycle=step.cycle, level=step.level,
            demos=self.carried + _keys(kept), left_out=_keys(left_out), tasks=tuple(task.key for task in tasks),
            counts=tuple(count for task in tasks for count in tally.counts(task)),
            solved=solved, solved_total=len(self.tasks) - len(self.unsolved),
            pass_at_1=self._pass_at(1), pass_at_8=self._pass_at(8), pass_at_n=self._pass_at(None),
            tokens=tally.tokens, tokens_prompt_per_task=self._prompt_per_task(),
            samples=tally.samples, failures=tally.failures, seconds=time.monotonic() - start,
            seconds_sampling=tally.seconds, seconds_verifying=tally.metric_seconds, complete=stop is None,
        )  # fmt: skip
        known = self.refused
        self.iterations.append(result)
        self._tell_refused(self.refused - known)
        self.tell("iteration_finished", result)
        if stop is not None:
            raise stop
        return bool(solved)

    def validate(self, levels: Sequence[Sequence[Entry]], tasks: Sequence[Task]) -> int:
        """The level whose demonstrations solve the validation tasks best; of equals, the hardest."""
        cycle = 1 + max((result.cycle for result in self.iterations), default=0)
        for level, demos in enumerate(levels):
            if level and len(demos) == len(levels[level - 1]):
                continue  # the same demonstrations again would only be measured twice
            kept, left_out = self._fit(demos, tasks)
            self._teach(kept)
            label = iteration_label(level, cycle, self.granularity)
            event = self._announce(-1 - level, label, cycle, kept, left_out, tasks)
            tally, stop = self._sample(event, tasks)
            if stop is not None:
                raise stop
            best = [tally.best(task) for task in tasks]
            score = sum(count.successes / count.samples for count in best if count.samples) / len(tasks)
            self.validation.append(LevelScore(level, label, _keys(kept), score))
        return max(self.validation, key=lambda tried: (tried.score, -tried.level)).level

    def finish(self, stopped: str, message: str, demos: Sequence[Entry]) -> Experience:
        """The record of the run, which is announced."""
        experience = Experience(
            tasks=tuple(self.tasks),
            entries=tuple(self.entries.values()),
            iterations=tuple(self.iterations),
            attempts=self.attempts,
            stopped=stopped,
            message=message,
            demos=self.carried + _keys(demos),
            validation=tuple(self.validation),
            tokens=self.tokens,
            overhead=self.overhead.counts,
            seconds=time.monotonic() - self.started,
            settings=self.settings,
        )
        self.tell("run_finished", experience)
        return experience

    def fit(self, demos: Sequence[Entry]) -> Sequence[Entry]:
        """Those of `demos` that fit the context window with any task of the run."""
        return self._fit(demos, list(self.tasks.values()))[0]

    def _teach(self, demos: Sequence[Entry]) -> None:
        for name in set_demos(self.program, self.names, demos):
            if name not in self.untaught:
                self.untaught.add(name)
                logger.warning("%s gets no demonstrations, as the chosen solutions hold no call of it", name)

    def _tell_refused(self, keys: Collection[str]) -> None:
        for key in (key for key in self.tasks if key in keys):
            told = "it is tried again, but no longer counts among the failures that end the run"
            logger.warning("%s: not one sample got an answer; %s", key, told)

    def _fit(self, demos: Sequence[Entry], tasks: Sequence[Task]) -> tuple[Sequence[Entry], Sequence[Entry]]:
        """The demonstrations that fit the context window, and those that do not, easiest first."""
        if self.budget.context is None or not demos:
            return demos, ()
        examples = [task.example for task in tasks]
        count = fitting(self.program, self.names, demos, examples, self.budget.context)
        return demos[:count], demos[count:][::-1]

    def _announce(
        self,
        index: int,
        label: str,
        cycle: int,
        kept: Sequence[Entry],
        left_out: Sequence[Entry],
        tasks: Sequence[Task],
    ) -> IterationStarted:
        sampling = self.sampler.sampling
        total = len(tasks) * len(sampling.temperatures) * sampling.num_samples
        keys = tuple(task.key for task in tasks)
        demos, spent = self.carried + _keys(kept), self.overhead.counts
        event = IterationStarted(index, label, cycle, demos, _keys(left_out), keys, total, self.program, spent)
        self.tell("iteration_started", event)
        return event

    def _sample(self, event: IterationStarted, tasks: Sequence[Task]) -> tuple[Tally, Stop | None]:
        """An iteration's samples, put on record in the order of their jobs; and why it ended early, if it did."""
        jobs = self.sampler.jobs(event.index, tasks)
        threads = min(self.sampler.in_hand, event.total_samples)
        taught = self.names if self.domain.traced_demos and event.index >= 0 else ()
        pool: Samples = Pool(self.sampler.worker(self.program, taught), jobs, threads)  # begins with the `try`
        tally, begun = Tally(self.sampler.sampling), len(self.attempts)
        stop: Stop | None = None
        try:
            with pool.interruptible():
                stop = self._gather(pool, event, tally)
        except KeyboardInterrupt:
            stop = Stop("interrupted", f"interrupted in iteration {event.label}")
            with suppress(KeyboardInterrupt):  # a second time: what is in hand will do
                pool.stop(PATIENCE)
                self._gather(pool, event, tally)
        finally:
            pool.stop()
        self.attempts.arrange(begun, tally.places)
        if stop is not None and stop.stopped == "budget":  # what was in flight has been paid for since
            stop = self._out_of_budget()
        return tally, stop

    def _gather(self, pool: Samples, event: IterationStarted, tally: Tally) -> Stop | None:
        """Takes in what the pool delivers, until it is empty; stops it when the run must end."""
        stop, refused, passed_over = None, self.refused, 0
        for outcome in pool:
            attempt = outcome.attempt
            self.attempts.append(attempt)
            tally.add(attempt)
            self.ledger.merge(attempt.tokens)
            self.tell("sample_done", attempt)
            passed_over += self._of_its_task(outcome, refused)
            if stop is None and (stop := self._reason(outcome, tally, passed_over, event.total_samples)):
                pool.stop()
        return stop

    def _of_its_task(self, outcome: Outcome, refused: Collection[str]) -> bool:
        """Whether a failure tells of its task alone, and not of the LM, which answers the others."""
        failure = outcome.failure
        if failure is None or is_transient(failure):
            return False
        too_long = isinstance(failure, ContextWindowExceededError) and bool(self.iterations)
        return too_long or outcome.attempt.task_key in refused

    def _reason(self, outcome: Outcome, tally: Tally, passed_over: int, total: int) -> Stop | None:
        """Why the run must end after this outcome, if it must; some failures do not count."""
        failure, failed, done = outcome.failure, tally.failures - passed_over, tally.samples - passed_over
        if isinstance(failure, FATAL):
            return Stop("failed", f"the LM cannot be used: {in_short(failure)}", failure)
        if failure is not None and self.budget.too_many_failures(failed, done, total):
            last = "the last:" if isinstance(failure, LMError) else "the last as the program raised"
            return Stop("failed", f"{failed} of {done} samples got no answer, {last} {in_short(failure)}", failure)
        return self._out_of_budget() if tally.samples < total and self.reached() else None

    def _out_of_budget(self) -> Stop:
        return Stop("budget", f"budget reached: {self.reached()}")

    def reached(self) -> str | None:
        """The limit that the run has reached, in words, or None."""
        return self.budget.reached(self.ledger.total + self.overhead.total, time.monotonic() - self.started)

    def _check_budget(self) -> None:
        reached = self.reached()
        if self.budget.iterations is not None and len(self.iterations) >= self.budget.iterations:
            done = len(self.iterations)
            reached = f"{done} iteration{'' if done == 1 else 's'} of {self.budget.iterations}"
        if reached:
            raise Stop("budget", f"budget reached: {reached}")

    def _learn(self, index: int, tasks: Sequence[Task], tally: Tally) -> tuple[str, ...]:
        """Books tokens on tasks and grows D by sigma; the keys of the tasks that were solved."""
        for task in tasks:
            self.spent[task.key] = self.spent.get(task.key, TokenCount()) + tally.spent(task.index)
        at_work = {task.index: task for task in tasks}
        drawn = (self.attempts[place] for place in range(len(self.attempts) - tally.samples, len(self.attempts)))
        earned: dict[str, Entry] = {}
        for number, own in groupby(drawn, key=lambda attempt: attempt.task):
            if correct := [attempt for attempt in own if attempt.passed]:
                task = at_work[number]
                earned[task.key] = self._entry(index, task, correct, tally.best(task))
        self.entries = in_task_order({**self.entries, **earned}, self.tasks)
        return tuple(earned)

    def _entry(self, index: int, task: Task, correct: Sequence[Attempt], best: TaskCount) -> Entry:
        rng = random.Random(derive_seed("sigma", self.sampler.sampling.seed, index, task.key))
        key, length = _of_outputs(self.domain.grouping_key), _of_outputs(self.domain.length)
        answer = choose_answer(correct, key, length, rng)
        return Entry(
            task_key=task.key,
            inputs=dict(task.example.inputs().items()),
            outputs=answer.outputs,
            successes=best.successes,
            samples=best.samples,
            temperature=best.temperature,
            iteration=index,
            answer_temperature=answer.temperature,
            answer_sample=answer.sample,
            tokens=self.spent[task.key],
            calls=answer.calls,
        )

    def _pass_at(self, k: int | None) -> float:
        return mean_pass_at(self.entries.values(), self.tasks, k)

    def _prompt_per_task(self) -> float:
        return (self.overhead.total.input + sum(count.input for count in self.spent.values())) / len(self.tasks)


def _of_outputs(function: Callable[[Mapping[str, Any]], Any]) -> Callable[[Attempt], Any]:
    return lambda attempt: function(attempt.outputs)


def _keys(entries: Iterable[Entry]) -> tuple[str, ...]:
    return tuple(entry.task_key for entry in entries)


def in_task_order(entries: Mapping[str, Entry], tasks: Mapping[str, Task]) -> dict[str, Entry]:
    """Entries of an earlier run's other tasks first, as they came, then this run's in task order."""
    prior = {key: entry for key, entry in entries.items() if key not in tasks}
    return prior | {key: entries[key] for key in tasks if key in entries}
