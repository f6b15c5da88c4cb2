"""Levels of difficulty: the selection function β (paper, Section 3.2).

Invariants: levels are disjoint and hold all of D; d_j grows with j and the last d_j is D; entries of one rate
share a level; the order within D is kept among entries of one rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

from optimizers.experience import Entry


def stratify(entries: Iterable[Entry], granularity: int) -> list[list[Entry]]:
    """β(D, m): the levels of D, hardest first, each by ascending success rate.

    D, sorted by rate, is cut into m runs as even as possible; the first runs take the surplus. The rate of a run's
    last entry is its boundary. Level j then takes every entry with a rate in (boundary j-1, boundary j], which
    moves ties to the harder level and may leave a level empty. Fewer entries than m give fewer levels.

    Args:
        entries: D, in task order, which breaks ties between equal rates.
        granularity: The number of levels m, at least 1.

    Raises:
        ValueError: `granularity` is less than 1.
    """
    if granularity < 1:
        raise ValueError(f"granularity is a number of levels, at least 1, not {granularity}")
    ranked = hardest_first(entries)
    if not ranked:
        return []
    runs = min(granularity, len(ranked))
    size, surplus = divmod(len(ranked), runs)
    ends = accumulate(size + (run < surplus) for run in range(runs))
    boundaries = [ranked[end - 1].rate for end in ends]
    levels: list[list[Entry]] = [[] for _ in boundaries]
    for entry in ranked:
        levels[next(j for j, boundary in enumerate(boundaries) if entry.rate <= boundary)].append(entry)
    return levels


def cumulative(levels: Sequence[Sequence[Entry]]) -> list[list[Entry]]:
    """d_0, d_1, …: the unions of levels 0..j, in the order of the levels (Algorithm 1, line 6)."""
    return [[entry for level in levels[: j + 1] for entry in level] for j in range(len(levels))]


def hardest_first(entries: Iterable[Entry]) -> list[Entry]:
    """The entries by ascending success rate; those of one rate keep their order."""
    return sorted(entries, key=lambda entry: entry.rate)
