"""pass@k is the closed form: the share of k-subsets of n samples that hold a correct one."""

from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers import pass_at_k


@pytest.mark.parametrize("n", range(1, 8))
def test_it_equals_the_enumeration_of_all_draws(n):
    for c in range(n + 1):
        for k in range(1, n + 1):
            draws = list(combinations(range(n), k))
            share = Fraction(sum(min(draw) < c for draw in draws), len(draws))
            assert pass_at_k(n, c, k) == float(share)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_its_ends_are_exact(nc):
    n, c = nc
    assert pass_at_k(n, c, 1) == c / n
    assert pass_at_k(n, c, n) == float(c > 0)


@given(st.integers(2, 200).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n - 1))))
def test_it_grows_with_k(nck):
    n, c, k = nck
    assert pass_at_k(n, c, k) <= pass_at_k(n, c, k + 1)


@pytest.mark.parametrize(("n", "c", "k"), [(0, 0, 1), (3, 4, 1), (3, -1, 1), (3, 1, 4), (3, 1, 0)])
def test_what_is_not_a_draw_is_refused(n, c, k):
    with pytest.raises(ValueError, match="pass@k"):
        pass_at_k(n, c, k)
