"""`similar`: the nearest solved tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from optimizers.strategies.per_task import MOST, PerTask, fill
from optimizers.strategies.structure import Candidate, Pick, Structures, Weights


@dataclass(frozen=True)
class Similar(PerTask):
    """Solved tasks by their similarity to the task, the most similar first."""

    most: int = MOST
    name: ClassVar[str] = "similar"

    def pick(self, query: Structures, pool: Sequence[Candidate], weights: Weights, tokens: int | None) -> list[Pick]:
        """The nearest that fit."""
        ranked = [(weights.similarity(query, candidate.structures), candidate) for candidate in pool]
        ranked.sort(key=lambda pair: -pair[0])
        return fill([(candidate, f"similarity {score:.2f}") for score, candidate in ranked], tokens, self.most)
