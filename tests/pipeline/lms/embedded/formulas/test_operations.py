"""Operations on residues keep the laws that programs rely on."""

from __future__ import annotations

import pytest

from tests.support.formulas import same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x.abs() * y.abs()", "(x * y).abs()"),
        ("x.sign()", "-(-x).sign()"),
        ("torch.sqrt(p) * torch.sqrt(p)", "p"),
        ("torch.sqrt(p * x)", "torch.sqrt(p) * torch.sqrt(x)"),
        ("torch.exp(x - y)", "torch.exp(x) / torch.exp(y)"),
        ("torch.log(1 / x)", "-torch.log(x)"),
        ("torch.exp(torch.log(x) + y)", "x * torch.exp(y)"),
        ("torch.exp(torch.log(x) - torch.log(y))", "x / y"),
        ("torch.exp(torch.logsumexp(x, 1))", "torch.exp(x).sum(1)"),
        ("x.amax(1)", "-(-x).amin(1)"),
        ("x.amax(1)", "torch.maximum(x[:, 2:].amax(1), x[:, :2].amax(1))"),
        ("torch.softmax(x, 1)", "torch.softmax(x - x.amax(1, keepdim=True), 1)"),
        ("m * m", "m"),
        ("(m > 0) * x", "torch.where(m == 1, x, 0.0)"),
    ],
)
def test_what_is_equal_has_the_same_formula(one: str, other: str) -> None:
    """For signs, roots, exponentials, logarithms, extremes and masks."""
    assert same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x.abs()", "x"),
        ("torch.exp(x) * y", "torch.exp(x * y)"),
        ("torch.log(x * y)", "torch.log(x)"),
        ("x.amax(1)", "x.amin(1)"),
        ("x.cumsum(1)", "x.cumsum(0)"),
        ("torch.sqrt(x)", "x"),
        ("x.argmax(1)", "x.argmin(1)"),
        ("torch.nn.functional.gelu(x)", "torch.nn.functional.mish(x)"),
        ("torch.nn.functional.gelu(x)", "torch.nn.functional.gelu(x, approximate='tanh')"),
        ("torch.nn.functional.leaky_relu(x, 0.1)", "torch.nn.functional.leaky_relu(x, 0.2)"),
        ("torch.nn.functional.softplus(x, 2)", "torch.nn.functional.softplus(x)"),
        ("torch.round(x, decimals=2)", "torch.round(x)"),
    ],
)
def test_what_differs_has_another_formula(one: str, other: str) -> None:
    """Also where all that an element depends on is the same."""
    assert not same(one, other)


def test_a_guard_against_overflow_leaves_a_trace_where_it_matters() -> None:
    """Programs may do without it, or have it elsewhere: only the first world takes no notice."""
    for one, other in (
        ("x / (y + 1e-6)", "x / y"),
        ("x / y.clamp(min=1e-6)", "x / y"),
        ("torch.logsumexp(x, 1)", "torch.log(torch.exp(x).sum(1))"),
    ):
        assert same(one, other) and not same(one, other, 1)
