"""`hard-first`: the hardest half of D."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import ClassVar

from optimizers.experience import Entry
from optimizers.strategies.cycles import Cycles
from optimizers.strategies.levels import hardest_first


class HardFirst(Cycles):
    """The hardest half of D by rank, rounded up, regardless of the rates."""

    name: ClassVar[str] = "hard-first"

    def order(self, entries: Sequence[Entry], rng: random.Random) -> list[list[Entry]]:
        """Only that half, hardest first."""
        return [hardest_first(entries)[: (len(entries) + 1) // 2]]

    def level_label(self, level: int) -> str:
        """`hardest`."""
        return "hardest"
