"""`everything`: all of D in every iteration."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import ClassVar

from optimizers.experience import Entry
from optimizers.strategies.base import Cycles, hardest_first


class Everything(Cycles):
    """All of D, hardest first, as `adaptive` with one level."""

    name: ClassVar[str] = "everything"

    def order(self, entries: Sequence[Entry], rng: random.Random) -> list[list[Entry]]:
        """D alone."""
        return [hardest_first(entries)]

    def level_label(self, level: int) -> str:
        """`all`."""
        return "all"
