"""`adaptive`: levels of difficulty, the hardest first (paper, Section 3.2, Algorithm 1)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from optimizers.experience import Entry
from optimizers.strategies.base import Cycles, cumulative, stratify


@dataclass(frozen=True)
class Adaptive(Cycles):
    """The hardest of m levels of D, then the hardest two, and so on up to D."""

    granularity: int = 3
    name: ClassVar[str] = "adaptive"

    def order(self, entries: Sequence[Entry], rng: random.Random) -> list[list[Entry]]:
        """d_0, d_1, …, hardest first, ties by task order."""
        return cumulative(stratify(entries, self.granularity))

    def level_label(self, level: int) -> str:
        """`H`, `HM`, `HME` for three levels, else `1`, `12`, … (`1-2` from ten on)."""
        if self.granularity == 3:
            return "HME"[: level + 1]
        return ("" if self.granularity < 10 else "-").join(str(j + 1) for j in range(level + 1))
