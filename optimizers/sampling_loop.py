"""The sampling loop: through a pool of threads, until all samples are made, a limit is reached, or the user interrupts.

Invariants: results are taken in the calling thread, one at a time, in order of completion; once the loop must end, no
further sample starts, and those in flight are awaited, but only for seconds after an interrupt or the time limit; a
failure ends it only if it shows that the LM is unusable; limits of time are checked even while no result comes.
"""

from __future__ import annotations

import contextvars
import queue
import signal
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import dspy
from dspy.utils.exceptions import ContextWindowExceededError, LMError

from optimizers.attempt import JUDGE, Attempt, TaskExample, counted
from optimizers.budget import Budget, Spending
from optimizers.errors import MetricError, RunStopped, SampleError, TemperatureError, UnavailableError, one_line
from optimizers.experience import TaskCount
from optimizers.ledger import Ledger, TokenCount
from optimizers.observer import BaseObserver, InFlight, Observer
from optimizers.requests import ONLY, DeadlineReached, is_transient, refused
from optimizers.sampling import FATAL, Job, Sampler, SampleResult, Sampling

PATIENCE = 5.0
"""Seconds that samples in flight get when the user interrupts, or the time is up."""

MOST_RIGHT = 4
"""Right answers after which a task is sampled no further, although none of them suffices."""

TICK = 1.0
"""Seconds without a result after which limits are checked."""

_DONE: Any = object()


class IterationCounts:
    """Counts of samples, independent of the order in which they finish.

    Attributes:
        places: The place of each sample in the order of the algorithm: by task, temperature, sample.
        failures: Number of samples at which the program or the metric failed.
        unknown: Number of samples whose verdict is unknown.
        seconds: Time spent in the program, in seconds, summed over samples.
        metric_seconds: Time spent in the metric, in seconds, summed over samples.
    """

    def __init__(self, sampling: Sampling) -> None:
        self.places = array("Q")
        self.failures = self.unknown = 0
        self.seconds = self.metric_seconds = 0.0
        self._sampling = sampling
        self._temperatures = {temperature: place for place, temperature in enumerate(sampling.temperatures)}
        self._scored: dict[tuple[int, float], dict[int, bool]] = {}
        self._ledger = Ledger()
        self._spent: dict[int, TokenCount] = {}

    def add(self, attempt: Attempt) -> None:
        """Counts one sample."""
        of_task = attempt.task * len(self._temperatures) + self._temperatures[attempt.temperature]
        self.places.append(of_task * self._sampling.num_samples + attempt.sample)
        self.failures += attempt.failed
        self.unknown += attempt.unknown
        self.seconds += attempt.seconds
        self.metric_seconds += attempt.metric_seconds
        if attempt.scored:
            self._scored.setdefault((attempt.task, attempt.temperature), {})[attempt.sample] = attempt.passed
        self._ledger.merge(attempt.tokens)
        own = (count for name, count in attempt.tokens.items() if name != JUDGE)
        self._spent[attempt.task] = TokenCount.sum((self.spent(attempt.task), *own))

    @property
    def samples(self) -> int:
        """Number of samples."""
        return len(self.places)

    @property
    def tokens(self) -> dict[str, TokenCount]:
        """Tokens, per predictor."""
        return self._ledger.counts

    def spent(self, task: int) -> TokenCount:
        """Tokens of the task with this index, all predictors together, without those of the metric."""
        return self._spent.get(task, TokenCount())

    def counts(self, task: TaskExample) -> list[TaskCount]:
        """A task's counts at every temperature; unscored attempts count in neither number."""
        found = {temperature: self._scored.get((task.index, temperature), {}) for temperature in self._temperatures}
        return [
            TaskCount(task.key, temperature, *counted([own[place] for place in sorted(own)], self._sampling.stop_after))
            for temperature, own in found.items()
        ]

    def scored_at(self, temperature: float) -> int:
        """Number of scored samples at a temperature, of all tasks together."""
        return sum(len(own) for (_, at), own in self._scored.items() if at == temperature)

    def enough(self, task: int, temperature: float) -> bool:
        """Whether the task with this index has its right answers at a temperature, and is sampled there no further."""
        own, most = self._scored.get((task, temperature), {}), self._sampling.stop_after
        return most is not None and sum(own.copy().values()) >= most

    def pooled(self, task: TaskExample) -> tuple[int, int]:
        """A task's correct and scored samples at all temperatures together."""
        counts = self.counts(task)
        return sum(count.successes for count in counts), sum(count.samples for count in counts)

    def best(self, task: TaskExample) -> TaskCount:
        """The count with the highest rate; the first of equals."""
        return max(self.counts(task), key=lambda count: count.successes / count.samples if count.samples else -1.0)


