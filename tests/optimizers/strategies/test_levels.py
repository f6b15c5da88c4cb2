"""β: levels are disjoint, hold all of D, keep ties together, and agree with the worked examples."""

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.strategies.base import cumulative, stratify


@dataclass(frozen=True)
class Solved:
    name: int
    rate: float


def rated(*counts: int) -> list[Solved]:
    return [Solved(name, count / 64) for name, count in enumerate(counts)]


def sizes(counts: list[int], granularity: int) -> list[int]:
    return [len(demos) for demos in cumulative(stratify(rated(*counts), granularity))]


@pytest.mark.parametrize(
    ("counts", "granularity", "expected"),
    [
        ([1, 1, 3, 20, 50], 3, [2, 4, 5]), ([2, 2, 2, 9], 3, [3, 3, 4]), ([], 3, []), ([5], 3, [1]),
        ([5, 7], 3, [1, 2]), ([7, 7, 7, 7], 3, [4, 4, 4]), ([1, 2, 3, 4, 5, 6, 7], 3, [3, 5, 7]),
        ([1, 2, 3, 4], 1, [4]), ([1, 2, 3, 4], 9, [1, 2, 3, 4]),
    ],
)  # fmt: skip
def test_sizes_of_the_cumulative(counts, granularity, expected):
    assert sizes(counts, granularity) == expected


def test_a_boundary_that_crosses_levels_makes_a_later_selection_smaller_though_the_experience_grew():
    assert (sizes([2, 2, 2, 9], 3)[0], sizes([2, 2, 2, 9, 1, 1], 3)[0]) == (3, 2)


def test_order_is_hardest_first_and_ties_keep_theirs():
    levels = stratify(rated(9, 2, 9, 2), 2)
    assert [[solved.name for solved in level] for level in levels] == [[1, 3], [0, 2]]


@given(st.lists(st.integers(1, 64), max_size=40), st.integers(1, 6))
def test_levels_partition_the_experience(counts, granularity):
    entries = rated(*counts)
    levels = stratify(entries, granularity)
    assert len(levels) == min(granularity, len(entries))
    flat = [solved for level in levels for solved in level]
    assert flat == sorted(entries, key=lambda solved: solved.rate)
    for harder, easier in pairwise(levels):
        assert not harder or not easier or harder[-1].rate < easier[0].rate
    chosen = cumulative(levels)
    assert all(a == b[: len(a)] for a, b in pairwise(chosen))
    assert not entries or chosen[-1] == flat


def test_granularity_below_one_is_refused():
    with pytest.raises(ValueError, match="granularity"):
        stratify([], 0)
