"""pass@k (paper, Equation 1): an unbiased estimate of the probability that at least one of k samples is right."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb


def counted(passed: Sequence[bool], stop_after: int | None = None) -> tuple[int, int]:
    """Right samples and samples, of samples in order, from which pass@k is unbiased.

    Where sampling ends at the `stop_after`-th right sample, that one does not count (inverse sampling, Haldane 1945),
    nor do those behind it, which were in flight.
    """
    places = [place for place, right in enumerate(passed) if right]
    if stop_after is None or len(places) < stop_after:
        return len(places), len(passed)
    return stop_after - 1, places[stop_after - 1]


def pass_at_k(n: int, c: int, k: int) -> float:
    """1 - C(n-c, k) / C(n, k): the share of subsets of k out of n samples that contain a correct one.

    One division of two integers, so that the ends are exact: c/n at k = 1, and 1.0 or 0.0 at k = n.

    Args:
        n: Samples.
        c: Correct samples among them.
        k: Samples in a subset.

    Raises:
        ValueError: Unless 0 <= c <= n and 1 <= k <= n.
    """
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"pass@k needs 0 <= c <= n and 1 <= k <= n, got n={n}, c={c}, k={k}")
    subsets = comb(n, k)
    return (subsets - comb(n - c, k)) / subsets
