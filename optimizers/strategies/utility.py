"""`utility`: of the nearest solved tasks, those that helped most when they were shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from optimizers.strategies.per_task import MOST, PerTask, fill
from optimizers.strategies.structure import Candidate, Pick, Structures, Weights


@dataclass(frozen=True)
class Utility(PerTask):
    """The nearest solved tasks, ranked again by similarity + learned utility (see `structure.utilities`).

    Attributes:
        nearest: Number k of the nearest that are ranked again.
    """

    most: int = MOST
    nearest: int = 2 * MOST
    name: ClassVar[str] = "utility"

    def pick(self, query: Structures, pool: Sequence[Candidate], weights: Weights, tokens: int | None) -> list[Pick]:
        """The nearest, the most useful first, as far as they fit."""
        near = [(weights.similarity(query, candidate.structures), candidate) for candidate in pool]
        near = sorted(near, key=lambda pair: -pair[0])[: self.nearest]
        near.sort(key=lambda pair: -(pair[0] + pair[1].value))
        ranked = [(c, f"similarity {score:.2f}, utility {c.value:+.2f}") for score, c in near]
        return fill(ranked, tokens, self.most)
