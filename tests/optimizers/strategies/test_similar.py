"""`similar` shows the nearest solved tasks, and no more than fits."""

import pytest

from optimizers.strategies.similar import Similar
from tests.support.entries import candidate, picked

POOL = [candidate("a", "xyz"), candidate("b", "wx", 30), candidate("c", "xyv"), candidate("d", "uv", 5)]


@pytest.mark.parametrize(
    ("query", "tokens", "expected"),
    [("xyz", None, "acb"), ("xyz", 25, "acd"), ("xyz", 4, ""), ("w", None, "bac"), ("", 100, "abcd")],
)
def test_the_nearest_come_first_and_what_does_not_fit_is_passed_over(
    query: str, tokens: int | None, expected: str
) -> None:
    """Without a limit of tokens there are at most three here; equals keep the order of the pool."""
    assert picked(Similar(most=3), query, POOL, tokens) == expected
