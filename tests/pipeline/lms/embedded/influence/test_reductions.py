"""Formulas of reductions and products along dims."""

from __future__ import annotations

import pytest

from tests.support.formulas import same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x.sum()", "x.sum(0).sum(0)"),
        ("x.prod(1)", "x[:, 0] * x[:, 1] * x[:, 2] * x[:, 3]"),
        ("x.cumsum(1)[:, 2]", "x[:, :3].sum(1)"),
        ("x @ w", "torch.einsum('nk,km->nm', x, w)"),
        ("(x @ w) @ w.T", "x @ (w @ w.T)"),
        ("(x.unsqueeze(2) * w).sum(1)", "x @ w"),
    ],
)
def test_a_reduction_is_what_it_adds_or_multiplies(one: str, other: str) -> None:
    """In whatever order."""
    assert same(one, other)
