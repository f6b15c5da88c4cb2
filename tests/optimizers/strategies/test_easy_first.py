"""`easy-first` adds levels from the easiest on."""

import random

from optimizers.strategies.easy_first import EasyFirst
from tests.support.entries import SOLVED, names


def test_sets_grow_from_the_easiest_level_to_everything() -> None:
    """Within a level the hardest comes first."""
    assert names(EasyFirst(3).order(SOLVED, random.Random(0))) == ["e", "ecd", "ecdab"]
    assert names(EasyFirst(1).order(SOLVED, random.Random(0))) == ["abcde"]


def test_labels_count_levels_from_the_easiest() -> None:
    """The first set is of one level."""
    assert [EasyFirst().level_label(level) for level in range(2)] == ["easy-1", "easy-2"]
