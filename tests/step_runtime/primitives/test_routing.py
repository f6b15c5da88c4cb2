"""What Partition and Merge compute, and what becomes of streams whose length only the data decides."""

from typing import Any

import numpy as np
import pytest
import torch

import step_runtime as step
from step_runtime import RuleError, RunError
from step_runtime.base.types import StreamType
from step_runtime.primitives.token_times import Pace, Tokens
from tests.support.streams import ELEMENTS, E, K, M, N, counted, filled, fn_double, fn_last, fn_sum, index, values


@pytest.mark.parametrize("dtype", ELEMENTS)
def test_partition_routes_slices(dtype: str) -> None:
    """Each outermost slice goes to every stream whose bit is 1, in order; a stream may get none."""
    before = filled(ELEMENTS[dtype], [M, N])
    parts = step.Partition(N=E).apply((before, index([0, 1, 1], [0, 0, 0], [0, 1, 0], shape=[N])))
    rows: list[list[int]] = [[], [0, 2], [0]]
    assert len({str(part.shape[-1]) for part in parts}) == 3
    for part, chosen in zip(parts, rows, strict=True):
        assert part.dtype == before.dtype and part.shape[:-1] == [M] and part.rank == 1
        assert all(torch.equal(a, b[chosen]) for a, b in zip(part.data, before.data or (), strict=True))


def test_partition_of_elements_under_an_index_of_higher_rank() -> None:
    """With an index as deep as the data every element is a slice; the index is read in stream order."""
    bits = [[1, 0], [0, 1], [1, 1], [0, 0], [0, 1], [1, 0]]
    a, b = step.Partition(N=2).apply((counted(M, N), index(*bits, shape=[M, N])))
    assert (values(a), values(b)) == ([0, 2, 5], [1, 2, 4]) and a.rank == 0


def test_merge_folds_the_chosen_slices() -> None:
    """For each index element the next slice of every chosen stream is folded, in ascending stream order."""
    chosen = index([1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 1, 1])
    a, b, c = counted(2, start=10), counted(2, start=20), counted(2, start=30)
    assert values(step.Merge(fn=fn_sum).apply(([a, b, c], chosen))) == [10 + 30, 0, 20, 11 + 21 + 31]
    ordered = step.Merge(fn=fn_last).apply(([a, b, c], chosen))
    assert values(ordered) == [2 * (2 + 10) + 30, 1, 2 + 20, 2 * (2 * (2 + 11) + 21) + 31] and ordered.shape == [4]


def test_merge_where_the_first_expert_gets_no_token() -> None:
    """An empty stream takes no part, whichever it is; all empty gives initial states."""
    for empty in range(3):
        bits = [[int(i == (empty + 1) % 3) for i in range(3)]] * 2
        parts = step.Partition(N=3).apply((counted(2, start=4), index(*bits)))
        assert values(step.Merge(fn=fn_sum).apply((parts, index(*bits)))) == [4, 5]
    none = [[0, 0, 0]] * 2
    parts = step.Partition(N=3).apply((counted(2), index(*none)))
    mapped = [step.Map(fn=fn_double).apply(part) for part in parts]
    assert values(step.Merge(fn=fn_last).apply((mapped, index(*none)))) == [1, 1]


def test_merge_with_ranks_above_zero() -> None:
    """Slices keep their inner dims, which stand inside the index's."""
    bits = [[1, 0], [0, 1], [1, 1], [0, 0], [0, 1], [1, 0]]
    data = counted(K, M, N)
    a, b = step.Partition(N=2).apply((data, index(*bits, shape=[M, N])))
    assert a.shape[:-1] == b.shape[:-1] == [K] and a.rank == 1
    merged = step.Merge(fn=fn_sum).apply(([a, b], index(*bits, shape=[M, N])))
    assert merged.shape == [K, M, N]
    weights = torch.tensor(bits, dtype=torch.float64).sum(1).reshape(3, 2, 1)
    assert torch.equal(merged.data[0], data.data[0] * weights)  # type: ignore[index]


