"""Drawing answers to tasks until each has a right one.

- A task is asked for again until an answer passes; the earliest drawn that passes is the one found, whatever the number
  of threads, as no answer is skipped but those that come after one that passed.
- What was drawn before an interrupt, a limit of the budget, or before the LM gave out, is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import dspy

from optimizers import Attempt, Budget, TokenCount
from optimizers.errors import in_short
from optimizers.pool import Pool
from optimizers.sampling import FATAL, Job, Outcome, Sampler
from optimizers.sampling import Task as Slot
from step_runtime.tasks.task import Task

PATIENCE = 5.0
"""Seconds that answers in flight are given when a person interrupts."""


@dataclass(frozen=True)
class Search:
    """What was drawn: the attempts at each task in the order of drawing, and why it ended early, if it did.

    `stopped` is None, `interrupted`, `budget` where a limit is reached, or `failed` where the LM gave out; `message`
    tells more.
    """

    attempts: dict[str, list[Attempt]]
    stopped: str | None = None
    message: str = ""

    def found(self, name: str) -> Attempt | None:
        """The earliest right answer to a task."""
        return next((attempt for attempt in self.attempts[name] if attempt.passed), None)


def search(
    agent: dspy.Module,
    tasks: Sequence[Task],
    sampler: Sampler,
    tell: Callable[[str], None],
    budget: Budget | None = None,
) -> Search:
    """Draws until every task has a right answer, or all its samples.

    Args:
        agent: takes a `task`, gives an `impl`.
        tasks: of different names.
        sampler: of at most so many samples.
        tell: is told the name of each task when it is solved.
        budget: limits; answers in flight when one is reached are still waited for.

    Raises:
        MetricError: a task's own code failed.
        LMError: the LM failed before it gave any answer.
    """
    slots = [Slot(i, task.name, dspy.Example(task=task).with_inputs("task")) for i, task in enumerate(tasks)]
    drawing = _Drawing(agent, slots, sampler, tell, budget or Budget())
    stopped, message = None, ""
    try:
        if reached := drawing.gather():
            stopped, message = "budget", f"budget reached: {reached}"
    except _GaveOut as error:
        if not any(attempt.scored for attempt in drawing.attempts):
            raise error.cause from None
        stopped, message = "failed", in_short(error.cause)
        drawing.end()
    except KeyboardInterrupt:
        stopped, message = "interrupted", "interrupted"
        with suppress(KeyboardInterrupt):  # a second time: what is in hand will do
            drawing.end()
    finally:
        drawing.pool.stop()
    order = {temperature: place for place, temperature in enumerate(sampler.sampling.temperatures)}
    drawn = sorted(drawing.attempts, key=lambda attempt: (attempt.sample, order[attempt.temperature]))
    by_task = {slot.key: [attempt for attempt in drawn if attempt.task_key == slot.key] for slot in slots}
    return Search(by_task, stopped, message)


class _GaveOut(Exception):
    """The LM can't be used any longer."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class _Drawing:
    """The answers so far, and the pool that draws more."""

    def __init__(
        self,
        agent: dspy.Module,
        slots: Sequence[Slot],
        sampler: Sampler,
        tell: Callable[[str], None],
        budget: Budget,
    ) -> None:
        self._budget, self._started = budget, time.monotonic()
        self.attempts: list[Attempt] = []
        self._solved: set[str] = set()
        self._spent = TokenCount()
        self._failed = 0
        sampling = sampler.sampling
        self._total = len(slots) * len(sampling.temperatures) * sampling.num_samples
        self._tell = tell
        jobs = (job for job in sampler.jobs(0, slots) if job.task.key not in self._solved)
        self.pool: Pool[Job, Outcome] = Pool(sampler.worker(agent), jobs, min(sampler.in_hand, self._total))

    def gather(self) -> str | None:
        """Takes in what the pool delivers, until it is empty; the limit that was reached, if one was."""
        reached = None
        for outcome in self.pool:
            self._take(outcome.attempt)
            if (failure := outcome.failure) is not None:
                self._failed += 1
                many = self._budget.too_many_failures(self._failed, len(self.attempts), self._total)
                if many or isinstance(failure, FATAL):
                    raise _GaveOut(failure)
            if reached is None and (reached := self._budget.reached(self._spent, time.monotonic() - self._started)):
                self.pool.stop()
        return reached

    def end(self) -> None:
        """Lets nothing further begin, and takes in what is in flight while patience lasts."""
        self.pool.stop(PATIENCE)
        for outcome in self.pool:
            self._take(outcome.attempt)

    def _take(self, attempt: Attempt) -> None:
        self.attempts.append(attempt)
        self._spent = TokenCount.sum([self._spent, *attempt.tokens.values()])
        if attempt.passed and attempt.task_key not in self._solved:
            self._solved.add(attempt.task_key)
            self._tell(attempt.task_key)
