"""Operands and results of operators: values, complex values, and the types and shapes known from the trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from step_runtime.verification.exact.value import Unknown, Value, fixed, number


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
        return number(float(operand), dtype if isinstance(operand, float) else torch.int64)
    raise Unknown(f"an operand of the kind {type(operand).__name__}")


def filling(operand: Operand, dtype: torch.dtype) -> Value:
    """A number that fills places of a tensor of some type.

    Raises:
        Unknown: The type has no such number, so that torch puts another.
    """
    value = value_of(operand, dtype)
    floats = value.constant()
    if dtype == torch.bool and not value.bits and (floats is None or bool(((floats != 0) & (floats != 1)).any())):
        raise Unknown("other numbers among truth values")
    if not dtype.is_floating_point and dtype != torch.bool and value.dtype.is_floating_point:
        raise Unknown("a fraction among whole numbers")
    return value
