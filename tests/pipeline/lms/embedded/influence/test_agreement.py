"""Arrays of sources are compared set by set."""

from __future__ import annotations

import numpy as np
from sympy import Symbol

from pipeline.lms.embedded.influence.agreement import aligned, alike

M, N = Symbol("M"), Symbol("N")


def test_sets_are_as_alike_as_they_overlap() -> None:
    """On average; empty ones are the same."""
    one, other = (np.array(sets, np.uint64) for sets in ([3, 0, 4], [1, 0, 4]))
    assert alike(one, one) == 1.0 and alike(one, other) == (0.5 + 1 + 1) / 3


def test_elements_are_compared_with_those_at_their_own_positions() -> None:
    """Whatever the order of the dims; dims that the output lacks are folded."""
    wanted = np.array([[1, 2], [4, 8]], np.uint64)
    assert aligned(wanted.T, (N, M), wanted, (M, N)) == 1.0
    assert aligned(wanted, (N, M), wanted, (M, N)) == 0.5
    assert aligned(wanted[..., None], (M, N, Symbol("K")), wanted, (M, N)) == 1.0
    assert aligned(wanted, (M, N), None, (M, N)) == 1.0
