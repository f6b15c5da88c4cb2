"""What only the data tells of routed streams: rules that fail when it is there."""

from typing import Any

import pytest

import step_runtime as step
from step_runtime import RuleError, RunError
from tests.support.streams import counted, fn_sum, index


def test_a_routed_dim_is_held_to_reshapes_rule_when_it_is_known() -> None:
    """Only the data tells whether `S` divides what a stream was given."""
    part, _ = step.Partition(N=2).apply((counted(4), index([1, 0], [1, 0], [1, 0], [0, 1])))
    with pytest.raises(RuleError, match="S to divide the dim"):
        step.Reshape(L=[0], S=2).apply(part)


@pytest.mark.parametrize(
    ("counts", "quoted"), [((1, 1), "stream 1 runs short"), ((2, 2), "stream 0 has slices left at the end")]
)
def test_merge_holds_its_streams_to_the_index(counts: tuple[int, int], quoted: str) -> None:
    """A stream that runs short, or has slices left, is found when the data is there."""
    streams = [counted(count) for count in counts]
    with pytest.raises(RunError, match=quoted):
        step.Merge(fn=fn_sum).apply((streams, index([1, 1], [0, 1])))


@pytest.mark.parametrize("arguments", [1, 3])
def test_merge_takes_a_list_and_an_index(arguments: int) -> None:
    chosen = index([1], [0])
    argument: tuple[Any, ...] = ([counted(1)], chosen, chosen)[:arguments]
    with pytest.raises(RuleError, match="Merge takes a list of streams and an index stream"):
        step.Merge(fn=fn_sum).apply(argument)
