"""`mmr`: the nearest solved tasks that are not like each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from optimizers.strategies.per_task import MOST, PerTask, fill
from optimizers.strategies.structure import Candidate, Pick, Structures, Weights


@dataclass(frozen=True)
class MaximalMarginalRelevance(PerTask):
    """Greedily the solved task of the largest λ · similarity to the task - (1 - λ) · similarity to what is shown.

    Attributes:
        relevance: λ, in [0, 1]; at 1 this is `similar`.
    """

    most: int = MOST
    relevance: float = 0.7
    name: ClassVar[str] = "mmr"

    def pick(self, query: Structures, pool: Sequence[Candidate], weights: Weights, tokens: int | None) -> list[Pick]:
        """Greedily, among those that still fit."""
        near = {id(candidate): weights.similarity(query, candidate.structures) for candidate in pool}
        like = dict.fromkeys(near, 0.0)  # the similarity to the most similar chosen one
        left, ranked = list(pool), list[tuple[Candidate, str]]()
        room = float("inf") if tokens is None else tokens
        while left := [candidate for candidate in left if candidate.tokens <= room]:
            best = max(left, key=lambda c: self.relevance * near[id(c)] - (1 - self.relevance) * like[id(c)])
            reason = f"similarity {near[id(best)]:.2f}, to those shown at most {like[id(best)]:.2f}"
            ranked.append((best, reason))
            if tokens is None and len(ranked) == self.most:
                break
            room -= best.tokens
            left = [candidate for candidate in left if candidate is not best]
            for candidate in left:
                seen = weights.similarity(best.structures, candidate.structures)
                like[id(candidate)] = max(like[id(candidate)], seen)
        return fill(ranked, tokens, self.most)
