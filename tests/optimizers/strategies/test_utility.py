"""`utility` ranks the nearest again by what they were worth when they were shown."""

from optimizers.strategies.utility import Utility
from tests.support.entries import candidate, picked

POOL = [candidate("a", "xyz"), candidate("b", "xy", value=0.6), candidate("c", "x"), candidate("d", "q", value=9.0)]


def test_the_most_useful_of_the_nearest_comes_first() -> None:
    """`d` was worth most, and is not near."""
    assert picked(Utility(most=2, nearest=3), "xyz", POOL) == "ba"
    assert picked(Utility(most=2, nearest=4), "xyz", POOL) == "db"
    assert picked(Utility(nearest=3), "xyz", POOL, 10) == "b"
