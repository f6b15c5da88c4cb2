"""Batches with repeated dims, which take no memory, give what their elements give."""

from typing import Any

import pytest
import torch

from step_runtime.execution.applier import Applier
from step_runtime.execution.tracing import Untraceable, trace
from tests.support.element_functions import SIZES, TRACED, D, drawn, one_by_one, same, way


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


def test_repeated_dims_are_copied_where_they_cannot_be_distinguished(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a tape over several batch dims, the one over a single dim serves."""
    monkeypatch.setattr("step_runtime.execution.modes._LARGE", 1)

    def narrow(function: Any, example: Any, captures: Any, dims: int = 1) -> Any:
        if dims > 1:
            raise Untraceable
        return trace(function, example, captures)

    monkeypatch.setattr("step_runtime.execution.modes.trace", narrow)
    fn, applier = TRACED["product"], Applier(torch.float64)
    data = (torch.randn(3, 1).expand(3, 4), torch.randn(3, 4, D))
    for _ in range(2):
        same(tuple(applier.map(fn, data, 2, SIZES)), one_by_one(fn, data, 2))
    assert way(applier) == "Traced"
