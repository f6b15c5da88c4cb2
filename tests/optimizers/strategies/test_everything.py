"""`everything` shows all that is solved."""

import random

from optimizers.strategies.everything import Everything
from tests.support.entries import SOLVED, names


def test_the_only_set_is_everything_hardest_first() -> None:
    """Whatever the number of entries."""
    assert names(Everything().order(SOLVED, random.Random(0))) == ["abcde"]
    assert names(Everything().order(SOLVED[:1], random.Random(0))) == ["e"]
    assert Everything().level_label(0) == "all"
