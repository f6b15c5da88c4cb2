"""Samples a program until every task has a right answer.

Invariants: a task is sampled until an answer passes; the answer found is the first in order of sampling that passes,
for any number of threads, since only samples after one that passed are omitted; everything sampled before an
interrupt, a limit of the budget, or a failure of the LM is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import dspy

from optimizers.attempt import Attempt
from optimizers.budget import Budget, Spending
from optimizers.errors import one_line
from optimizers.iteration_counts import IterationCounts
from optimizers.observer import BaseObserver, Observer
from optimizers.sampling import Sampler, TaskExample
from optimizers.sampling_loop import SamplingLoop


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

    def found(self, name: str) -> Attempt | None:
        """The first right answer to a task, or None."""
        return next((attempt for attempt in self.attempts[name] if attempt.passed), None)


def sample_until_solved(
    program: dspy.Module,
    examples: Mapping[str, dspy.Example],
    sampler: Sampler,
    on_solved: Callable[[str], None] = lambda name: None,
    budget: Budget | None = None,
    watch: Observer | None = None,
) -> UntilSolved:
    """Samples until every task has a right answer or all its samples.

    `examples` are the tasks by name; `on_solved` is called with a task's name when its first right answer arrives.
    Answers in flight when a limit of the budget is reached are still awaited.

    Raises:
        MetricError: The metric cannot be used, or fails before it gives any verdict.
        LMError: The LM fails before it gives any answer.
    """
    spending, watch = Spending(budget or Budget()), watch or BaseObserver()
    tasks = [TaskExample(index, name, example) for index, (name, example) in enumerate(examples.items())]
    counts, attempts, solved = IterationCounts(sampler.sampling), list[Attempt](), set[str]()

    def take(attempt: Attempt) -> None:
        attempts.append(attempt)
        counts.add(attempt)
        spending.add(attempt.tokens)
        watch.sample_done(attempt)
        if attempt.passed and attempt.task_key not in solved:
            solved.add(attempt.task_key)
            on_solved(attempt.task_key)

    specs = (spec for spec in sampler.samples(0, tasks) if spec.task.key not in solved)
    total = len(tasks) * len(sampler.sampling.temperatures) * sampler.sampling.num_samples
    loop = SamplingLoop(sampler, spending, take, in_flight=watch.in_flight)
    stop = loop.run(program, specs, counts, total)
    if stop is not None and (cause := stop.unusable(scored=not all(attempt.failed for attempt in attempts))):
        raise cause from cause.__cause__
    order = {temperature: place for place, temperature in enumerate(sampler.sampling.temperatures)}
    attempts.sort(key=lambda attempt: (attempt.sample, order[attempt.temperature]))
    by_task = {task.key: [attempt for attempt in attempts if attempt.task_key == task.key] for task in tasks}
    if stop is None:
        return UntilSolved(by_task)
    return UntilSolved(by_task, stop.stopped, one_line(stop.cause) if stop.cause is not None else stop.message)
