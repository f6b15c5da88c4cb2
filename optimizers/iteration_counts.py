"""The counts of an iteration's samples, updated as samples finish, so that no sample has to be kept for them."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from optimizers.attempt import Attempt
from optimizers.call_metric import JUDGE
from optimizers.experience import TaskCount
from optimizers.ledger import Ledger, TokenCount
from optimizers.sampling import Sampling, TaskExample


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
        self._scored: Counter[tuple[int, float]] = Counter()
        self._passed: Counter[tuple[int, float]] = Counter()
        self._ledger = Ledger()
        self._spent: dict[int, TokenCount] = {}

    def add(self, attempt: Attempt) -> None:
        """Counts one sample."""
        key = attempt.task, attempt.temperature
        of_task = attempt.task * len(self._temperatures) + self._temperatures[attempt.temperature]
        self.places.append(of_task * self._sampling.num_samples + attempt.sample)
        self.failures += attempt.failed
        self.unknown += attempt.unknown
        self.seconds += attempt.seconds
        self.metric_seconds += attempt.metric_seconds
        self._scored[key] += attempt.scored
        self._passed[key] += attempt.passed
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
        keys = [(task.index, temperature) for temperature in self._temperatures]
        return [TaskCount(task.key, key[1], self._passed[key], self._scored[key]) for key in keys]

    def scored_at(self, temperature: float) -> int:
        """Number of scored samples at a temperature, of all tasks together."""
        return sum(count for (_, at), count in self._scored.items() if at == temperature)

    def pooled(self, task: TaskExample) -> tuple[int, int]:
        """A task's correct and scored samples at all temperatures together."""
        counts = self.counts(task)
        return sum(count.successes for count in counts), sum(count.samples for count in counts)

    def best(self, task: TaskExample) -> TaskCount:
        """The count with the highest rate; the first of equals."""
        return max(self.counts(task), key=lambda count: count.successes / count.samples if count.samples else -1.0)


class NearestMisses:
    """Every task's closest wrong answer in the finished iterations.

    Attributes:
        fields: By task, the fields of that answer; of equally close ones that of the latest iteration, and there the
            first by temperature and sample.
    """

    def __init__(self, closeness: Callable[[Attempt], float]) -> None:
        self.fields: dict[str, Mapping[str, Any]] = {}
        self._closeness = closeness
        self._closest: dict[str, float] = {}
        self._latest: dict[str, tuple[tuple[float, float, int], Mapping[str, Any]]] = {}

    def add(self, attempt: Attempt) -> None:
        """Takes an attempt of the current iteration; unscored ones do not count."""
        if not attempt.scored or attempt.passed or not attempt.outputs:
            return
        place = (self._closeness(attempt), -attempt.temperature, -attempt.sample)
        if attempt.task_key not in self._latest or place > self._latest[attempt.task_key][0]:
            self._latest[attempt.task_key] = place, attempt.outputs

    def finish_iteration(self) -> None:
        """Ends the current iteration."""
        for key, ((closeness, *_), outputs) in self._latest.items():
            if closeness >= self._closest.get(key, -math.inf):
                self._closest[key], self.fields[key] = closeness, outputs
        self._latest = {}
