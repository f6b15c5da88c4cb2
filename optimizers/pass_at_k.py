"""pass@k (paper, Equation 1): the chance that one of k samples is right, without bias."""

from __future__ import annotations

from math import comb


def pass_at_k(n: int, c: int, k: int) -> float:
    """1 - C(n-c, k) / C(n, k): the expected share of draws of k out of n samples that hold a correct one.

    One division of two integers, so that the ends are exact: c/n at k = 1, and 1.0 or 0.0 at k = n.

    Args:
        n: Samples.
        c: Correct samples among them.
        k: Samples drawn.

    Raises:
        ValueError: Unless 0 <= c <= n and 1 <= k <= n.
    """
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"pass@k needs 0 <= c <= n and 1 <= k <= n, got n={n}, c={c}, k={k}")
    draws = comb(n, k)
    return (draws - comb(n - c, k)) / draws
