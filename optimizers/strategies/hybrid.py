"""`hybrid`: the paper's levels of difficulty, and within each level the tasks that cover the task and have helped."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from optimizers.experience import Entry
from optimizers.strategies.adaptive import Adaptive
from optimizers.strategies.coverage import cover
from optimizers.strategies.per_task import PerTask
from optimizers.strategies.structure import Candidate, Pick, Structures, Weights


@dataclass(frozen=True)
class Hybrid(PerTask):
    """Pools d_0, d_1, … of `adaptive`; from each, marginal coverage times (1 + learned utility) per token."""

    granularity: int = 3
    name: ClassVar[str] = "hybrid"

    def order(self, entries: Sequence[Entry], rng: random.Random) -> list[list[Entry]]:
        """d_0, d_1, …, as `adaptive` orders them."""
        return Adaptive(self.granularity).order(entries, rng)

    def level_label(self, level: int) -> str:
        """`hybrid-H`, `hybrid-HM`, …: the levels of the pool."""
        return f"{self.name}-{Adaptive(self.granularity).level_label(level)}"

    def pick(self, query: Structures, pool: Sequence[Candidate], weights: Weights, tokens: int | None) -> list[Pick]:
        """Greedily, among those that still fit; a utility of -1 or less counts as nearly none."""
        return cover(query, pool, weights, tokens, lambda candidate: max(0.01, 1 + candidate.value))
