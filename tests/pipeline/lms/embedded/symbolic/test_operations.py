"""Every call of code gives some term, odd ones too."""

from __future__ import annotations

import pytest

from pipeline.lms.embedded.symbolic.algebra import Term
from tests.support.symbolic_terms import read


def test_code_that_is_not_understood_is_an_atom() -> None:
    """No code makes the reader fail; the same text is the same atom."""
    first, second, third = read("[*x, lambda: 3][0]", "[*x, lambda: 3][0]", "{1: x}[1]")
    assert first is second and first is not third


@pytest.mark.parametrize(
    "code",
    ["torch.square()", "torch.sqrt(x, y, W)", "torch.einsum('nm', x)", "torch.einsum(x, y)", "torch.where(x)",
     "torch.pow(1e300, 2) * x", "x[-9]", "(x, y)[5]", "torch.stack([])", "x ** 0.5 ** -1", "0 * x / (x - x)",
     "x.norm(2, 1)", "torch.log(-1)", "torch.exp(1e9)", "torch.exp(1000 * x) - torch.exp(1001)", "1 / (x - x)",
     "torch.where(x > 0, x, float('-inf')).exp()", "(1e-13 * x + y) ** -0.5", "torch.norm(x, 0)", "x ** (x - x)",
     "x.sum(x)",
     "a, b, c = x\na + q", "[i for i in x]", "f'{x}'", "x if y else W", "x += 1", "z += 1\nz", "lambda: x", "zip(x)"],
)  # fmt: skip
def test_odd_code_does_not_make_the_reader_fail(code: str) -> None:
    """Wrong arguments, unknown names and unknown forms give some term."""
    assert isinstance(read(code)[0], Term)
