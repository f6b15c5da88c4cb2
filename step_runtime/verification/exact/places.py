"""Rules of operators with places: gather, scatter, index, embedding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from step_runtime.verification.exact import truth
from step_runtime.verification.exact.choices import gathered, indexed_select, placed, scattered
from step_runtime.verification.exact.operands import Operand, Result, filling, value_of
from step_runtime.verification.exact.pointwise import get
from step_runtime.verification.exact.reductions import matrix_product
from step_runtime.verification.exact.value import Unknown, Value, fixed

_FLOAT = torch.float64
Args = Sequence[Operand]
Options = dict[str, Any]


def gather(args: Args, kwargs: Options, result: Result) -> Value:
    """The rule of `gather`."""
    value, index = value_of(args[0]), value_of(args[2])
    if not index.shape:
        return value
    return gathered(value, int(args[1]), index)


def scatter(args: Args, kwargs: Options, result: Result) -> Value | None:
    """The rule of `scatter`."""
    value, index = value_of(args[0]), value_of(args[2])
    source = get(args, kwargs, 3, "value", kwargs.get("src"))
    if isinstance(source, Value) and index.shape and "reduce" not in kwargs and index.constant() is not None:
        return placed(value, int(args[1]), index, source)
    if not index.shape or "reduce" in kwargs or isinstance(source, Value):
        if not isinstance(source, Value) or index.shape[int(args[1])] != 1 or "reduce" in kwargs:
            return None
        source = source.parts(
            lambda part: part.narrow(int(args[1]) % len(index.shape) + 2, 0, 1) if part.dim() > 2 else part
        )
    return scattered(value, int(args[1]), index, filling(source, result.dtype))


def index_rule(args: Args, kwargs: Options, result: Result) -> Value | None:
    """Indices along some dims, all of which depend on no data."""
    value, indices = value_of(args[0]), list(args[1])
    given = [one for one in indices if one is not None]
    if any(one.dtype == torch.bool for one in given):
        raise Unknown("an index by truth values, whose number depends on data")
    floats = [one.constant() for one in given]
    if len(given) == 1 and floats[0] is None:
        return indexed(value, indices.index(given[0]), given[0], result)
    if any(one is None or one.shape[0] != 1 for one in floats):
        return None
    places = torch.arange(math.prod(value.shape)).reshape(value.shape)
    whole = iter([one[0].to(torch.int64) for one in floats if one is not None])
    key = tuple(slice(None) if one is None else next(whole) for one in indices)
    found = places[key]
    flat = value.parts(lambda part: part.reshape(*part.shape[:2], -1))
    return flat.parts(lambda part: part.index_select(2, found.reshape(-1)).reshape(*part.shape[:2], *found.shape))


def indexed(value: Value, dim: int, index: Value, result: Result) -> Value:
    """Numbers at places along one dim that depend on data: the product with whether each place is the one."""
    size = value.shape[dim]
    hot = truth.equal(index.parts(lambda part: part.reshape(*part.shape[:2], -1, 1)), fixed(torch.arange(size)))
    rest = [length for axis, length in enumerate(value.shape) if axis != dim]
    rows = value.parts(lambda part: part.movedim(dim + 2, 2).reshape(*part.shape[:2], size, -1))
    found = matrix_product(replace(hot.plain(), dtype=_FLOAT), rows, result.dtype)
    count = len(index.shape)

    def move(part: Tensor) -> Tensor:
        whole = part.reshape(*part.shape[:2], *index.shape, *rest)
        return whole.movedim(list(range(2, 2 + count)), list(range(2 + dim, 2 + dim + count)))

    return found.parts(move)


def embedding(args: Args, kwargs: Options, result: Result) -> Value:
    """The rule of `embedding`."""
    weight, index = value_of(args[0]), value_of(args[1])
    rows = weight.shape[0]
    hot = truth.equal(index.parts(lambda part: part.unsqueeze(-1)), fixed(torch.arange(rows)))
    flat = hot.parts(lambda part: part.reshape(*part.shape[:2], -1, rows))
    found = matrix_product(replace(flat, dtype=_FLOAT), weight, result.dtype)
    return found.parts(lambda part: part.reshape(*part.shape[:2], *result.shape))


def index_select(args: Args, kwargs: Options, result: Result) -> Value:
    """The rule of `index_select`."""
    value, dim, index = value_of(args[0]), int(args[1]), value_of(args[2])
    floats = index.constant()
    if floats is None or floats.shape[0] > 1:
        return indexed_select(value, dim, index, result)
    places = floats[0].to(torch.int64)
    return value.parts(lambda part: part.index_select(dim % len(value.shape) + 2, places))
