"""Of one call of PyTorch, the values that functions compute on their way to the same result."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from pipeline.synthesis.observation import ReferenceRecorder, steps_of
from step_runtime.execution.invocation import default_dtype

X = torch.randn(3, 5, generator=torch.Generator().manual_seed(0)).double()
TARGET = torch.tensor([4, 0, 2])
CENTERED = X - X.mean(-1, keepdim=True)

CALLS: dict[str, tuple[Callable[[Tensor], object], list[Tensor]]] = {
    "softmax": (lambda x: torch.softmax(x, -1), [x.exp() for x in [X]] + [X.logsumexp(-1), X.exp().sum(-1)]),
    "cross_entropy": (
        lambda x: torch.nn.functional.cross_entropy(x, TARGET, reduction="none"),
        [X.logsumexp(-1), X.gather(1, TARGET.unsqueeze(1))],
    ),
    "cross_entropy_of_images": (
        lambda x: torch.nn.functional.cross_entropy(x.T.view(1, 5, 1, 3), TARGET.view(1, 1, 3)),
        [X.logsumexp(-1), X.gather(1, TARGET.unsqueeze(1))],
    ),
    "cross_entropy_of_sequences": (
        lambda x: torch.nn.functional.cross_entropy(
            torch.stack([x, 2 * x]).transpose(1, 2), TARGET.expand(2, 3), reduction="none"
        ),
        [torch.stack([each.gather(1, TARGET.unsqueeze(1)) for each in (X, 2 * X)])],
    ),
    "sort": (lambda x: x.sort(-1, descending=True), [X.argsort(-1, descending=True).argsort(-1)]),
    "stable_sort": (lambda x: x.sort(stable=True, dim=0), [X.argsort(0).argsort(0)]),
    "var": (lambda x: x.var(-1), [CENTERED, CENTERED.square()]),
    "std": (lambda x: x.std(), [(X - X.mean()).square()]),
    "layer_norm": (lambda x: torch.nn.functional.layer_norm(x, (5,)), [CENTERED, CENTERED.square().mean(-1)]),
    "group_norm": (lambda x: torch.nn.functional.group_norm(x, 1), [CENTERED]),
    "norm": (lambda x: x.norm(dim=-1), [X.square(), X.square().sum(-1)]),
    "attention": (
        lambda x: torch.nn.functional.scaled_dot_product_attention(
            x.view(1, 1, 3, 5), x.view(1, 1, 3, 5), x.view(1, 1, 3, 5), is_causal=True
        ),
        [X @ X.T / 5**0.5, torch.softmax((X @ X.T / 5**0.5).masked_fill(~torch.ones(3, 3).tril().bool(), -1e300), -1)],
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_recorded_with_its_steps(name: str) -> None:
    """As an author's code runs it."""
    call, expected = CALLS[name]
    code = compile("call(x)", "<task: test>", "eval")
    with default_dtype(torch.float64), ReferenceRecorder() as recorder:
        eval(code, {"call": call, "x": X})
    recorded = [value for calls in recorder.made.values() for value in calls]
    for value in expected:
        flat = value.double().flatten()
        assert any(len(each) == len(flat) and torch.allclose(each, flat) for each in recorded)


def test_unknown_operators_and_arguments_have_no_steps() -> None:
    assert steps_of("aten.sin.default", [X.sin()], (X,), {}) == []
    assert steps_of("aten._softmax.default", [X], (X, 7, False), {}) == []
    assert steps_of("aten.sort.default", [X], (X,), {"unknown": 1}) == []
