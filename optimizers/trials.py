"""What came of each task in each iteration, for strategies that learn from it.

Invariants: nothing changes while an iteration is sampled; the result does not depend on the order in which samples
finish; a run that is resumed sees what the interrupted one saw.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from optimizers.attempt import Attempt
from optimizers.strategies.base import Trial


class Trials:
    """The trials of the finished iterations, and every task's nearest miss.

    Attributes:
        finished: One per task and finished iteration, in order.
        nearest_misses: By task, the fields of its closest wrong answer; of equals that of the latest iteration, and
            there the first by temperature and sample.
    """

    def __init__(self, closeness: Callable[[Attempt], float]) -> None:
        self.finished: list[Trial] = []
        self.nearest_misses: dict[str, Mapping[str, Any]] = {}
        self._closeness = closeness
        self._closest: dict[str, float] = {}
        self._rewards: dict[str, list[float]] = {}
        self._misses: dict[str, tuple[tuple[float, float, int], Mapping[str, Any]]] = {}

    def add(self, attempt: Attempt) -> None:
        """Takes an attempt of the current iteration; unscored ones do not count."""
        if not attempt.scored:
            return
        closeness = self._closeness(attempt)
        self._rewards.setdefault(attempt.task_key, []).append(closeness)
        if attempt.outputs and not attempt.passed:
            place = (closeness, -attempt.temperature, -attempt.sample)
            if attempt.task_key not in self._misses or place > self._misses[attempt.task_key][0]:
                self._misses[attempt.task_key] = place, attempt.outputs

    def finish_iteration(self, shown: Mapping[str, Sequence[str]]) -> None:
        """Ends the current iteration.

        Args:
            shown: By task, in task order, the keys of the demonstrations that it was shown.
        """
        for key, demos in shown.items():
            rewards = self._rewards.get(key, [])
            self.finished.append(Trial(key, tuple(demos), math.fsum(rewards) / len(rewards) if rewards else 0.0))
        for key, ((closeness, *_), outputs) in self._misses.items():
            if closeness >= self._closest.get(key, -math.inf):
                self._closest[key], self.nearest_misses[key] = closeness, outputs
        self._rewards, self._misses = {}, {}
