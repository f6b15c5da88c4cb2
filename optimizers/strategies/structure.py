"""The data of strategies that choose per task: structures of demonstrations, weights, sizes, and values.

A structure is any hashable feature of a task or of its answer, as `Domain.features` returns them. Rare structures weigh
more: w(f) = log(1 + n / df(f)), where df(f) of the n solved tasks have f.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass

from optimizers.experience import Entry
from optimizers.strategies.base import Progress, Trial

Structures = frozenset[Hashable]


@dataclass(frozen=True)
class Candidate:
    """A solved task that may be shown.

    Attributes:
        entry: The solved task.
        structures: Of the task and of its answer.
        tokens: Estimated size of its demonstration, in tokens.
        value: Learned utility, from 0; see `utilities`.
    """

    entry: Entry
    structures: Structures
    tokens: int
    value: float


@dataclass(frozen=True)
class Pick:
    """A chosen demonstration, and why it was chosen, in a few words."""

    entry: Entry
    reason: str


class Weights:
    """Weights of structures, from how many solved tasks have each."""

    def __init__(self, solved: Collection[Structures]) -> None:
        counts = Counter(structure for structures in solved for structure in structures)
        self._weights = {structure: math.log1p(len(solved) / count) for structure, count in counts.items()}

    def total(self, structures: Structures) -> float:
        """The summed weight; structures that no solved task has weigh 0."""
        return math.fsum(self._weights.get(structure, 0.0) for structure in structures)

    def similarity(self, one: Structures, other: Structures) -> float:
        """The weighted Jaccard index, in [0, 1]: the common weight over the weight of the union."""
        union = self.total(one | other)
        return self.total(one & other) / union if union else 0.0

    def heaviest(self, structures: Structures, count: int = 3) -> list[str]:
        """The texts of the structures with the largest weights."""
        return [str(s) for s in sorted(structures, key=lambda s: (-self._weights.get(s, 0.0), str(s)))[:count]]


def candidates_of(
    progress: Progress, entries: Sequence[Entry], values: Mapping[str, float] | None = None
) -> list[Candidate]:
    """The entries with their structures, sizes and values, in their order; None: the values that the run learned."""
    values = utilities(progress.trials) if values is None else values
    return [
        Candidate(
            entry,
            progress.structures(entry.inputs, entry.outputs),
            progress.demo_tokens(entry),
            values.get(entry.task_key, 0.0),
        )
        for entry in entries
    ]


def utilities(trials: Sequence[Trial], rate: float = 0.3) -> Mapping[str, float]:
    """The learned utility of each demonstration that was ever shown, by task key, from 0.

    Each time a demonstration is shown, its value moves by rate · ((r - mean) - value), for a rate in (0, 1]. r is the
    reward of the task that it was shown to; mean is the mean reward of that task's earlier trials, 0 for the first
    (after MemRL, arXiv 2601.03192).
    """
    values: dict[str, float] = defaultdict(float)
    earlier: dict[str, list[float]] = defaultdict(list)
    for trial in trials:
        rewards = earlier[trial.task_key]
        gain = trial.reward - (math.fsum(rewards) / len(rewards) if rewards else 0.0)
        for key in trial.demos:
            values[key] += rate * (gain - values[key])
        rewards.append(trial.reward)
    return values
