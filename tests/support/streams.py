"""Functions and streams with data for tests that run primitives eagerly."""

from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch import Tensor

import step_runtime as step

M, N, K, D, E = sympy.symbols("M N K D E")
CTX = {M: 2, N: 3, K: 4, D: 2, E: 3}
F = step.Scalar("float")
ELEMENTS = {
    "scalar": F,
    "buffer": step.Buffer(F, [D]),
    "multihot": step.Multihot("float", E),
    "buffer of multihots": step.Buffer(step.Multihot("float", E), [D]),
    "tuple": step.STuple((F, step.Buffer(F, [D]), step.Multihot("float", E))),
}


class Sum(step.Fn):
    """Adds scalars, or tensors of any one layout."""

    def getInit(self) -> list[Tensor]:
        return [torch.zeros(())] if self.output == F else [torch.zeros(2)]

    def apply(self, state: Any, input: Any) -> list[Tensor]:  # type: ignore[override]  # noqa: A002
        return [state[0] + input[0]]


class Apply(step.Fn):
    """A stateless function given as Python."""

    def __init__(self, code: Callable[..., list[Tensor]], input_dtype: Any, output_dtype: Any) -> None:
        super().__init__("Apply", input_dtype, output_dtype)
        self.code = code

    def apply(self, input: Any) -> list[Tensor]:  # type: ignore[override]  # noqa: A002
        return self.code(*input)


fn_sum = Sum("Sum", F, F)
fn_double = Apply(lambda x: [2 * x], F, F)
fn_mul = Apply(lambda x, y: [x * y], step.STuple((F, F)), F)


def stream(name: str, dtype: Any, shape: list[Any], *data: Tensor) -> step.Stream:
    """A stream at the sizes of `CTX`, without data where none is given."""
    result = step.Stream(name, dtype, len(shape) - 1, shape)
    result.ctx = dict(CTX)
    result.data = list(data) or None
    return result


def counted(*shape: Any, start: int = 0) -> step.Stream:
    """Scalars 0, 1, 2, … in stream order: the innermost dim, which is named first, runs fastest."""
    sizes = [int(sympy.sympify(dim).subs(CTX)) for dim in shape]
    total = torch.tensor(sizes).prod().item()
    return stream(
        "E0", F, list(shape), torch.arange(start, start + total, dtype=torch.float64).reshape(*reversed(sizes))
    )


def index(*bits: list[int], shape: Any = None) -> step.Stream:
    """An index of multihots; one-dimensional unless a shape is given."""
    dims = shape or [sympy.Integer(len(bits))]
    sizes = [int(sympy.sympify(dim).subs(CTX)) for dim in reversed(dims)]
    return stream(
        "I", step.Multihot("float", len(bits[0])), dims, torch.tensor(bits, dtype=torch.float64).reshape(*sizes, -1)
    )
