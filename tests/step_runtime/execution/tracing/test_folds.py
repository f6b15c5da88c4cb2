"""Folds, at once or by steps, give what their steps give one by one, special values included."""

import pytest
import torch

from step_runtime.base.types import DType
from step_runtime.execution.applier import Applier
from step_runtime.execution.modes import Traced
from tests.support.element_functions import (
    AT_ONCE,
    FOLDED,
    INF,
    MATRIX,
    SIZES,
    TRACED,
    F,
    Given,
    V,
    drawn,
    one_by_one,
    same,
    step_by_step,
    way,
)

SHAPES = [((3, 1), 1), ((4, 5), 1), ((2, 3, 4), 2), ((3, 40), 1), ((1, 3, 2), 1)]


@pytest.mark.parametrize("scan", [False, True], ids=["accum", "scan"])
@pytest.mark.parametrize(("shape", "b"), SHAPES, ids=str)
@pytest.mark.parametrize("name", FOLDED)
def test_a_traced_fold_gives_what_its_steps_give(name: str, shape: tuple[int, ...], b: int, scan: bool) -> None:
    """First use, replay, and replay with other numbers of folds and steps."""
    fn, applier = FOLDED[name], Applier(torch.float64)
    for outer in (shape, shape, (2, *shape[1:-1], shape[-1] + 1)):
        data = drawn(fn.input, outer)
        expected = step_by_step(fn, data, len(outer), b, scan=scan)
        same(applier.fold(fn, data, len(outer), b, SIZES, scan=scan), expected)
    assert way(applier) == "Traced"
    ((found, _),) = applier._modes.values()
    assert isinstance(found, Traced) and found._fold is not None
    assert (found._fold._reductions is not None) == (name in AT_ONCE)


@pytest.mark.parametrize("value", [float("nan"), INF, -INF, 0.0, 1e300], ids=str)
@pytest.mark.parametrize("name", FOLDED)
def test_special_values_are_folded_as_by_steps(name: str, value: float) -> None:
    """NaN, infinities, zeros and huge numbers end in the same places."""
    fn, applier = FOLDED[name], Applier(torch.float64)
    for place in (0, 7, 19):
        data = drawn(fn.input, (3, 20))
        data[0][1, place] = value
        for scan in (False, True):
            same(applier.fold(fn, data, 2, 1, SIZES, scan=scan), step_by_step(fn, data, 2, 1, scan=scan))


PRODUCTS: dict[str, tuple[Given, DType]] = {
    "matrix-vector": (TRACED["product"], V),
    "scalars": (TRACED["scalars"], F),
    "outer": (TRACED["outer"], MATRIX),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("b", [1, 2])
def test_products_are_summed_as_if_they_were_formed(name: str, b: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Map that multiplies what is repeated, then an Accum that sums: also where only one of both is repeated."""
    monkeypatch.setattr("step_runtime.execution.modes._LARGE", 1)
    fn, element = PRODUCTS[name]
    total = Given(lambda s, i: [s[0] + i[0]], element, element, [1])
    outer = (4, 5, 6)
    for repeated in ([(1,), ()], [(1,), (0,)], [(0, 2), (1,)], [(2,), (2,)], [(), ()]):
        applier = Applier(torch.float64)
        full = drawn(fn.input, outer)
        data = tuple(
            part[tuple(slice(0, 1) if dim in dims else slice(None) for dim in range(3))].expand_as(part)
            for dims, part in zip(repeated, full, strict=True)
        )
        (formed,) = one_by_one(fn, data, 3)
        expected = formed.sum(tuple(range(3 - b, 3))) + 1
        for _ in range(3):
            products = applier.map(fn, data, 3, SIZES)
            same(applier.fold(total, products, 3, b, SIZES, scan=False), [expected])
        same(tuple(products), [formed])
