"""Operations on residues keep the laws that programs rely on."""

from __future__ import annotations

import pytest

from pipeline.lms.embedded.formulas.residues import ORDERED, SIGNED
from tests.support.formulas import same


@pytest.mark.parametrize(
    ("one", "other"),
    [
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
        ("torch.logsumexp(x, 1)", "x.amax(1) + torch.log(torch.exp(x - x.amax(1, keepdim=True)).sum(1))"),
        ("torch.log_softmax(x, 1)", "torch.log(torch.softmax(x, 1))"),
        ("torch.log(x / y)", "torch.log(x) - torch.log(y)"),
        ("(x + 2 * torch.log(p)) / 3", "torch.log(p * p * torch.exp(x)) / 3"),
        ("torch.log(x.exp().sum(1) / 4)", "torch.logsumexp(x, 1) - math.log(4)"),
        ("torch.exp(x / (x * y).sum())", "torch.exp(x * (1 / (y * x).sum()))"),
        ("torch.softmax(torch.where(m > 0, x, -1e30), 1)", "m * x.exp() / (m * x.exp()).sum(1, keepdim=True)"),
        ("m * m", "m"),
        ("(m > 0) * x", "torch.where(m == 1, x, 0.0)"),
    ],
)
def test_what_is_equal_has_the_same_formula(one: str, other: str) -> None:
    """For signs, roots, exponentials, logarithms, extremes and masks, in every kind of world."""
    assert all(same(one, other, world) for world in (0, SIGNED[0], ORDERED[0]))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("torch.maximum(x, y)", "torch.where(x > y, x, y)"),
        ("x.sort(1).values[:, 3]", "x.amax(1)"),
        ("x.sort(1, descending=True).values", "torch.gather(x, 1, x.argsort(1, descending=True))"),
        ("x.argsort(1)[:, 0]", "x.argmin(1)"),
        ("torch.argmax(torch.sqrt(p), 1)", "p.argmax(1)"),
        ("torch.topk(x, 2, 1).values.sum(1)", "(x * (x > x.kthvalue(2, 1, keepdim=True).values)).sum(1)"),
        ("torch.gather(x, 1, x.argmax(1, keepdim=True)).squeeze(1)", "(x * one_hot(x.argmax(1), 4)).sum(1)"),
    ],
)
def test_comparisons_sorts_and_extremes_agree_where_residues_are_in_order(one: str, other: str) -> None:
    """Whatever the order is."""
    names = "one_hot = torch.nn.functional.one_hot\n"
    assert all(same(names + one, names + other, world) for world in ORDERED)


def test_signs_of_products_are_products_of_signs_where_they_are_squares() -> None:
    """Not where residues are compared as numbers."""
    laws = [same("x.abs() * y.abs()", "(x * y).abs()", world) for world in (SIGNED[0], ORDERED[0])]
    assert laws == [True, False]


def test_equal_elements_are_sorted_as_pytorch_sorts_them() -> None:
    """A stable sort keeps their order, in whichever direction."""
    assert same("m.sort(1, stable=True).indices", "(m * 8 + torch.arange(4)).argsort(1)", ORDERED[0])
    assert same("m.sort(1, stable=True, descending=True).indices", "(m * -8 + torch.arange(4)).argsort(1)", ORDERED[0])


@pytest.mark.parametrize("code", ["x[:, i]", "i.long()"])
def test_what_an_operation_takes_is_not_changed_later(code: str) -> None:
    """A loop that writes into a tensor leaves the formulas of what was there before."""
    loop = "t = torch.zeros(4)\nfor k in range(3):\n    t[i[k].long()] = x[k, 0]\n"
    once = "t = torch.zeros(4)\n" + "".join(f"t = t.scatter(0, i[{k}].long().view(1), x[{k}, :1])\n" for k in range(3))
    assert same(loop + "t", once + "t") and same(loop + code, once + code)


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
    ):
        assert same(one, other) and not same(one, other, 1)
