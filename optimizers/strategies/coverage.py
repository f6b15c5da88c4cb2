"""`coverage`: solved tasks that together have the structures of the task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from optimizers.strategies.per_task import MOST, PerTask, fill
from optimizers.strategies.structure import Candidate, Pick, Structures, Weights


@dataclass(frozen=True)
class Coverage(PerTask):
    """Greedily the solved task with the largest weight of structures not yet covered per token.

    Once all that can be covered is, it starts over while tokens are left; without a limit of tokens it ends. The
    hardest are shown where nothing shares a structure with the task (after Levy et al., arXiv 2212.06800, and the
    set-BSR of Gupta et al., arXiv 2305.14907).
    """

    name: ClassVar[str] = "coverage"

    def pick(self, query: Structures, pool: Sequence[Candidate], weights: Weights, tokens: int | None) -> list[Pick]:
        """Greedily, among those that still fit."""
        return cover(query, pool, weights, tokens)


def cover(
    query: Structures,
    pool: Sequence[Candidate],
    weights: Weights,
    tokens: int | None,
    factor: Callable[[Candidate], float] = lambda candidate: 1.0,
) -> list[Pick]:
    """Covers the structures of `query` greedily; the first of equals, and all over again while tokens are left.

    `factor`, which is positive, multiplies the gain of a candidate.
    """
    picks: list[Pick] = []
    missing, left = query, list(pool)
    room = float("inf") if tokens is None else tokens
    while left := [candidate for candidate in left if candidate.tokens <= room]:
        gains = {id(candidate): weights.total(missing & candidate.structures) for candidate in left}
        best = max(left, key=lambda c: gains[id(c)] * factor(c) / max(1, c.tokens))
        if not gains[id(best)]:
            if missing == query or tokens is None:
                break
            missing = query
            continue
        examples = ", ".join(weights.heaviest(missing & best.structures))
        picks.append(Pick(best.entry, f"covers structures of weight {gains[id(best)]:.1f}, such as {examples}"))
        missing, room = missing - best.structures, room - best.tokens
        left.remove(best)
    return picks or fill([(candidate, "nothing shares a structure with the task") for candidate in pool], tokens, MOST)
