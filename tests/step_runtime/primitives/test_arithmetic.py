"""What Map, Zip, Accum and Scan compute, worked by hand; stream order is innermost first."""

import pytest
import torch

import step_runtime as step
from tests.support.streams import (
    ELEMENTS,
    Apply,
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
    """Scan keeps the shape and starts again from the initial state in every outer element."""
    scanned = step.Scan(fn=fn_last, b=1).apply(counted(M, N))
    assert values(scanned) == [[2, 5], [4, 11], [6, 17]] and scanned.shape == [M, N]
    assert values(step.Scan(fn=fn_sum, b=2).apply(counted(M, N, 1))) == [[[0, 1], [3, 6], [10, 15]]]
