"""Modules, functions of the code and functions on parts are called with what they were made with."""

from __future__ import annotations

import pytest

from tests.support.formulas import same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("torch.nn.Softmax(1)(x)", "torch.softmax(x, 1)"),
        ("(lambda a, b=2: a * b)(x)", "x + x"),
        ("def twice(a, *, by=y):\n    return a * by\ntwice(x)", "x * y"),
        ("torch.vmap(lambda row: row.sum())(x)", "x.sum(1)"),
    ],
)
def test_a_call_of_what_the_code_makes_is_read(one: str, other: str) -> None:
    """With its defaults and settings."""
    assert same(one, other)
