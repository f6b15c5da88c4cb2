"""Numbers in torch: the type that holds a format, and conversion to it, which is the only place that rounds.

fp32 is held in the computing type (float64, or float32 where that is asked for), all other formats in torch's type
of the format. Conversion is `Tensor.to`: round to nearest, ties to even; what is too large becomes infinite in fp16,
bf16 and fp8_e5m2, and the largest number in fp8_e4m3; integers keep their low bits.
"""

from __future__ import annotations

import torch
from torch import Tensor

from step_runtime.base.formats import Format
from step_runtime.base.types import Element

_COMPUTING = (torch.float64, torch.float32)
"""The types that hold fp32."""


def element_type(element: Element, wide: torch.dtype) -> torch.dtype:
    """The torch type that holds an element's numbers, where fp32 is computed in `wide`."""
    found: torch.dtype = wide if element.format.wide else getattr(torch, element.format.torch)
    return found


def is_rounded(dtype: torch.dtype) -> bool:
    """Whether a torch type holds another format than fp32, so that it matters where numbers are converted to it."""
    return dtype not in _COMPUTING


def conversion_problem(value: Tensor, format_: Format) -> str | None:
    """Why a tensor is not converted to a format without being asked to, or None.

    Floating-point formats take all numbers, and round them. Integers take integers, and a bool a bool.
    """
    if format_.kind == "int" and (value.is_floating_point() or value.dtype == torch.bool):
        limits = f".round().clamp({format_.least:.0f}, {format_.most:.0f})" if value.is_floating_point() else ""
        advice = f"convert them: {limits}.to(torch.{format_.torch})"
        return f"expected integers for {format_.name}, found {_kind(value)}; {advice}"
    if format_.kind == "bool" and value.dtype != torch.bool:
        return f"expected a tensor of bool, found {_kind(value)}; compare the numbers, or convert them: .to(torch.bool)"
    return None


def _kind(value: Tensor) -> str:
    if value.dtype == torch.bool:
        return "a tensor of bool"
    return "floating-point numbers" if value.is_floating_point() else f"{value.dtype}".removeprefix("torch.")


def same_numbers(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same numbers, NaN at the same places."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one, other) or bool(torch.isclose(exact(one), exact(other), 0, 0, equal_nan=True).all())


def exact(value: Tensor) -> Tensor:
    """The numbers in a type that torch compares and reduces, without rounding."""
    return value.to(torch.float64) if is_rounded(value.dtype) else value
