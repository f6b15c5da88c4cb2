"""`hybrid` chooses within the levels of difficulty, by coverage and by utility."""

import random

from optimizers.strategies.adaptive import Adaptive
from optimizers.strategies.hybrid import Hybrid
from tests.support.entries import SOLVED, candidate, names, picked


def test_the_pools_are_those_of_adaptive() -> None:
    rng = random.Random(0)
    assert names(Hybrid(2).order(SOLVED, rng)) == names(Adaptive(2).order(SOLVED, rng))
    assert [Hybrid(3).level_label(level) for level in range(3)] == ["hybrid-H", "hybrid-HM", "hybrid-HME"]


def test_what_helped_wins_among_equals_and_what_harmed_comes_last() -> None:
    pool = [candidate("a", "xy", value=-2.0), candidate("b", "xy"), candidate("c", "xy", value=0.1)]
    assert picked(Hybrid(), "xy", pool) == "c"
    assert picked(Hybrid(), "xy", pool, 30) == "cba"
