"""The arrays of token times, worked by hand; `tests/step_runtime/cost/test_timeline.py` holds whole programs."""

import numpy as np
import pytest

from step_runtime.primitives.token_times import (
    Tokens,
    called,
    expanded,
    held,
    inserted,
    joined,
    kept_above,
    latest,
    served,
    spaced,
    spelled,
)
from tests.support.events import levels_of


def tokens(*pairs: tuple[int, int]) -> Tokens:
    levels, times = zip(*pairs, strict=True)
    return Tokens(np.array(levels), np.array(times))


def pairs(found: Tokens) -> list[tuple[int, int]]:
    return [*zip(found.levels.tolist(), found.times.tolist(), strict=True)]


ROWS = tokens((0, 1), (0, 2), (1, 2), (0, 5), (0, 9), (1, 9), (2, 9))
"""Two rows of two values, each closing spelled out."""


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (1, 1, 2), (0,), (2, 0), (0, 2), (2, 3, 1)])
def test_an_item_is_spelled_as_its_dims_nest(shape: tuple[int, ...]) -> None:
    """Empty dims included."""
    assert spelled(shape).tolist() == levels_of(shape)


def test_values_and_end_of_a_stream() -> None:
    assert ROWS.values.tolist() == [1, 2, 5, 9]
    assert ROWS.end == 9


def test_one_is_served_after_another() -> None:
    """Each is done its cost after it is ready and the one before it is done."""
    assert served(np.array([1, 2, 3, 20]), np.array([3, 3, 0, 3])).tolist() == [4, 7, 7, 23]


def test_repeated_values_keep_their_distance_and_stops_do_not() -> None:
    levels = np.array([0, 0, 1, 0, 1])
    ready = np.array([5, 5, 5, 6, 6])
    assert spaced(ready, levels, 1).tolist() == [5, 6, 6, 7, 7]
    assert spaced(ready, levels, 0).tolist() == [5, 5, 5, 6, 6]
    assert latest(np.array([3, 1, 4])).tolist() == [3, 3, 4]


def test_a_call_takes_its_cycles_and_stops_wait_for_it() -> None:
    assert called(ROWS, 3).tolist() == [4, 7, 7, 10, 13, 13, 13]
    assert called(ROWS, 0) is ROWS.times


def test_joined_tokens_wait_for_the_later_one() -> None:
    other = Tokens(ROWS.levels, np.array([0, 3, 3, 3, 10, 10, 10]))
    assert joined([ROWS, other]).times.tolist() == [1, 3, 3, 5, 10, 10, 10]


def test_reduced_inner_dims_leave_a_value_for_each_block() -> None:
    assert pairs(kept_above(*ROWS, 1)) == [(0, 2), (0, 9), (1, 9)]


def test_inserted_stops_come_with_the_token_before_them() -> None:
    assert pairs(inserted(ROWS, ROWS.levels == 1, 9))[2:4] == [(1, 2), (9, 2)]


def test_an_item_takes_the_place_of_each_value() -> None:
    """Its values one after another, and the stops around it gain its levels."""
    assert pairs(expanded(tokens((0, 1), (0, 2), (1, 2)), spelled((2,)), 1, 1)) == [
        (0, 1), (0, 2), (1, 2), (0, 3), (0, 4), (1, 4), (2, 4)
    ]  # fmt: skip


def test_a_held_value_is_taken_with_the_first_token_of_its_block() -> None:
    """Which waits for it; an empty block takes it with its stop."""
    data = tokens((0, 4), (0, 6), (1, 6))
    reference = tokens((0, 1), (0, 5), (1, 5), (1, 5), (2, 8))
    times, taken = held(data, reference, reference.levels > 0)
    assert times.tolist() == [4, 5, 5, 6, 8]
    assert taken.tolist() == [4, 6]
