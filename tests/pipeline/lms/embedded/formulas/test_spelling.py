"""Operations are spelled out, so that code may do so or not."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.lms.embedded.formulas.spelling import spelled, spelled_along
from pipeline.lms.embedded.formulas.tape import Tape
from tests.support.formulas import same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("(x + y) * 2 - y", "2 * x + y"),
        ("x / 4.0", "0.25 * x"),
        ("x * -1.0", "-x"),
        ("x ** 3", "x * x * x"),
        ("x ** -2", "1 / (x * x)"),
        ("p ** 0.5", "torch.sqrt(p)"),
        ("x ** -y", "1 / x ** y"),
        ("x ** torch.arange(4)", "torch.stack([x[:, 0] ** 0, x[:, 1], x[:, 2] ** 2, x[:, 3] ** 3], 1)"),
        ("torch.relu(x)", "(x + x.abs()) / 2"),
        ("torch.relu(x)", "torch.where(x > 0, x, 0.0)"),
        ("x.clamp(max=1.0)", "-(-x).clamp(min=-1.0)"),
        ("torch.sigmoid(-x)", "1 - torch.sigmoid(x)"),
        ("torch.nn.functional.silu(x)", "x * torch.sigmoid(x)"),
        ("torch.tanh(x)", "2 * torch.sigmoid(2 * x) - 1"),
        ("torch.exp(-torch.nn.functional.softplus(x))", "torch.sigmoid(-x)"),
        ("torch.nn.functional.logsigmoid(-x)", "-torch.nn.functional.softplus(x)"),
        ("torch.log1p(x)", "torch.log(1 + x)"),
        ("torch.expm1(x)", "torch.exp(x) - 1"),
        ("torch.rsqrt(p)", "1 / torch.sqrt(p)"),
        ("torch.log2(x) * 2", "torch.log2(x) + torch.log2(x)"),
        ("(x > y).float()", "(y < x).float()"),
        ("(x >= y).float()", "1 - (x < y).float()"),
        ("((x > y) | (m > 0)).float()", "1 - ((x <= y) & (m == 0)).float()"),
        ("(~(x > y)).float()", "(x <= y).float()"),
        ("(m != 0).float()", "m"),
        ("x.mean(1)", "x.sum(1) / 4"),
        ("(m > 0).any(1).float()", "1 - (1 - m).prod(1)"),
    ],
)
def test_calls_and_what_they_are_made_of_have_the_same_formula(one: str, other: str) -> None:
    """In whatever order sums and products are written."""
    assert same(one, other) and same(one, other, 1)


def test_a_tape_that_is_full_has_no_more_formulas() -> None:
    """The operation then has none."""
    tape = Tape(60_000)
    nodes = np.arange(60_000)
    assert spelled(tape, "silu", [nodes], [np.full(nodes.shape, np.nan)]) is None
    assert spelled_along(tape, "mean", nodes.reshape(-1, 1)) is None
