"""`hard-first` shows the hardest half."""

import random

import pytest

from optimizers.strategies.hard_first import HardFirst
from tests.support.entries import SOLVED, names


@pytest.mark.parametrize(("count", "expected"), [(5, "abc"), (4, "ab"), (2, "a"), (1, "e")])
def test_the_half_is_rounded_up_and_hardest_first(count: int, expected: str) -> None:
    """By rank, whatever the rates are."""
    (found,) = names(HardFirst().order(SOLVED[:count], random.Random(0)))
    assert found == expected
    assert HardFirst().level_label(0) == "hardest"
