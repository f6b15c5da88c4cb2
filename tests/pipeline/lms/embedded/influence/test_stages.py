"""Calls that do several steps at once pass what each step gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pipeline.lms.embedded.influence.arrays import Array, constant, unknown
from pipeline.lms.embedded.influence.stages import STAGES

X = unknown(np.array([[1, 2], [4, 8]], np.uint64))


def passed(name: str, *args: Any, **named: Any) -> list[Any]:
    return [stage.sources.tolist() for stage in STAGES[name](*args, **named)]


@pytest.mark.parametrize(
    ("name", "args"), [("sum", (X,)), ("norm", (X,)), ("mean", (X, (0, 1))), ("max", (X,)), ("norm", (X, 2, (0, 1)))]
)
def test_a_reduction_along_several_dims_passes_those_along_some(name: str, args: tuple[Any, ...]) -> None:
    """A program folds one dim, then the next."""
    assert passed(name, *args) == [[3, 12], [5, 10]]


@pytest.mark.parametrize(("name", "args"), [("sum", (X, 1)), ("max", (X, X)), ("norm", (X, 2, 0))])
def test_what_a_call_does_in_one_step_has_no_stages(name: str, args: tuple[Any, ...]) -> None:
    """Neither a reduction along one dim nor a comparison of two tensors."""
    assert passed(name, *args) == []


def test_a_loss_passes_what_it_gives_before_it_is_reduced() -> None:
    """Of elements, and their reductions along some dims; where nothing is reduced, there is none."""
    target = unknown(np.array([[16, 16], [16, 16]], np.uint64))
    assert passed("mse_loss", X, target) == [[[17, 18], [20, 24]], [19, 28], [21, 26]]
    assert passed("mse_loss", X, target, reduction="none") == []


def test_a_cross_entropy_passes_the_scores_of_known_classes() -> None:
    """As of the diagonal, where the classes are positions."""
    classes: Array = constant(np.arange(2))
    assert passed("cross_entropy", X, classes) == [[1, 8], [3, 12]]
