"""Operands and results of operators: values, complex values, and the types and shapes known from the trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from step_runtime.verification.exact import arithmetic
from step_runtime.verification.exact.value import Unknown, Value, fixed


@dataclass(frozen=True)
class Complex:
    """A tensor of complex numbers."""

    real: Value
    imaginary: Value


@dataclass(frozen=True)
class Result:
    """The types and shapes of an operator's results in torch, from the trace."""

    dtypes: tuple[torch.dtype, ...]
    shapes: tuple[tuple[int, ...], ...]

    @property
    def dtype(self) -> torch.dtype:
        """The only result's type."""
        return self.dtypes[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The only result's shape."""
        return self.shapes[0]


def constant(tensor: Tensor) -> Value | Complex:
    """A tensor that depends on no data."""
    return Complex(fixed(tensor.real), fixed(tensor.imag)) if tensor.is_complex() else fixed(tensor)


Operand = Any
"""A `Value`, a `Complex`, a number, or a list of these."""


Rule = Callable[[Sequence[Operand], dict[str, Any], Result], Any]
"""What an operator gives; None where it is not followed for such operands."""


def value_of(operand: Operand, dtype: torch.dtype = torch.float64) -> Value:
    """An operand as a value.

    Raises:
        Unknown: It is none.
    """
    if isinstance(operand, Value):
        return operand
    if isinstance(operand, bool | int | float):
        return arithmetic.number(float(operand), dtype if isinstance(operand, float) else torch.int64)
    raise Unknown(f"an operand of the kind {type(operand).__name__}")
