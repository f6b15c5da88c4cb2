"""`easy-first`: the levels of `adaptive` in reverse order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from optimizers.experience import Entry
from optimizers.strategies.cycles import Cycles
from optimizers.strategies.levels import cumulative, stratify


@dataclass(frozen=True)
class EasyFirst(Cycles):
    """The easiest level of D, then the easiest two, and so on up to D."""

    granularity: int = 3
    name: ClassVar[str] = "easy-first"

    def order(self, entries: Sequence[Entry], rng: random.Random) -> list[list[Entry]]:
        """Unions of levels, the easiest level first; hardest first within a level."""
        return cumulative(stratify(entries, self.granularity)[::-1])

    def level_label(self, level: int) -> str:
        """`easy-1`, `easy-2`, …: how many levels, from the easiest."""
        return f"easy-{level + 1}"