def test_routed_streams_pass_through_every_primitive() -> None:
    """Streams of a length that only the data decides, none included, go through folds, buffers and shapes."""
    bits = [[0, 1], [0, 1], [0, 1]]
    for part in step.Partition(N=2).apply((counted(K, M, N), index(*bits, shape=[N]))):
        flat = step.Flatten(L=[1]).apply(part)
        summed = step.Accum(fn=fn_sum, b=1).apply(flat)
        again = step.RepeatRef().apply((summed, step.Scan(fn=fn_sum, b=1).apply(flat)))
        wide = step.Streamify().apply(step.Repeat(n=2).apply(step.Bufferize(a=1).apply(again)))
        split = step.Reshape(L=[0], S=2).apply(wide)
        whole = step.Accum(fn=fn_sum, b=1).apply(step.Flatten(L=[1]).apply(step.Promote(b=3).apply(part)))
        assert wide.shape == [K * M, 2, part.shape[-1]] and split.rank == 3
        assert wide.data[0].shape == (part.data[0].shape[0], 2, 8) and whole.data[0].shape[0] == 1
    everything = step.Accum(fn=fn_sum, b=1).apply(
        step.Promote(b=1).apply(step.Partition(N=2).apply((counted(N), index(*bits, shape=[N])))[0])
    )
    assert values(everything) == [0]


@pytest.mark.parametrize(
    ("counts", "quoted"), [((1, 1), "stream 1 runs short"), ((2, 2), "stream 0 has slices left at the end")]
)
def test_merge_holds_its_streams_to_the_index(counts: tuple[int, int], quoted: str) -> None:
    """A stream that runs short, or has slices left, is found when the data is there."""
    streams = [counted(count) for count in counts]
    with pytest.raises(RunError, match=quoted):
        step.Merge(fn=fn_sum).apply((streams, index([1, 1], [0, 1])))


def test_merge_under_an_index_without_elements() -> None:
    """An index that is routed itself may get no element; its Merge then has none either."""
    away = index([0, 1], [0, 1])
    none = step.Partition(N=2).apply((counted(2), away))[0]
    nowhere = step.Partition(N=2).apply((index([1, 1], [1, 0]), away))[0]
    assert values(step.Merge(fn=fn_sum).apply(([none, none], nowhere))) == []


@pytest.mark.parametrize("arguments", [1, 3])
def test_merge_takes_a_list_and_an_index(arguments: int) -> None:
    chosen = index([1], [0])
    argument: tuple[Any, ...] = ([counted(1)], chosen, chosen)[:arguments]
    with pytest.raises(RuleError, match="Merge takes a list of streams and an index stream"):
        step.Merge(fn=fn_sum).apply(argument)


@pytest.mark.parametrize(
    ("chosen", "emitted", "taken"),
    [
        ([[1, 1], [0, 0], [0, 1]], [9, 10, 22], [[7], [9, 22], [7, 10, 22]]),
        (None, [9, 22, 23], [[7], [9, 22], [7, 22, 23]]),  # the second element gets the slice that is left
    ],
)
def test_when_merge_takes_and_emits(chosen: list[list[int]] | None, emitted: list[int], taken: list[list[int]]) -> None:
    """A slice takes the cycles of its call, an initial state one; an index element is taken with its first slice."""
    a, b = Tokens(np.array([0, 1]), np.array([5, 6])), Tokens(np.array([0, 0, 1]), np.array([1, 20, 20]))
    which = Tokens(np.array([0, 0, 0, 1]), np.array([2, 3, 4, 4]))
    bits = None if chosen is None else np.array(chosen, np.bool_)
    types = [StreamType(one.dtype, tuple(one.shape)) for one in (counted(1), counted(2), index([1, 1], [0, 0], [0, 1]))]
    found = step.Merge(fn=fn_sum).schedule([a, b, which], types, Pace({}, 2, 1, bits))
    assert found.outputs[0].values.tolist() == emitted and found.outputs[0].end == emitted[-1]
    assert [times.tolist() for times in found.taken] == taken
