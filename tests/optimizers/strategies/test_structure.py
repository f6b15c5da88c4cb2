"""Weights of structures, and what demonstrations were worth."""

import math

import pytest

from optimizers.strategies.base import Trial
from optimizers.strategies.structure import Weights, utilities
from tests.support.entries import candidate

POOL = [candidate("a", "xy"), candidate("b", "x"), candidate("c", "xz")]


def test_rare_structures_weigh_more_and_unknown_ones_nothing() -> None:
    weights = Weights([each.structures for each in POOL])
    assert weights.total(frozenset("x")) == pytest.approx(math.log(2))
    assert weights.total(frozenset("y")) == pytest.approx(math.log(4))
    assert weights.total(frozenset("q")) == 0 and weights.total(frozenset("xyq")) == pytest.approx(math.log(8))
    assert weights.heaviest(frozenset("xyzq"), 2) == ["y", "z"]


def test_similarity_is_the_share_of_weight_that_both_have() -> None:
    weights = Weights([each.structures for each in POOL])
    assert weights.similarity(frozenset("xy"), frozenset("xy")) == 1
    assert weights.similarity(frozenset("x"), frozenset("xy")) == pytest.approx(1 / 3)
    assert weights.similarity(frozenset("x"), frozenset("y")) == 0 == weights.similarity(frozenset(), frozenset("q"))


def test_a_value_moves_by_what_the_task_gained_over_its_own_mean() -> None:
    """Equation by equation; a demonstration that was never shown has no value."""
    trials = [Trial("t", (), 0.2), Trial("t", ("a", "b"), 0.6), Trial("u", ("b",), 0.5), Trial("t", ("a",), 0.4)]
    a = 0.5 * (0.6 - 0.2)
    b = 0.5 * (0.6 - 0.2)
    b += 0.5 * (0.5 - b)
    a += 0.5 * ((0.4 - 0.4) - a)
    assert dict(utilities(trials, 0.5)) == pytest.approx({"a": a, "b": b})
