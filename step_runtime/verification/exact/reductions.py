"""Sums, means, extremes and running results over the dims of exact values, and products of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from step_runtime.verification.exact import arithmetic, extremes, residues
from step_runtime.verification.exact.value import NONE, Unknown, Value, joined, number, spread


def dims_of(value: Value, dims: Any) -> list[int]:
    """Dims as places from 0; all for none."""
    rank = len(value.shape)
    if dims is None or dims == []:
        return list(range(rank))
    several = dims if isinstance(dims, list | tuple) else [dims]
    if not all(-max(1, rank) <= dim < max(1, rank) for dim in several):
        raise Unknown("a dim that a tensor does not have")
    return [dim % rank for dim in several] if rank else []


def summed(value: Value, dims: list[int], dtype: torch.dtype, *, keep: bool = False) -> Value:
    """The sum over some dims; of logarithms the logarithm of a product."""
    if value.logs is not None or bool(value.known.isinf().any()):
        return _one_by_one(arithmetic.add, value, dims, dtype, keep=keep)
    places = [dim + 2 for dim in dims]
    if not places:
        return value.plain(dtype=dtype)
    data = residues.total(value.data, places, keep=keep)
    count = math.prod(value.shape[dim] for dim in dims)
    nought = (residues.level(data) == 0).all(0, keepdim=True)
    known = value.known.sum(places, keepdim=keep)
    signs = value.signs
    most, least = signs.amax(places, keepdim=keep), signs.amin(places, keepdim=keep)
    # A constant of 0 counts as at least 0.
    neither = torch.where(value.known == 0, -1, signs).amax(places, keepdim=keep)
    sign = torch.where(least > 0, most, torch.where(neither < 0, least, torch.zeros_like(most)))
    ranges = None if value.bounds is None else (min(0, count * value.bounds[0]), max(0, count * value.bounds[1]))
    found = Value(
        data,
        torch.where(nought & known.isnan(), 0.0, known),
        dtype,
        sign=sign,
        partial=value.partial,
        lower=value.lower,
        endless=value.endless,
        broken=value.broken,
        range=ranges,
        smooth=value.smooth,
        size=value.size.summed(count),
    )
    if residues.draw().laws == "leading":
        rows = arithmetic.leads(value).movedim(places, list(range(1, 1 + len(places)))).flatten(1, len(places))
        first = (rows[:1] != NONE).to(torch.int8).argmax(1, keepdim=True)
        lead = rows.gather(1, first.expand(len(rows), *first.shape[1:])).squeeze(1)
        lead = lead.reshape(len(lead), *data.shape[1:])
        found = replace(found, lead=torch.where(sign == 2, lead, NONE))
    return found


def _one_by_one(
    operation: Callable[[Value, Value, torch.dtype], Value],
    value: Value,
    dims: list[int],
    dtype: torch.dtype,
    *,
    keep: bool,
) -> Value:
    rest = [dim for dim in range(len(value.shape)) if dim not in dims]
    order = [*dims, *rest]
    shape = [value.shape[dim] for dim in rest]
    rows = value.parts(
        lambda part: part.permute(0, 1, *(dim + 2 for dim in order)).reshape(*part.shape[:2], -1, *shape)
    )
    terms = [rows.parts(lambda part, n=n: part.select(2, n)) for n in range(rows.shape[0])]  # type: ignore[misc]
    if not terms:
        raise Unknown("a reduction of nothing")
    found = replace(terms[0], dtype=dtype)
    for term in terms[1:]:
        found = operation(found, term, dtype)
    return _kept(found, dims, len(value.shape)) if keep else found


def _kept(value: Value, dims: Sequence[int], rank: int) -> Value:
    """The value with dims of 1 in the places of those that went."""

    def move(part: Tensor) -> Tensor:
        for dim in sorted(dims):
            part = part.unsqueeze(dim + 2)
        return part

    return value.parts(move)


def meaned(value: Value, dims: list[int], dtype: torch.dtype, *, keep: bool = False, less: float = 0) -> Value:
    """The mean over some dims, with a count that is `less`."""
    count = math.prod(value.shape[dim] for dim in dims) - less
    return arithmetic.divide(summed(value, dims, dtype, keep=keep), number(count), dtype)


def variance(value: Value, dims: list[int], dtype: torch.dtype, *, keep: bool, correction: float) -> Value:
    """The variance over some dims."""
    centred = arithmetic.subtract(value, meaned(value, dims, dtype, keep=True), dtype)
    squares = arithmetic.multiply(centred.plain(), centred.plain(), dtype)
    return meaned(squares, dims, dtype, keep=keep, less=correction)


def extreme(value: Value, dims: list[int], dtype: torch.dtype, *, keep: bool, least: bool) -> Value:
    """The largest over some dims, or the least."""
    found = value
    for dim in sorted(dims, reverse=True):
        along = extremes.smallest_along if least else extremes.largest_along
        found = along(found, dim, dtype)
    return _kept(found, dims, len(value.shape)) if keep else found


def running(
    operation: Callable[[Value, Value, torch.dtype], Value], value: Value, dim: int, dtype: torch.dtype
) -> Value:
    """All results of a fold along a dim."""
    place = dim + 2
    terms = [value.parts(lambda part, n=n: part.select(place, n)) for n in range(value.shape[dim])]  # type: ignore[misc]
    found = [replace(terms[0], dtype=dtype)]
    for term in terms[1:]:
        found.append(operation(found[-1], term, dtype))
    return joined(found, dim, torch.stack)


def matrix_product(one: Value, other: Value, dtype: torch.dtype) -> Value:
    """The product of matrices, or of batches of them."""
    if bool(one.known.isinf().any()) or bool(other.known.isinf().any()):
        raise Unknown("an infinite number in a product of matrices")
    if one.broken or other.broken:
        raise Unknown("what is no number in a product of matrices")
    batch = max(one.batch, other.batch)
    one, other = spread(one, batch, one.shape), spread(other, batch, other.shape)
    data = residues.product(one.data, other.data)
    known = torch.matmul(one.known.to(torch.float64), other.known.to(torch.float64))
    size = one.size.times(other.size).summed(one.shape[-1])
    signs = [each.signs.double() for each in (one, other)]
    # Products of numbers that are all at least 0.
    above = torch.matmul((signs[0] <= 0).double(), torch.ones_like(signs[1])) == 0
    above = above & (torch.matmul(torch.ones_like(signs[0]), (signs[1] <= 0).double()) == 0)
    both = torch.matmul((signs[0] == 2).double(), (signs[1] == 2).double()) > 0
    sign = torch.where(above, torch.where(both, 2, 1), 0).to(torch.int8)
    ranges = None
    if (first := one.bounds) is not None and (second := other.bounds) is not None:
        ends = [one.shape[-1] * low * high for low in first for high in second]
        ranges = min(0, *ends), max(0, *ends)
    smooth, partial = one.smooth and other.smooth, one.partial or other.partial
    return Value(data, known, dtype, sign=sign, partial=partial, range=ranges, smooth=smooth, size=size)
