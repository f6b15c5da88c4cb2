"""Products that an Accum sums are equal to those that are formed."""

from __future__ import annotations

import pytest
import torch

from step_runtime.base.types import DType
from step_runtime.execution.applier import Applier
from tests.support.element_functions import MATRIX, SIZES, TRACED, F, Given, V, drawn, one_by_one, same

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
