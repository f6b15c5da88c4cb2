"""Sums and running results over the dims of exact values, and products of matrices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from step_runtime.verification.exact import arithmetic, residues
from step_runtime.verification.exact.residues import draw, level
from step_runtime.verification.exact.value import NONE, Unknown, Value, flags, joined, selected, spread, union


def dims_of(value: Value, dims: Any) -> list[int]:
    """Dims as places from 0; all for none.

    Raises:
        Unknown: The tensor has no such dim.
    """
    rank = len(value.shape)
    if dims is None or dims == []:
        return list(range(rank))
    several = dims if isinstance(dims, list | tuple) else [dims]
    if not all(-max(1, rank) <= dim < max(1, rank) for dim in several):
        raise Unknown("a dim that a tensor does not have")
    return [dim % rank for dim in several] if rank else []


def summed(value: Value, dims: Sequence[int]) -> Value:
    """The sum over some dims, which go; of logarithms the logarithm of a product."""
    if value.logs is not None or value.endless:
        for dim in sorted(dims, reverse=True):
            value = selected(running(arithmetic.add, value, dim), dim, -1)
        return value
    places = [dim + 2 for dim in dims]
    if not places:
        return value.plain()
    data = residues.total(value.data, places)
    count = math.prod(value.shape[dim] for dim in dims)
    known = value.known.sum(places)
    signs = value.signs
    most, least = signs.amax(places), signs.amin(places)
    # A constant of 0 counts as at least 0.
    neither = torch.where(value.known == 0, -1, signs).amax(places)
    sign = torch.where(least > 0, most, torch.where(neither < 0, least, torch.zeros_like(most)))
    found = Value(
        data,
        torch.where((level(data) == 0).all(0, keepdim=True) & known.isnan(), 0.0, known),
        sign=sign,
        partial=value.partial,
        lower=union(value.lower, places),
        masks=union(value.masks, places),
        range=value.bounds and (min(0, count * value.bounds[0]), max(0, count * value.bounds[1])),
        smooth=value.smooth,
        size=value.size.summed(count),
    )
    if draw().laws == "leading":
        rows = arithmetic.leads(value).movedim(places, list(range(1, 1 + len(places)))).flatten(1, len(places))
        first = (rows[:1] != NONE).to(torch.int8).argmax(1, keepdim=True)
        lead = rows.gather(1, first.expand(len(rows), *first.shape[1:])).squeeze(1)
        found = found.but(lead=torch.where(sign == 2, lead, NONE))
    return found


def running(operation: Callable[[Value, Value], Value], value: Value, dim: int) -> Value:
    """All results of a fold along a dim.

    Raises:
        Unknown: There is nothing to fold.
    """
    terms = [selected(value, dim, place) for place in range(value.shape[dim])]
    if not terms:
        raise Unknown("a reduction of nothing")
    found = [terms[0]]
    for term in terms[1:]:
        found.append(operation(found[-1], term))
    return joined(found, dim, torch.stack)


def matrix_product(one: Value, other: Value) -> Value:
    """The product of matrices, or of batches of them."""
    arithmetic.no_infinite("a product of matrices", one, other)
    batch = max(one.batch, other.batch)
    one, other = spread(one, batch, one.shape), spread(other, batch, other.shape)
    signs = [each.signs.double() for each in (one, other)]
    # Products of numbers that are all at least 0.
    above = torch.matmul((signs[0] <= 0).double(), torch.ones_like(signs[1])) == 0
    above = above & (torch.matmul(torch.ones_like(signs[0]), (signs[1] <= 0).double()) == 0)
    both = torch.matmul((signs[0] == 2).double(), (signs[1] == 2).double()) > 0
    found = Value(
        residues.product(one.data, other.data),
        torch.matmul(one.known, other.known),
        sign=torch.where(above, torch.where(both, 2, 1), 0).to(torch.int8),
        partial=one.partial or other.partial,
        range=arithmetic.product_range(one.bounds, other.bounds, one.shape[-1]),
        smooth=one.smooth and other.smooth,
        size=one.size.times(other.size).summed(one.shape[-1]),
        masks=flags(union(one.masks, [-1], keep=True), union(other.masks, [-2], keep=True)),
    )
    return found.holding()
