"""Strategies that choose the demonstrations of each task by its own structures."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from optimizers.experience import Entry
from optimizers.sampling import TaskExample
from optimizers.strategies.base import DemoSet, Progress
from optimizers.strategies.cycles import Cycles
from optimizers.strategies.levels import hardest_first
from optimizers.strategies.structure import Candidate, Pick, Structures, Weights, candidates_of

MOST = 8
"""Demonstrations for a task where no number of tokens limits them."""


class PerTask(Cycles):
    """Cycles over pools of solved tasks; a pool offers every unsolved task the demonstrations that suit it.

    A task is compared by the structures of its inputs and of its nearest miss, its best wrong answer so far. The
    compiled program, which serves any task, carries what suits all tasks of the run taken together.
    """

    name: ClassVar[str]

    @abstractmethod
    def pick(self, query: Structures, pool: Sequence[Candidate], weights: Weights, tokens: int | None) -> list[Pick]:
        """Demonstrations for a task, the most useful first.

        Args:
            query: Structures of the task and its nearest miss.
            pool: The candidates, hardest first, which breaks ties.
            weights: Weights of structures.
            tokens: Estimated tokens that all demonstrations together may have; None for no limit.
        """

    def order(self, entries: Sequence[Entry], rng: random.Random) -> list[list[Entry]]:
        """The pools: D alone, hardest first."""
        return [hardest_first(entries)]

    def level_label(self, level: int) -> str:
        """The strategy's name."""
        return self.name

    def _cycle(self, progress: Progress, cycle: int) -> list[DemoSet]:
        sets = []
        for demo_set in super()._cycle(progress, cycle):
            chooser = Chooser(self, progress, demo_set.demos)
            shared = chooser.for_all(progress.tasks.values())
            sets.append(replace(demo_set, demos=shared, select=chooser.for_task, reason=chooser.reason))
        return sets


class Chooser:
    """Chooses from one pool; remembers the reasons. `values` are as for `candidates_of`."""

    def __init__(
        self,
        strategy: PerTask,
        progress: Progress,
        entries: Sequence[Entry],
        values: Mapping[str, float] | None = None,
    ) -> None:
        self._strategy, self._progress = strategy, progress
        self._pool = candidates_of(progress, entries, values)
        self._weights = Weights([each.structures for each in self._pool])
        self._reasons: dict[tuple[str, str], str] = {}

    def for_task(self, task: TaskExample, experience: Sequence[Entry], token_budget: int | None) -> list[Entry]:
        """See `SelectForTask`; only entries of `experience` are chosen."""
        known = {entry.task_key for entry in experience} - {task.key}
        pool = [candidate for candidate in self._pool if candidate.entry.task_key in known]
        picks = self._strategy.pick(self._query(task), pool, self._weights, token_budget)
        self._reasons.update({(task.key, pick.entry.task_key): pick.reason for pick in picks})
        return hardest_first(pick.entry for pick in picks)

    def for_all(self, tasks: Iterable[TaskExample]) -> list[Entry]:
        """The demonstrations that suit all tasks together, the most useful first, within the token budget."""
        query = frozenset[object]().union(*map(self._query, tasks))
        picks = self._strategy.pick(query, self._pool, self._weights, self._progress.max_demo_tokens)
        return [pick.entry for pick in picks]

    def reason(self, task: TaskExample, entry: Entry) -> str:
        """Why the entry was chosen for the task."""
        return self._reasons.get((task.key, entry.task_key), "")

    def _query(self, task: TaskExample) -> Structures:
        inputs = dict(task.example.inputs().items())
        return self._progress.structures(inputs, self._progress.nearest_misses.get(task.key))


def fill(ranked: Sequence[tuple[Candidate, str]], tokens: int | None, most: int) -> list[Pick]:
    """The best of a ranking that fit into `tokens`, or the best `most` where there is no limit.

    Entries that are too large are skipped.
    """
    picks: list[Pick] = []
    left = tokens
    for candidate, reason in ranked:
        if left is None:
            if len(picks) == most:
                break
        elif candidate.tokens > left:
            continue
        else:
            left -= candidate.tokens
        picks.append(Pick(candidate.entry, reason))
    return picks
