"""Operators that only move numbers: they are made on the places of the numbers, and then with these."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from step_runtime.verification.exact.operands import Operand, Result
from step_runtime.verification.exact.value import Unknown, Value, joined, number

_FLOAT = torch.float64

MOVES = frozenset((
    "view", "_unsafe_view", "reshape", "permute", "transpose", "t", "unsqueeze", "squeeze", "expand", "select", "slice",
    "flip", "roll", "repeat", "diagonal", "unfold", "clone", "alias", "detach", "lift_fresh", "contiguous", "tril",
    "triu", "constant_pad_nd", "split", "split_with_sizes", "unbind", "cat", "stack", "slice_scatter", "select_scatter",
    "copy", "diagonal_scatter", "movedim", "narrow", "swapaxes", "as_strided", "lift_fresh_copy",
    "im2col", "chunk", "broadcast_in_dim", "diag_embed", "expand_as", "rot90", "flatten", "unflatten", "unsafe_split",
    "reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d", "pixel_shuffle",
    "pixel_unshuffle", "upsample_nearest1d", "upsample_nearest2d", "squeeze_", "unsqueeze_", "transpose_", "t_",
))  # fmt: skip
"""Operators that only move numbers, or put 0 or a constant."""


def moved(target: Any, args: Sequence[Operand], kwargs: dict[str, Any], result: Result) -> Any:
    """What a move gives: it is made on the numbers' places, and then with the numbers."""
    sources: list[Value] = []
    start = 1

    def placed(operand: Operand) -> Operand:
        nonlocal start
        if isinstance(operand, list | tuple):
            return [placed(one) for one in operand]
        if not isinstance(operand, Value):
            return operand
        count = math.prod(operand.shape)
        sources.append(operand)
        start += count
        return torch.arange(start - count, start).reshape(operand.shape)

    name = target.overloadpacket.__name__
    args, kwargs = list(args), dict(kwargs)
    fill = 0.0
    if name == "constant_pad_nd":
        fill = float(args[2] if len(args) > 2 else kwargs.pop("value", 0.0))
        if not result.dtype.is_floating_point and fill not in ((0, 1) if result.dtype == torch.bool else (int(fill),)):
            raise Unknown("a padding by a number that the type does not have")
        args[2:] = [0]
    places_args = [placed(one) for one in args]
    floats = name.startswith(("upsample", "im2col", "reflection", "replication"))
    if floats:
        places_args = [one.to(_FLOAT) if isinstance(one, Tensor) else one for one in places_args]
    kwargs = {key: value for key, value in kwargs.items() if key not in ("memory_format", "dtype", "device")}
    found = target(*places_args, **{key: placed(value) for key, value in kwargs.items()})
    source = _all(sources, fill)
    several = list(found) if isinstance(found, list | tuple) else [found]
    values = [_taken(source, one.to(torch.int64)) for one in several]
    values = [replace(value, dtype=dtype) for value, dtype in zip(values, result.dtypes, strict=True)]
    return values[0] if isinstance(found, Tensor) else values


def _all(sources: Sequence[Value], fill: float) -> Value:
    """All numbers of several values in a row, behind one constant."""
    first = number(fill)
    if fill in (0.0, 1.0):
        first = replace(first, bits=all(source.bits for source in sources))
    if all(source.gap is not None for source in sources):
        first = replace(first, gap=torch.zeros_like(first.data))
    rows = [first.parts(lambda part: part.reshape(part.shape[0], 1, 1))]
    rows += [source.parts(lambda part: part.reshape(*part.shape[:2], -1)) for source in sources]
    return joined(rows, 0, torch.cat) if len(rows) > 1 else rows[0]


def _taken(source: Value, places: Tensor) -> Value:
    flat = places.reshape(-1)
    return source.parts(lambda part: part.index_select(2, flat).reshape(*part.shape[:2], *places.shape))
