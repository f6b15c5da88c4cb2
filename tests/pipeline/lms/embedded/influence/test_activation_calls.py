"""Activations have the formulas of what they are short for."""

from __future__ import annotations

import pytest

from pipeline.lms.embedded.formulas.residues import ORDERED, SIGNED
from tests.support.formulas import same
from tests.support.perturbed import holds

SPELLED = [
    ("leaky_relu(x, 0.1)", "torch.where(x > 0, x, 0.1 * x)"),
    ("elu(x, alpha=2.0)", "torch.where(x > 0, x, 2.0 * (torch.exp(x) - 1))"),
    ("celu(x, 2.0)", "torch.where(x > 0, x, 2.0 * (torch.exp(x / 2.0) - 1))"),
    ("gelu(x)", "x * (1 + torch.erf(x * 0.5 ** 0.5)) / 2"),
    ("gelu(x, approximate='tanh')", "0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x ** 3)))"),
    ("mish(x)", "x * torch.tanh(F.softplus(x))"),
    ("softplus(x, 2)", "torch.log(1 + torch.exp(2 * x)) / 2"),
    ("hardtanh(x, -2.0, 2.0)", "x.clamp(-2.0, 2.0)"),
    ("hardsigmoid(x)", "(x + 3).clamp(0, 6) / 6"),
    ("hardswish(x)", "x * F.relu6(x + 3) / 6"),
    ("softsign(x)", "x / (1 + x.abs())"),
    ("tanhshrink(x)", "x - torch.tanh(x)"),
    ("softshrink(x, 0.2)", "torch.where(x - 0.2 > 0, x - 0.2, torch.where(x + 0.2 < 0, x + 0.2, 0.0))"),
    ("hardshrink(x, 0.2)", "torch.where(x.abs() > 0.2, x, 0.0)"),
    ("threshold(x, 0.2, 7.0)", "torch.where(x > 0.2, x, 7.0)"),
    ("prelu(x, w[:, 0])", "torch.where(x > 0, x, w[:, 0] * x)"),
]


@pytest.mark.parametrize(("one", "other"), SPELLED)
def test_an_activation_has_the_formula_of_what_it_is_short_for(one: str, other: str) -> None:
    """Where signs multiply, and where residues are in order."""
    names = "F = torch.nn.functional\n"
    assert all(same(f"{names}F.{one}", names + other, world) for world in (SIGNED[0], ORDERED[0]))


@pytest.mark.parametrize("code", [*(one for one, _ in SPELLED[:-1]), "prelu(x, w)", "prelu(x, x[0, :1])"])
def test_elements_depend_on_what_they_are_computed_of(code: str) -> None:
    """On nothing else of their tensors."""
    shapes = {name: (3,) if name == "w" else (2, 3) for name in "xw" if f"{name}," in code or f"{name})" in code}
    holds(f"torch.nn.functional.{code}", shapes)