class Pool:
    """Iterating over it gives the results of `work` over `jobs`; exceptions of `work` and `jobs` are raised there.

    Every job runs in its own copy of the context in which the pool was made, so that `dspy.context` holds in it. None
    starts before the first iteration, nor after `stop`; the result of a started one is delivered, in order of
    completion, unless its time runs out. At most `threads` jobs are started and not yet delivered, so that the
    iterating thread can stop in time. Threads are daemons, so a request that hangs does not keep the interpreter alive.

    Where `tick` seconds pass without a result, it gives None, so that the iterating thread can look at the clock.

    Attributes:
        running: The jobs in flight, the earliest first, each with the time at which it started.
    """

    def __init__(
        self, work: Callable[[Any], Any], jobs: Iterable[Any], threads: int, *, tick: float = float("inf")
    ) -> None:
        self.running: dict[Any, float] = {}
        self._work, self._jobs, self._threads, self._tick = work, iter(jobs), threads, tick
        self._context = contextvars.copy_context()
        self._todo: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[tuple[Any, Any, BaseException | None]] = queue.SimpleQueue()
        # Threads are kept: DSPy's cache opens its files in each.
        self._workers = 0
        self._stopped, self._deadline = False, float("inf")

    def stop(self, patience: float = float("inf")) -> None:
        """Starts no further jobs; delivers the results of running jobs for another `patience` seconds."""
        self._stopped, self._deadline = True, min(self._deadline, time.monotonic() + patience)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Delays Ctrl-C (and SIGTERM, if handled the same way) until between two results, or the end.

        So no result is lost while it is processed; a second Ctrl-C is raised at once. Outside the main thread, and
        where SIGINT has another handler, nothing changes.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        raising = signal.default_int_handler
        ours = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is raising]
        noted = False

        def set_handlers(handler: Any) -> None:
            for number in ours if threading.current_thread() is threading.main_thread() else ():
                signal.signal(number, handler)

        def note(*_: object) -> None:
            nonlocal noted
            noted = True
            set_handlers(raising)
            self._results.put((None, None, KeyboardInterrupt()))  # which is safe to call from a signal handler

        set_handlers(note)
        try:
            yield
        finally:
            set_handlers(raising)
        if noted:
            raise KeyboardInterrupt

    def __iter__(self) -> Iterator[Any]:
        try:
            yield from self._finished()
        finally:
            for _ in range(self._workers):
                self._todo.put(_DONE)

    def _finished(self) -> Iterator[Any]:
        while True:
            while not self._stopped and len(self.running) < self._threads:
                if (job := next(self._jobs, _DONE)) is _DONE:
                    break
                self.running[job] = time.monotonic()
                if self._workers < len(self.running):
                    self._workers += 1
                    threading.Thread(target=self._run, name="sample", daemon=True).start()
                self._todo.put(job)
            if not self.running:
                return
            remaining = self._deadline - time.monotonic()
            wait = max(0.0, min(remaining, self._tick))
            try:
                job, result, error = self._results.get(timeout=None if wait == float("inf") else wait)
            except queue.Empty:
                if remaining <= self._tick:
                    return
                yield None
                continue
            self.running.pop(job, None)
            if error is not None:
                self.stop()
                raise error
            yield result

    def _run(self) -> None:
        while (job := self._todo.get()) is not _DONE:
            try:
                self._results.put((job, self._context.copy().run(self._work, job), None))
            except BaseException as error:  # raised in the thread that iterates
                self._results.put((job, None, error))


