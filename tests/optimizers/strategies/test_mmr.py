"""`mmr` shows the nearest solved tasks that are not like each other."""

from optimizers.strategies.mmr import MaximalMarginalRelevance
from optimizers.strategies.similar import Similar
from tests.support.entries import candidate, picked

POOL = [candidate("a", "wxy"), candidate("b", "wxy"), candidate("c", "zv"), candidate("d", "t", 500)]


def test_what_repeats_a_chosen_one_comes_later() -> None:
    """`b` equals `a`, which `similar` does not mind."""
    assert picked(Similar(most=2), "wxyz", POOL) == "ab"
    assert picked(MaximalMarginalRelevance(most=2, relevance=0.5), "wxyz", POOL) == "ac"


def test_relevance_alone_is_similarity() -> None:
    assert picked(MaximalMarginalRelevance(relevance=1), "wxyz", POOL) == picked(Similar(), "wxyz", POOL)


def test_what_does_not_fit_is_passed_over() -> None:
    assert "d" not in picked(MaximalMarginalRelevance(), "t", POOL, 30)
    assert picked(MaximalMarginalRelevance(), "t", POOL, 500) == "d"
