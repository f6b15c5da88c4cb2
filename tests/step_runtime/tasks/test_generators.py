"""Generators of data are expressions of `shape`; a wrong one is refused when the task is read."""

from typing import Any

import pytest
import torch

from step_runtime import TaskError, loads_task
from step_runtime.tasks.generators import expression, family, is_sorted, whole_range
from step_runtime.verification.instance import TaskInstance

TASK = """
inputs: [{{name: E0, dtype: fp32, dims: [N, M], data_gen: "{}"}}]
outputs: [{{name: S0, dtype: fp32, dims: [N, M], data_transform: "input_data['E0']"}}]
"""


def sampled(generator: str, seed: int = 0) -> Any:
    task = loads_task(TASK.format(generator), "t")
    return TaskInstance(task, task.size_sets()[0]).sample_inputs(seed)["E0"][0]


@pytest.mark.parametrize(
    ("generator", "least", "most", "whole"),
    [
        ("integers(-3, 4)", -3, 4, True), ("ids(N)", 0, 6, True), ("lengths(N)", 1, 7, True),
        ("uniform(2, 3)", 2, 3, False), ("normal(100, 0.5)", 90, 110, False), ("sorted(uniform(0, N))", 0, 7, False),
        ("one_hot", 0, 1, True), ("torch.rand(shape) * M_value + 10", 10, 15, False),
    ],
)  # fmt: skip
def test_numbers_are_in_the_range(generator: str, least: float, most: float, whole: bool) -> None:
    """The same for the same seed, other ones for another."""
    found = sampled(generator)
    assert found.shape == (5, 7) and found.dtype == torch.float64
    assert least <= found.min() <= found.max() <= most
    assert not whole or torch.equal(found, found.round())
    assert torch.equal(found, sampled(generator)) and not torch.equal(found, sampled(generator, 1))


@pytest.mark.parametrize(
    ("generator", "expected"),
    [
        ("integers(-3, N)", range(-3, 8)),
        ("ids(N)", range(7)),
        ("lengths(5)", range(1, 6)),
        ("binary", range(2)),
        ("sorted(ids(N))", None),
        ("ids(2 * N)", None),
        ("torch.rand", None),
    ],
)
def test_whole_numbers_that_are_drawn(generator: str, expected: range | None) -> None:
    """Between ends that are numbers or dims."""
    assert whole_range(generator, {"N": 7}) == expected


def test_order_and_form_are_kept() -> None:
    """Rows that ascend, and rows with a single 1."""
    assert torch.equal(sampled("sorted(torch.randn)"), sampled("sorted(torch.randn)").sort(-1).values)
    assert torch.equal(sampled("one_hot").sum(-1), torch.ones(5, dtype=torch.float64))


@pytest.mark.parametrize("generator", ["torch.random", "uniform(1)", "ids(1, 2)", "3 +", "randn"])
def test_what_gives_no_data_is_refused(generator: str) -> None:
    """With the place and what was expected."""
    with pytest.raises(TaskError, match=r"inputs\[0\]\.data_gen: "):
        loads_task(TASK.format(generator), "t")


def test_an_expression_of_another_shape_is_an_error() -> None:
    """When it runs."""
    with pytest.raises(TaskError, match="data_gen of E0"):
        sampled("torch.rand(shape)[0]")


def test_families_are_known_through_sorted() -> None:
    """What stress inputs go by."""
    assert family("sorted(ids(N))") == "ids" and is_sorted("sorted(ids(N))") and not is_sorted("ids(N)")
    assert family("torch.exp(torch.rand(shape))") == "expression" and family("torch.rand") == "torch.rand"
    assert expression("ids(N)", ["N"]) == "torch.randint(0, (N_value), shape)"
