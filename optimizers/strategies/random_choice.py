"""`random`: as many demonstrations as `adaptive` takes, at random."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from optimizers.experience import Entry
from optimizers.strategies.base import Cycles, cumulative, stratify


@dataclass(frozen=True)
class RandomChoice(Cycles):
    """Random sets without replacement, of the sizes of those of `adaptive`: the control for difficulty."""

    granularity: int = 3
    name: ClassVar[str] = "random"

    def order(self, entries: Sequence[Entry], rng: random.Random) -> list[list[Entry]]:
        """Sets of the sizes of d_0, d_1, …, each in random order."""
        return [rng.sample(list(entries), len(demos)) for demos in cumulative(stratify(entries, self.granularity))]

    def level_label(self, level: int) -> str:
        """`random-1`, `random-2`, …: the level whose size the set has."""
        return f"random-{level + 1}"
