"""Batches with repeated dims, which take no memory, give what their elements give."""

import pytest
import torch

from step_runtime.execution.applier import Applier
from tests.support.element_functions import SIZES, TRACED, drawn, one_by_one, same, way


@pytest.mark.parametrize("name", TRACED)
def test_what_a_stream_repeats_gives_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeated dims, which take no memory, anywhere among the others, in batches that count as large."""
    monkeypatch.setattr("step_runtime.execution.modes._LARGE", 1)
    fn, applier = TRACED[name], Applier(torch.float64)
    outer = (4, 3, 5, 2)
    for repeated in ((1,), (0, 2), (3,), (0, 1, 2, 3)):
        data = tuple(
            part[tuple(slice(0, 1) if dim in repeated and not index else slice(None) for dim in range(4))].expand_as(
                part
            )
            for index, part in enumerate(drawn(fn.input, outer))
        )
        expected = one_by_one(fn, data, 4)
        for _ in range(2):
            same(tuple(applier.map(fn, data, 4, SIZES)), expected)
    assert way(applier) == "Traced"
