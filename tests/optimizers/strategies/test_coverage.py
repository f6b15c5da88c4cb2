"""`coverage` shows solved tasks that together have the structures of the task."""

from hypothesis import given
from hypothesis import strategies as st

from optimizers.strategies.coverage import Coverage
from tests.support.entries import candidate, picked

POOL = [candidate("a", "wxy"), candidate("b", "wx"), candidate("c", "z"), candidate("d", "xyz", 1000)]


def test_each_adds_a_structure_and_nothing_comes_after_all_is_covered() -> None:
    """Per token: `d` has two of the structures, and is a hundred times as long."""
    assert picked(Coverage(), "wxyz", POOL) == "ac"


def test_it_starts_over_while_tokens_are_left() -> None:
    assert picked(Coverage(), "wxyz", POOL, 30) == "acb"
    assert picked(Coverage(), "wxyz", POOL, 29) == "ac"


def test_the_hardest_are_shown_where_nothing_bears_on_the_task() -> None:
    """The pool is in this order."""
    assert picked(Coverage(), "q", POOL) == "abcd"
    assert picked(Coverage(), "q", POOL, 20) == "ab"


@given(
    st.text("uvwxyz", max_size=6),
    st.lists(st.tuples(st.text("uvwxyz", max_size=4), st.integers(0, 50)), max_size=8),
    st.none() | st.integers(0, 120),
)
def test_it_ends_within_the_tokens_and_shows_nothing_twice(
    query: str, solved: list[tuple[str, int]], tokens: int | None
) -> None:
    pool = [candidate(chr(65 + place), structures, size) for place, (structures, size) in enumerate(solved)]
    found = picked(Coverage(), query, pool, tokens)
    assert len(set(found)) == len(found)
    assert tokens is None or sum(each.tokens for each in pool if each.entry.task_key in found) <= tokens
    known = frozenset().union(*(each.structures for each in pool)) & frozenset(query)
    if tokens is None and known:
        covered = frozenset().union(*(each.structures for each in pool if each.entry.task_key in found))
        assert known <= covered