@dataclass(frozen=True)
class SamplingLoop:
    """Samples a program.

    Attributes:
        spending: What is spent, and its limits, which are checked after every sample, and every second.
        take: Called with every attempt; an exception from it ends the loop.
        unanswered: Keys of the tasks without an answer in an earlier iteration, whose failures do not count.
        worked: Whether program and metric have worked for some answer before, and their exceptions are about others.
        max_errors: The number of failures that ends the loop, in place of the budget's share; None: the share does.
        in_flight: Called with the samples in flight after every sample, and every second.
    """

    sampler: Sampler
    spending: Spending
    take: Callable[[Attempt], None]
    unanswered: Collection[str] = ()
    max_errors: int | None = None
    in_flight: Callable[[tuple[InFlight, ...]], None] = lambda samples: None
    worked: bool = False

    def run(
        self,
        program: dspy.Module,
        jobs: Iterable[Job],
        counts: IterationCounts,
        total: int,
        taught: Sequence[str] = (),
        own_programs: Mapping[str, dspy.Module] | None = None,
    ) -> RunStopped | None:
        """Samples; returns why it ended early, or None.

        `jobs` may omit samples that are no longer needed, of `total` at most; `take` keeps their `counts`. `taught`
        and `own_programs` are as for `Sampler.worker`.
        """
        worker = self.sampler.worker(program, taught, own_programs, self.spending.deadline)
        pool = Pool(worker, jobs, min(self.sampler.sampling.threads, total), tick=TICK)  # starts within the `try`
        stop: RunStopped | None = None
        try:
            with pool.interruptible():
                stop = self._take_all(pool, counts, total)
        except KeyboardInterrupt:
            stop = RunStopped("interrupted", "interrupted")
            with suppress(KeyboardInterrupt):  # a second interrupt: keep what was taken so far
                pool.stop(PATIENCE)
                self._take_all(pool, counts, total)
        finally:
            pool.stop()
        if stop is not None and stop.stopped == "budget":  # samples in flight have been paid for since
            stop = self.spending.stop()
        return stop

    def _take_all(self, pool: Pool, counts: IterationCounts, total: int) -> RunStopped | None:
        """Takes results until the pool is empty; stops it when the loop must end."""
        stop, excused, own, worked = None, 0, 0, self.worked
        for results in pool:
            failure = None
            for result in results or ():
                self.take(result.attempt)
                failure = _named(result, counts)
                worked |= not (result.failure or result.attempt.error)
                if self._excused(result):
                    excused += 1
                else:
                    own += self.max_errors is None and _of_own_code(result.failure)
                stop = stop or self._reason(failure, counts, excused + own * worked, total)
            now = time.monotonic()
            self.in_flight(tuple(InFlight(job[0].task.key, now - at) for job, at in pool.running.items()))
            if stop is None:
                stop = self._reason(failure, counts, excused + own * worked, total)
            if stop is not None:
                pool.stop()
            if self.spending.overdue:
                pool.stop(PATIENCE)
        return stop

    def _excused(self, result: SampleResult) -> bool:
        """Whether a failure is due to the sample or its task alone, and not to the LM."""
        failure = result.failure
        if failure is None or isinstance(failure, SampleError | ContextWindowExceededError):
            return failure is not None
        return result.attempt.task_key in self.unanswered and not is_transient(failure)

    def _reason(
        self, failure: Exception | None, counts: IterationCounts, excused: int, total: int
    ) -> RunStopped | None:
        """Why the loop must end now, if it must, given the last sample's failure."""
        failed, done = counts.failures - excused, counts.samples - excused
        if isinstance(failure, DeadlineReached):
            return self.spending.stop()
        # All samples so far were refused, at least one of each task and temperature.
        none_fits = excused == counts.samples >= total // self.sampler.sampling.num_samples
        if isinstance(failure, ContextWindowExceededError) and none_fits:
            message = "every prompt is too long for the LM, even without demonstrations"
            return RunStopped("failed", f"{message}: {one_line(failure)}", failure)
        unavailable = failure.__cause__ if isinstance(failure, MetricError) else failure
        if isinstance(unavailable, UnavailableError):
            return RunStopped("failed", unavailable.message, unavailable)
        if isinstance(failure, FATAL):
            return RunStopped("failed", f"the LM cannot be used: {one_line(failure)}", failure)
        if isinstance(failure, TemperatureError) or (isinstance(failure, MetricError) and failure.fatal):
            return RunStopped("failed", str(failure), failure)
        if failure is not None and self.spending.budget.too_many_failures(failed, done, total, self.max_errors):
            return RunStopped("failed", f"{failed} of {done} samples got no {_last(failure)}", failure)
        return self.spending.stop() if counts.samples < total and self.spending.reached() else None


