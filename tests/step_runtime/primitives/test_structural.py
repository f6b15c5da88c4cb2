"""What the primitives that reshape, repeat and copy compute, on every element type that they admit."""

from typing import Any

import pytest
import sympy
import torch

import step_runtime as step
from step_runtime import RuleError
from tests.support.streams import CTX, ELEMENTS, D, K, M, N, counted, filled, index


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


def test_a_routed_dim_is_held_to_reshapes_rule_when_it_is_known() -> None:
    """Only the data tells whether `S` divides what a stream was given."""
    part, _ = step.Partition(N=2).apply((counted(4), index([1, 0], [1, 0], [1, 0], [0, 1])))
    with pytest.raises(RuleError, match="S to divide the dim"):
        step.Reshape(L=[0], S=2).apply(part)
