"""Differently written code of one meaning gives one term, other code another."""

from __future__ import annotations

import pytest

from tests.support.symbolic_terms import read


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x / torch.sqrt(y + 1e-5)", "x * torch.rsqrt(torch.add(y, 1e-5))"),
        ("x.mean(-1, keepdim=True)", "torch.sum(x, -1).unsqueeze(1) / D_value"),
        ("torch.einsum('nm,nm->n', x, y)", "(y * x).sum(-1)"),
        ("x @ y", "torch.einsum('nk,km->nm', x, y)"),
        ("(x - y).square()", "x ** 2 - 2 * x * y + y * y"),
        ("torch.softmax(x, -1)", "e = torch.exp(x)\ne / e.sum(-1, keepdim=True)"),
        ("torch.where(x > 0.5, x, y)", "c = (0.5 < x).float()\nc * x + (1 - c) * y"),
        ("torch.stack([x * W[i] for i in range(E_value)], -1).sum(-1)", "x * W[0] + x * W[1]"),
        ("torch.nn.functional.gelu(x.T)", "torch.nn.GELU()(x)"),
        ("torch.var(x, -1)", "((x - x.mean(-1)) ** 2).sum(-1) / (D_value - 1)"),
        ("x.var(-1, unbiased=False)", "(x - x.mean(-1)).square().mean(-1)"),
        ("F.cosine_similarity(x, y, dim=-1)", "(x * y).sum(-1) / torch.sqrt((x * x).sum(-1) * (y * y).sum(-1))"),
        ("F.layer_norm(x, (D_value,), None, None, 1e-3)", "(x - x.mean(-1)) / torch.sqrt(x.var(-1, False) + 1e-3)"),
        ("F.cross_entropy(x, y, reduction='none')", "(y * (torch.logsumexp(x, -1) - x)).sum(-1)"),
        ("torch.cdist(x, y)", "torch.sqrt(((x - y) ** 2).sum(-1))"),
        ("torch.nn.LogSoftmax(-1)(x)", "x - torch.log(torch.exp(x).sum(-1))"),
        ("x.amin(-1)", "-torch.amax(-x, -1)"),
        ("torch.clamp(x, min=0)", "torch.relu(x)"),
        ("torch.nn.functional.linear(x, W, y)", "x @ W.T + y"),
        ("x.prod(-1) ** (1 / D_value)", "torch.exp(torch.log(x).mean(-1))"),
        ("torch.log_softmax(x, -1)", "torch.log(torch.exp(x - x.amax(-1)) / torch.exp(x - x.amax(-1)).sum(-1))"),
        ("torch.sigmoid(x)", "torch.exp(x) / (1 + torch.exp(x))"),
        ("torch.abs(2 * (x - y))", "(y - x).abs() * 2"),
        ("torch.cumprod(x, -1).log()", "torch.log(x).cumsum(-1)"),
        ("torch.logcumsumexp(x, -1)", "x.exp().cumsum(-1).log()"),
        ("torch.add(x, y, alpha=3)", "x + 3 * y"),
        ("x.clone().mul_(y).add_(1)", "x * y + 1"),
        ("z = x * 1\nz.mul_(y)\nz.add_(1)\nz", "x * y + 1"),
        ("F.batch_norm(x, y, W)", "(x - y) / torch.sqrt(W + 1e-5)"),
        ("torch.nn.LeakyReLU(0.2)(x)", "torch.where(x > 0, x, 0.2 * x)"),
        ("torch.nn.GELU(approximate='tanh')(x)", "torch.nn.functional.gelu(x, approximate='tanh')"),
        ("x.max(-1, keepdim=True)[0]", "x.amax(-1, keepdim=True)"),
        ("top, _ = torch.max(x, dim=-1)\ntop", "x.amax(-1)"),
        ("x if 'a' == 'a' else y", "x"),
        ("def f(a, b):\n    return a * b / D_value\nf(x, y) + f(y, b=y)", "(x * y + y * y) / D_value"),
        ("torch.norm(x, p=1)", "x.abs().sum()"),
        ("torch.linalg.vector_norm(x, 3)", "(x.abs() ** 3).sum() ** (1 / 3)"),
    ],
)
def test_code_of_one_meaning_gives_one_term(one: str, other: str) -> None:
    """Spelling, order of commutative operands, and shapes do not count."""
    first, second = read(one, other)
    assert first is second


@pytest.mark.parametrize(
    ("one", "other"),
    [("x - y", "y - x"), ("x / y", "y / x"), ("torch.exp(x)", "torch.log(x)"), ("x.sum(-1)", "x.cumsum(-1)"),
     ("F.gelu(x)", "F.gelu(x, approximate='tanh')"), ("x.norm(1)", "x.norm(2)"), ("x.sum(-1)", "x.sum(-1).sum(-1)"),
     ("x.topk(1).indices", "x.topk(2).indices"), ("W[0]", "W[1]"), ("x.amax(-1)", "x.amin(-1)")],
)  # fmt: skip
def test_code_of_another_meaning_gives_another_term(one: str, other: str) -> None:
    """Operands in order, the operation and what is selected count."""
    first, second = read(one, other)
    assert first is not second


def test_what_a_loop_changes_is_unknown_and_made_of_what_it_mentions() -> None:
    """A value before a loop is not that after it."""
    after, before = read("y = x\nfor t in range(3):\n    y = y * W[0]\ny", "x")
    assert after is not before
