"""Formulas of calls along dims."""

from __future__ import annotations

import pytest

from tests.support.formulas import same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("torch.softmax(x, 1)", "torch.exp(x) / torch.exp(x).sum(1, keepdim=True)"),
        ("torch.log_softmax(x, 1)", "x - torch.logsumexp(x, 1, True)"),
        ("torch.logcumsumexp(x, 1)[:, -1]", "torch.logsumexp(x, 1)"),
        ("x.var(1, unbiased=False)", "(x * x).mean(1) - x.mean(1) ** 2"),
        ("x.var(1)", "((x - x.mean(1, keepdim=True)) ** 2).sum(1) / 3"),
        ("x.norm(dim=1) ** 2", "(x * x).sum(1)"),
        ("x.norm(p=1, dim=1)", "x.abs().sum(1)"),
        ("torch.nn.functional.glu(x, 1)", "x[:, :2] * torch.sigmoid(x[:, 2:])"),
        ("x.max(1).values", "x.amax(1)"),
        ("x.sort(1, descending=True).values[:, 0]", "x.topk(2, 1).values[:, 0]"),
        ("x.sort(1).indices[:, -1]", "x.topk(1, 1).indices[:, 0]"),
        ("x.cummax(1).values[:, -1]", "x.amax(1)"),
        ("x.aminmax().max", "x.amax((0, 1))"),
        ("torch.nn.functional.softmin(x, 1)", "torch.softmax(-x, 1)"),
        ("torch.var_mean(x, 1)[1]", "x.mean(1)"),
        ("torch.std_mean(x, 1)[0]", "torch.sqrt(x.var(1))"),
    ],
)
def test_a_call_along_a_dim_is_what_it_does_in_several_steps(one: str, other: str) -> None:
    """Places and ranks are the same for the same elements."""
    assert same(one, other)
