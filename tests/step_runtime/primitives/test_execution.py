"""What every primitive computes, on every element type it admits.

Invariant: outputs are those of the spec's table worked by hand, with stream order innermost first.
"""

from __future__ import annotations

from typing import Any

import pytest
import sympy
import torch

import step_runtime as step
from tests.support.streams import (
    CTX,
    ELEMENTS,
    Apply,
    D,
    E,
    F,
    K,
    M,
    N,
    counted,
    filled,
    fn_double,
    fn_last,
    fn_mul,
    fn_sum,
    index,
    values,
)


def test_map_applies_to_each_element() -> None:
    """Map keeps the shape; a tuple of streams is zipped first, left to right."""
    assert values(step.Map(fn=fn_double).apply(counted(M, N))) == [[0, 2], [4, 6], [8, 10]]
    assert values(step.Map(fn=fn_mul).apply((counted(M), counted(M, start=5)))) == [0, 6]
    sub = Apply(lambda x, y, z: [x - y * z], step.STuple((F, F, F)), F)
    assert values(step.Map(fn=sub).apply((counted(M), counted(M, start=5), counted(M, start=7)))) == [-35, -47]


@pytest.mark.parametrize("left", ELEMENTS)
@pytest.mark.parametrize("right", ELEMENTS)
def test_zip_joins_components(left: str, right: str) -> None:
    """Zip puts the left components first; a tuple in a tuple is flat."""
    one, other = filled(ELEMENTS[left], [M, N]), filled(ELEMENTS[right], [M, N], 1)
    zipped = step.Zip().apply((one, other))
    assert zipped.dtype == step.STuple((ELEMENTS[left], ELEMENTS[right])) and zipped.shape == [M, N]
    assert len(zipped.data) == len(one.data or ()) + len(other.data or ())
    assert all(torch.equal(a, b) for a, b in zip(zipped.data, [*(one.data or ()), *(other.data or ())], strict=True))


def test_accum_folds_inner_dims_in_stream_order() -> None:
    """Accum folds the `b` inner dims from the initial state, innermost fastest, one result per outer element."""
    assert values(step.Accum(fn=fn_sum, b=1).apply(counted(M, N))) == [1, 5, 9]
    assert values(step.Accum(fn=fn_sum, b=2).apply(counted(M, N, K))) == [15, 51, 87, 123]
    assert step.Accum(fn=fn_sum, b=2).apply(counted(M, N, K)).shape == [K]
    assert values(step.Accum(fn=fn_last, b=1).apply(counted(M, N))) == [5, 11, 17]
    in_order = 1
    for x in range(6):
        in_order = 2 * in_order + x
    assert values(step.Accum(fn=fn_last, b=2).apply(counted(M, N, 1))) == [in_order]


def test_scan_emits_every_state() -> None:
    """Scan keeps the shape and starts anew from the initial state in every outer element."""
    scanned = step.Scan(fn=fn_last, b=1).apply(counted(M, N))
    assert values(scanned) == [[2, 5], [4, 11], [6, 17]] and scanned.shape == [M, N]
    assert values(step.Scan(fn=fn_sum, b=2).apply(counted(M, N, 1))) == [[[0, 1], [3, 6], [10, 15]]]


@pytest.mark.parametrize("dtype", ELEMENTS)
@pytest.mark.parametrize("b", [0, 1, 2])
def test_promote_inserts_a_one(dtype: str, b: int) -> None:
    """Promote puts a dim of 1 at index `b`, the outermost place included, on every element type."""
    before = filled(ELEMENTS[dtype], [M, N])
    after = step.Promote(b=b).apply(before)
    shape: list[Any] = [M, N]
    shape.insert(b, 1)
    assert after.shape == shape and after.rank == 2 and after.dtype == before.dtype
    assert [part.shape[:3] for part in after.data] == [
        torch.Size(reversed([int(sympy.sympify(d).subs(CTX)) for d in shape]))
    ] * len(after.data)


