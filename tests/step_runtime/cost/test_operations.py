"""Operations of functions are counted on their operators, worked by hand."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from step_runtime.base.errors import TaskCodeError
from step_runtime.base.types import Buffer, DType, Multihot, Scalar, STuple
from step_runtime.cost.chip import DEFAULT_WEIGHTS
from step_runtime.cost.operations import OperationCounter
from step_runtime.execution.number_formats import element_type
from tests.support.element_functions import Given

F, V, W = Scalar("float"), Buffer(Scalar("float"), [8]), Buffer(Scalar("float"), [8, 3])
WEIGHT = torch.rand(8, 5, dtype=torch.float64)
BIAS = torch.rand(5, dtype=torch.float64)
count = OperationCounter({}, DEFAULT_WEIGHTS)


def in_place(value: Sequence[Tensor]) -> Sequence[Tensor]:
    value[0].mul_(2).add_(1)
    return [value[0]]


@pytest.mark.parametrize(
    ("body", "takes", "gives", "operations"),
    [
        (lambda x: [x[0]], V, V, 0),
        (lambda x: [x[0] + 1], V, V, 8),
        (lambda x: [torch.exp(x[0])], V, V, 32),
        (lambda x: [torch.sqrt(x[0]) / 2], V, V, 64),
        (lambda x: [x[0] ** 2], V, V, 32),
        (lambda x: [x[0].sum()], V, F, 8),
        (lambda x: [x[0].mean()], V, F, 12),
        (lambda x: [torch.softmax(x[0], 0)], V, V, 88),
        (lambda x: [x[0] @ WEIGHT], V, Buffer(F, [5]), 2 * 8 * 5),
        (lambda x: [x[0] @ WEIGHT + BIAS], V, Buffer(F, [5]), 2 * 8 * 5 + 5),
        (lambda x: [torch.nn.functional.linear(x[0], WEIGHT.T, BIAS)], W, Buffer(F, [5, 3]), 2 * 3 * 8 * 5 + 15),
        (lambda x: [torch.dot(x[0], x[0])], V, F, 16),
        (lambda x: [x[0].T @ x[0]], W, Buffer(F, [8, 8]), 2 * 8 * 3 * 8),
        (lambda x: [torch.einsum("md,nd->mn", x[0], x[0])], W, Buffer(F, [3, 3]), 2 * 3 * 8 * 3),
        (lambda x: [x[0].T.reshape(-1)[:8].flip(0)], W, V, 0),
        (lambda x: [torch.cat((x[0], x[0]))[:8] + 1], V, V, 8),
        (lambda x: [torch.zeros_like(x[0]).scatter(0, x[0].topk(3).indices, 1.0)], V, V, 8),
        (in_place, V, V, 16),
        # The sum of the weights does not depend on the element.
        (lambda x: [x[0] * torch.exp(WEIGHT).sum()], V, V, 8),
        (lambda x: [x[0] + x[1]], STuple((V, F)), V, 8),
        (lambda x: [x[0][0]], Multihot("float", 3), F, 0),
    ],
)  # fmt: skip
def test_operations_of_a_function(body: Callable[..., Any], takes: DType, gives: DType, operations: int) -> None:
    """Products 2 for each pair that is added up, elementwise 1 or 4, reductions by what they read, moves nothing."""
    assert count(Given(body, takes, gives)) == operations


def test_the_owner_of_a_chip_may_replace_the_table() -> None:
    dear = OperationCounter({}, {**DEFAULT_WEIGHTS, "exp": 20, "sum": (3, 7)})
    assert dear(Given(lambda x: [torch.exp(x[0]).sum()], V, F)) == 8 * 20 + 8 * 3 + 7


def test_a_function_that_fails_is_named() -> None:
    with pytest.raises(TaskCodeError, match="function given raised"):
        count(Given(lambda x: [x[0] @ torch.ones(3)], V, F))


def test_counting_leaves_the_random_numbers_as_they_were() -> None:
    """And gives the same count every time."""
    before = torch.get_rng_state()
    fn = Given(lambda x: [x[0] + 1 if x[0].sum() > 0 else x[0]], V, V)
    assert OperationCounter({}, DEFAULT_WEIGHTS)(fn) == OperationCounter({}, DEFAULT_WEIGHTS)(fn) == 8 + 9
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp8_e4m3", "fp8_e5m2", "int8", "int32", "bool"])
def test_a_function_is_counted_on_a_sample_of_its_format(name: str) -> None:
    """Conversions are free, and an integer sample divides nothing by zero."""
    kinds: list[torch.dtype] = []

    def body(x: Sequence[Tensor]) -> Sequence[Tensor]:
        kinds.append(x[0].dtype)
        return [1 + 6 // x[0].to(torch.int32).clamp(min=1)]

    taken = Buffer(Scalar(name), [8])
    assert count(Given(body, taken, Buffer(Scalar("int32"), [8]))) == 8 + 4 * 8 + 8
    assert kinds == [element_type(taken, torch.float64)]
