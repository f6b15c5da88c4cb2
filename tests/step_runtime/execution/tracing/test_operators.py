"""A traced function gives what its elements give, at every batch shape."""

import pytest
import torch

from step_runtime.execution.applier import Applier
from tests.support.element_functions import SIZES, TRACED, drawn, one_by_one, same, way

OUTERS = [(1,), (5,), (2, 3), (2, 1, 3), (60,)]


@pytest.mark.parametrize("outer", OUTERS, ids=str)
@pytest.mark.parametrize("name", TRACED)
def test_a_traced_function_gives_what_its_elements_give(name: str, outer: tuple[int, ...]) -> None:
    """First use, replay, and replay on a batch of another shape; nothing is written into the stream."""
    fn, applier = TRACED[name], Applier(torch.float64)
    for shape in (outer, outer, (3, *outer[1:]), outer):
        data = drawn(fn.input, shape)
        before = [part.clone() for part in data]
        same(tuple(applier.map(fn, data, len(shape), SIZES)), one_by_one(fn, data, len(shape)))
        assert all(map(torch.equal, data, before))
    assert way(applier) == "Traced"
