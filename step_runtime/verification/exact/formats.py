"""Numbers in narrow formats and as whole numbers: conversions that lose something are free symbols."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch

from step_runtime.verification.exact import arithmetic, truth
from step_runtime.verification.exact.constants import constants
from step_runtime.verification.exact.value import Unknown, Value

_COMPUTING = (torch.float64, torch.float32)


def narrowed(value: Value, source: torch.dtype | None) -> Value:
    """Numbers in the format of their type, converted from another one, or from exact numbers.

    Types that compute fp32 hold exact numbers, and integers those within their width; what may wrap around is a free
    symbol of the exact number.
    """
    dtype = value.dtype
    if dtype == source or dtype in _COMPUTING or dtype == torch.bool or value.bits:
        return value
    if not dtype.is_floating_point and (bounds := value.bounds) is not None:
        limits = torch.iinfo(dtype)
        if limits.min <= bounds[0] and bounds[1] <= limits.max:
            return value
    if source in _SUBSETS.get(dtype, ()):
        return value
    found = arithmetic.atom(f"in {dtype}", value, dtype=dtype)
    if not dtype.is_floating_point:
        limits = torch.iinfo(dtype)
        found = replace(found, range=(limits.min, limits.max))
    fits = value.known.isfinite() & (value.known.to(dtype).to(torch.float64) == value.known)
    data = torch.where(fits, value.data, found.data)
    infinite = value.known.isinf()
    data = torch.where(infinite, value.data, data)
    return replace(found, data=data, known=torch.where(fits | infinite, value.known, torch.nan))


_SUBSETS = {
    torch.float16: (torch.int8, torch.uint8),
    torch.bfloat16: (torch.int8, torch.uint8),
    torch.int16: (torch.int8, torch.uint8),
}
"""Types all of whose numbers another type holds."""


Rounding = Literal["floor", "ceil", "trunc", "round"]


def cast(value: Value, dtype: torch.dtype) -> Value:
    """Numbers converted to another type."""
    source = value.dtype
    if dtype == torch.bool:
        return truth.as_bits(value)
    if not dtype.is_floating_point and source.is_floating_point:
        value = replace(rounded("trunc", value), range=None)
    if dtype.is_complex:
        raise Unknown("complex numbers")
    return narrowed(replace(value, dtype=dtype), source)


def rounded(name: Rounding, value: Value) -> Value:
    """Numbers rounded to whole ones."""
    if not value.dtype.is_floating_point:
        return value
    function = getattr(torch, name)
    found = arithmetic.atom(name, value, dtype=value.dtype)
    whole = function(value.known)
    near = (value.known - value.known.round()).abs()
    certain = value.known.isinf() | (near == 0) | ((near > 1e-9) & ((near - 0.5).abs() > 1e-9))
    data = torch.where(certain, constants(torch.where(certain, whole, 0.0)[0]), found.data)
    return replace(found, data=data, known=torch.where(certain, whole, torch.nan))