@pytest.mark.parametrize("dtype", ELEMENTS)
@pytest.mark.parametrize(
    ("dims", "shape"),
    [
        ([1], [M * N, K, D]),
        ([2], [M, N * K, D]),
        ([3], [M, N, K * D]),
        ([1, 2], [M * N * K, D]),
        ([2, 3], [M, N * K * D]),
        ([1, 2, 3], [M * N * K * D]),
    ],
)
def test_flatten_merges_dims_into_their_inner_neighbours(dtype: str, dims: list[int], shape: list[Any]) -> None:
    """Flatten keeps the order of elements, on every element type."""
    before = filled(ELEMENTS[dtype], [M, N, K, D])
    after = step.Flatten(L=dims).apply(before)
    assert after.shape == [sympy.expand(dim) for dim in shape] and after.rank == len(shape) - 1
    for old, new in zip(before.data or (), after.data, strict=True):
        assert torch.equal(old.flatten(), new.flatten()) and new.shape[len(shape) :] == old.shape[4:]


@pytest.mark.parametrize("dtype", ELEMENTS)
def test_reshape_splits_dims(dtype: str) -> None:
    """Each dim in `L` becomes `[S, dim/S]`, indices counted in the input, order kept."""
    before = filled(ELEMENTS[dtype], [K, N, K])
    after = step.Reshape(L=[2, 0], S=2).apply(before)
    assert after.shape == [2, K / 2, N, 2, K / 2] and after.rank == 4
    assert after.data[0].shape[:5] == (2, 2, 3, 2, 2)
    assert all(torch.equal(a.flatten(), b.flatten()) for a, b in zip(before.data or (), after.data, strict=True))
    assert step.Flatten(L=[1]).apply(step.Flatten(L=[4]).apply(after)).shape == [K, N, K]
    assert step.Reshape(L=[0], S=D).apply(counted(D * N)).shape == [D, N]


@pytest.mark.parametrize("dtype", ELEMENTS)
def test_repeat_and_repeatref_repeat_elements(dtype: str) -> None:
    """Repeat puts `n` innermost; RepeatRef takes it from its reference's innermost dim."""
    before = filled(ELEMENTS[dtype], [N])
    after = step.Repeat(n=M).apply(before)
    like = step.RepeatRef().apply((filled(ELEMENTS[dtype], [N]), counted(M, N)))
    assert after.shape == like.shape == [M, N] and after.dtype == like.dtype == before.dtype
    for old, new, ref in zip(before.data or (), after.data, like.data, strict=True):
        assert torch.equal(new, ref) and all(torch.equal(new[:, i], old) for i in range(2))
    assert step.RepeatLast is step.Repeat
    assert step.Repeat(n=3).apply(before).shape == [3, N]


@pytest.mark.parametrize("dtype", [name for name in ELEMENTS if name != "tuple"])
@pytest.mark.parametrize("a", [1, 2])
def test_bufferize_and_streamify_are_inverse(dtype: str, a: int) -> None:
    """Bufferize moves the `a` inner dims into the element, a Buffer's dims inside them; Streamify moves them out."""
    before = filled(ELEMENTS[dtype], [M, N, K])
    after = step.Bufferize(a=a).apply(before)
    assert after.dtype == step.Buffer(ELEMENTS[dtype], [M, N][:a]) and after.shape == [M, N, K][a:]
    back = step.Streamify().apply(after)
    inner = [D] if dtype.startswith("buffer") else []
    assert back.shape == [*inner, M, N, K] and torch.equal(back.data[0], before.data[0])  # type: ignore[index]


@pytest.mark.parametrize("dtype", ELEMENTS)
def test_copy_and_identity_change_nothing(dtype: str) -> None:
    """Copy gives the stream twice, Identity once."""
    before = filled(ELEMENTS[dtype], [M, N])
    for after in (*step.Copy().apply(before), step.Identity().apply(before)):
        assert after.type == before.type
        assert all(torch.equal(a, b) for a, b in zip(after.data, before.data or (), strict=True))


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
