"""Queues before joins, worked by hand; `test_timeline.py` holds random programs."""

from __future__ import annotations

import numpy as np
import pytest

from step_runtime.cost.chip import Chip
from step_runtime.cost.queues import clocks, waiting
from tests.support.priced import checked, priced
from tests.support.task_texts import ADD, MATRIX, NEG, SAME, SUM, task_text

TASK = task_text([MATRIX, MATRIX.replace("E0", "E1")], [NEG, ADD, SUM], [SAME])
SIZES = {"M": 8, "N": 3}
TOTAL = "E4 = step.Repeat(n=M).apply(step.Accum(fn=fn_sum, b=1).apply(E3))\n"


def lengths(text: str) -> dict[tuple[int, int], int]:
    """The queues that ever wait, by node and operand."""
    cost = priced(TASK, text, SIZES, Chip())
    return {(queue.node, queue.operand): queue.length for queue in cost.queues}


def test_ways_of_equal_length_need_no_queue() -> None:
    text = "E2, E3 = step.Copy().apply(E0)\nreturn step.Map(fn=fn_add).apply((E2, step.Map(fn=fn_neg).apply(E3)))"
    assert lengths(text) == {}


def test_elements_wait_for_their_rows_total() -> None:
    """All but the last, with which the total comes."""
    text = f"E2, E3 = step.Copy().apply(E0)\n{TOTAL}return step.Zip().apply((E2, E4))"
    assert lengths(text) == {(3, 0): 7}


def test_elements_wait_for_the_whole_streams_total() -> None:
    text = """
E2, E3 = step.Copy().apply(E0)
E4 = step.Promote(b=2).apply(E3)
E5 = step.Accum(fn=fn_sum, b=2).apply(E4)
E6 = step.Repeat(n=M).apply(step.Repeat(n=N).apply(E5))
return step.Zip().apply((E2, step.Flatten(L=[2]).apply(E6)))
"""
    assert lengths(text) == {(6, 0): 23}


def test_streams_of_different_origin_do_not_wait() -> None:
    """The join reads an input when it needs it."""
    text = "E4 = step.Repeat(n=M).apply(step.Accum(fn=fn_sum, b=1).apply(E1))\nreturn step.Zip().apply((E0, E4))"
    assert lengths(text) == {}


def test_a_second_total_waits_by_the_clock_of_the_second_copy() -> None:
    """Both ways of the second join lead through the first one, so that they part after it."""
    text = f"""
E2, E3 = step.Copy().apply(E0)
{TOTAL}
E5, E6 = step.Copy().apply(step.Map(fn=fn_add).apply(step.Zip().apply((E2, E4))))
E7 = step.Repeat(n=M).apply(step.Accum(fn=fn_sum, b=1).apply(E6))
return step.Zip().apply((E5, E7))
"""
    program = checked(TASK, text).program
    assert [clocks(program, join) for join in (3, 8)] == [[0], [5]]
    assert lengths(text) == {(3, 0): 7, (8, 0): 7}


def test_ways_that_part_twice_are_measured_where_they_part_first() -> None:
    text = f"""
E2, E3 = step.Copy().apply(E0)
E5, E6 = step.Copy().apply(E2)
{TOTAL}
E7 = step.Map(fn=fn_add).apply(step.Zip().apply((E5, E4)))
return step.Zip().apply((E6, E7))
"""
    program = checked(TASK, text).program
    join = len(program.nodes) - 1
    assert clocks(program, join) == [0]
    assert lengths(text) == {(4, 0): 7, (join, 0): 7}


@pytest.mark.parametrize(
    ("made", "taken", "most"),
    [([], [], 0), ([1, 2, 3], [1, 2, 3], 0), ([1, 2, 3], [3, 3, 3], 2), ([1, 1, 1], [1, 2, 3], 2), ([1], [9], 1)],
)
def test_what_waits_at_the_end_of_a_tick(made: list[int], taken: list[int], most: int) -> None:
    """What is made and taken in one tick does not wait."""
    assert waiting(np.array(made, np.int64), np.array(taken, np.int64)) == most
