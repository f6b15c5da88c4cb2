"""The selection function β (paper, Section 3.2): which experience becomes demonstrations, and in what order.

Invariants: levels are disjoint and hold all of D; d_j grows with j and the last d_j is D; entries of one rate
share a level; the order within D is kept among entries of one rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Protocol, TypeVar


class Rated(Protocol):
    """What has a success rate."""

    @property
    def rate(self) -> float:
        """Share of correct answers."""


T = TypeVar("T", bound=Rated)


def stratify(entries: Iterable[T], granularity: int) -> list[list[T]]:
    """β(D, m): the levels of D, hardest first, each by ascending success rate.

    Sorted by rate, D is cut into m runs as even as can be, the first ones taking the surplus; the rate of a
    run's last entry is its boundary. Then level j takes every entry whose rate lies in (boundary j-1,
    boundary j], which moves ties to the harder level and may leave one empty. Fewer entries, fewer levels.

    Args:
        entries: D, in task order, which decides among equal rates.
        granularity: m, at least 1.

    Raises:
        ValueError: `granularity` is less than 1.
    """
    if granularity < 1:
        raise ValueError(f"granularity is a number of levels, at least 1, not {granularity}")
    ranked = sorted(entries, key=lambda entry: entry.rate)
    if not ranked:
        return []
    runs = min(granularity, len(ranked))
    size, surplus = divmod(len(ranked), runs)
    ends = accumulate(size + (run < surplus) for run in range(runs))
    boundaries = [ranked[end - 1].rate for end in ends]
    levels: list[list[T]] = [[] for _ in boundaries]
    for entry in ranked:
        levels[next(j for j, boundary in enumerate(boundaries) if entry.rate <= boundary)].append(entry)
    return levels


def selections(levels: Sequence[Sequence[T]]) -> list[list[T]]:
    """d_0, d_1, …: the unions of levels 0..j, hardest first (Algorithm 1, line 6)."""
    return [[entry for level in levels[: j + 1] for entry in level] for j in range(len(levels))]


def level_label(level: int, granularity: int) -> str:
    """What d_j is called: `H`, `HM`, `HME` for three levels, else `1`, `12`, … (`1-2` from ten on)."""
    if granularity == 3:
        return "HME"[: level + 1]
    return ("" if granularity < 10 else "-").join(str(j + 1) for j in range(level + 1))


def iteration_label(level: int, cycle: int, granularity: int) -> str:
    """What an iteration is called: `HM_2` for d_1 of cycle 2; `None` for the pass before any (cycle 0)."""
    return f"{level_label(level, granularity)}_{cycle}" if cycle else "None"
