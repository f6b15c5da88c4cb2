"""What each arm shows for a task, within a budget of tokens.

An arm is a strategy of the product. Every arm fills the budget by one rule: in its order, whatever still fits. A
strategy that shows sets regardless of the task orders its first set at random, then what its later sets add, so that
arms differ in what they choose among and not in how much they show; `everything` is the strict order, hardest first. A
strategy that chooses per task takes its first set, then goes on with the pools of its later sets. What is chosen is
shown in random order in all arms.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.selection.worlds import World
from optimizers import Entry, IterationResult
from optimizers.sampling import TaskExample
from optimizers.strategies.base import Trial
from optimizers.strategies.everything import Everything
from optimizers.strategies.levels import hardest_first
from optimizers.strategies.per_task import PerTask
from optimizers.strategies.random_choice import RandomChoice
from optimizers.strategies.registry import make_selection

NONE = "none"
REFERENCE = "adaptive"
ARMS = (
    NONE, "hard-first", REFERENCE, "random", "easy-first", "everything", "similar", "mmr", "coverage", "utility",
    "hybrid",
)  # fmt: skip


@dataclass(frozen=True)
class Learned:
    """The experience of a fold as strategies see it (see `optimizers.strategies.base.Progress`)."""

    world: World
    entries: Mapping[str, Entry]
    trials: Sequence[Trial]
    seed: int
    max_demo_tokens: int | None = None
    unsolved: Sequence[TaskExample] = ()
    tasks: Mapping[str, TaskExample] = field(default_factory=dict)
    iterations: Sequence[IterationResult] = ()
    nearest_misses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def structures(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None) -> frozenset[Hashable]:
        """See `Progress.structures`."""
        return self.world.structures(inputs, outputs)

    def demo_tokens(self, entry: Entry) -> int:
        """See `Progress.demo_tokens`."""
        return self.world.demo_tokens(entry)


class Arm:
    """An arm on the experience of one fold."""

    def __init__(self, name: str, learned: Learned) -> None:
        self.name, self._learned = name, learned
        self._strategy = make_selection(name)
        self._sets = list(self._strategy.candidates(learned)) if name != NONE else []

    def show(self, key: str, budget: int) -> tuple[Entry, ...]:
        """The demonstrations for a task, in the order shown."""
        rng = random.Random(f"shown {self._learned.seed} {self.name} {key} {budget}")
        shown = self._per_task(key, budget) if isinstance(self._strategy, PerTask) else self._set(rng, budget)
        return tuple(rng.sample(shown, len(shown)))

    def _per_task(self, key: str, budget: int) -> list[Entry]:
        chosen: dict[str, Entry] = {}
        task, known = self._learned.world.tasks[key], list(self._learned.entries.values())
        for demo_set in self._sets:
            left = budget - sum(self._learned.demo_tokens(entry) for entry in chosen.values())
            assert demo_set.select is not None
            others = [entry for entry in known if entry.task_key not in chosen]
            chosen |= {entry.task_key: entry for entry in demo_set.select(task, others, left)}
        return list(chosen.values())

    def _set(self, rng: random.Random, budget: int) -> list[Entry]:
        ordered: dict[str, Entry] = {}
        entries = list(self._learned.entries.values())
        sets: list[Sequence[Entry]] = [demo_set.demos for demo_set in self._sets]
        if isinstance(self._strategy, RandomChoice):
            sets = [entries]
        for demos in (*sets, entries):
            added = [entry for entry in demos if entry.task_key not in ordered]
            added = rng.sample(added, len(added))
            if isinstance(self._strategy, Everything):
                added = hardest_first(added)  # only entries of one rate are in random order
            ordered |= {entry.task_key: entry for entry in added}
        return filled(ordered.values(), self._learned, budget)


def filled(ordered: Iterable[Entry], learned: Learned, budget: int) -> list[Entry]:
    """In order, whatever still fits the budget."""
    chosen = []
    for entry in ordered:
        if (tokens := learned.demo_tokens(entry)) <= budget:
            chosen.append(entry)
            budget -= tokens
    return chosen