def _named(result: SampleResult, counts: IterationCounts) -> Exception | None:
    """The sample's failure; a `TemperatureError` if that says so, and no sample at the temperature has an answer."""
    failure, temperature = result.failure, result.attempt.temperature
    if failure is None or not refused(failure) or counts.scored_at(temperature):
        return failure
    error = TemperatureError(f"temperatures: the LM refuses {temperature:g}; give {ONLY} alone: {one_line(failure)}")
    error.__cause__ = failure
    return error


def _of_own_code(failure: Exception | None) -> bool:
    """Whether a failure is that of the program or the metric, neither of the LM nor of another service."""
    cause = failure.__cause__ if isinstance(failure, MetricError) else failure
    return cause is not None and not isinstance(cause, LMError | OSError)


def _last(failure: Exception) -> str:
    """What the last failed sample lacks, and why."""
    if isinstance(failure, MetricError):
        return f"verdict, the last: {failure}"
    last = "the last:" if isinstance(failure, LMError) else "the last as the program raised"
    return f"answer, {last} {one_line(failure)}"


@dataclass(frozen=True)
class UntilSolved:
    """The attempts, and why sampling ended early, if it did.

    Attributes:
        attempts: The attempts at each task, by its name, in the order of sampling.
        stopped: None, `interrupted`, `budget` if a limit was reached, or `failed` if the LM became unusable.
        message: One line about `stopped`.
    """

    attempts: Mapping[str, list[Attempt]]
    stopped: str | None = None
    message: str = ""

    def right(self, name: str) -> list[Attempt]:
        """The first right answers to a task, `MOST_RIGHT` at most, the same for any number of threads."""
        return [attempt for attempt in self.attempts[name] if attempt.passed][:MOST_RIGHT]


def sample_until_solved(
    program: dspy.Module,
    examples: Mapping[str, dspy.Example],
    sampler: Sampler,
    on_solved: Callable[[str], None] = lambda name: None,
    budget: Budget | None = None,
    watch: Observer | None = None,
    suffices: Callable[[Attempt], bool] = lambda right: True,
    own_programs: Mapping[str, dspy.Module] | None = None,
) -> UntilSolved:
    """Samples until every task has a right answer that suffices, or `MOST_RIGHT` right ones, or all its samples.

    `examples` are the tasks by name, `own_programs` the programs of those that are asked by another one; `on_solved` is
    called with a task's name when its first right answer arrives.
    The answer found is the first in order of sampling that passes, for any number of threads: only samples after one
    that passed are omitted. Answers in flight when a limit of the budget is reached are still awaited, and everything
    sampled before an interrupt or a failure of the LM is kept.

    Raises:
        MetricError: The metric cannot be used, or fails before it gives any verdict.
        LMError: The LM fails before it gives any answer.
    """
    spending, watch = Spending(budget or Budget()), watch or BaseObserver()
    tasks = [TaskExample(index, name, example) for index, (name, example) in enumerate(examples.items())]
    counts, attempts, solved = IterationCounts(sampler.sampling), list[Attempt](), set[str]()
    right = Counter[str]()

    def take(attempt: Attempt) -> None:
        attempts.append(attempt)
        counts.add(attempt)
        spending.add(attempt.tokens)
        watch.sample_done(attempt)
        if attempt.passed and attempt.task_key not in solved:
            right[attempt.task_key] += 1
            if right[attempt.task_key] == 1:
                on_solved(attempt.task_key)
            if right[attempt.task_key] == MOST_RIGHT or suffices(attempt):
                solved.add(attempt.task_key)

    jobs = (job for job in sampler.jobs(0, tasks) if job[0].task.key not in solved)
    total = len(tasks) * len(sampler.sampling.temperatures) * sampler.sampling.num_samples
    loop = SamplingLoop(sampler, spending, take, in_flight=watch.in_flight)
    stop = loop.run(program, jobs, counts, total, own_programs=own_programs)
    if stop is not None and (cause := stop.unusable(scored=not all(attempt.failed for attempt in attempts))):
        raise cause from cause.__cause__
    order = {temperature: place for place, temperature in enumerate(sampler.sampling.temperatures)}
    attempts.sort(key=lambda attempt: (attempt.sample, order[attempt.temperature]))
    by_task = {task.key: [attempt for attempt in attempts if attempt.task_key == task.key] for task in tasks}
    if stop is None:
        return UntilSolved(by_task)
    return UntilSolved(by_task, stop.stopped, one_line(stop.cause) if stop.cause is not None else stop.message)
