"""Numbers at places that depend on data, and numbers by rank."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from step_runtime.verification.exact import arithmetic, facts, truth
from step_runtime.verification.exact.constants import constants
from step_runtime.verification.exact.decisions import current, mask_tensor, union
from step_runtime.verification.exact.facts import set_places
from step_runtime.verification.exact.operands import Operand, Result
from step_runtime.verification.exact.reductions import extreme, summed
from step_runtime.verification.exact.residues import fingerprint, level, mixed, symbols, total
from step_runtime.verification.exact.value import Size, Unknown, Value, fixed, joined, shaped, spread, united


def chosen(value: Value, hot: Value, dim: int) -> Value:
    """The sum along a dim of numbers times truth values; positive if the numbers are and one truth value holds."""
    found = summed(arithmetic.multiply(value, hot, value.dtype), [dim], value.dtype)
    held = summed(hot.plain(), [dim], hot.dtype)
    one = bool((level(held.data) == 1).all())
    ranges = united(value.bounds, (0, 0) if not one else value.bounds)
    if one and bool((value.signs == 2).all()):
        facts.set_positive(found.data)
        return replace(found, sign=torch.full_like(found.known, 2, dtype=torch.int8), range=ranges)
    return replace(found, range=ranges)


def indexed_select(value: Operand, dim: int, index: Operand, result: Result) -> Value:
    """Numbers at places along a dim that depend on data: each possible one times whether it is the place.

    `index` has one dim, whose numbers are places along `dim` of `value`.
    """
    if not isinstance(value, Value) or not isinstance(index, Value):
        raise Unknown("an index by data")
    dim %= len(value.shape)
    size, count = value.shape[dim], index.shape[0]
    places = fixed(torch.arange(size))
    hot = truth.equal(index.parts(lambda part: part.unsqueeze(-1)), places)  # (count, size)
    rank = len(value.shape)
    value = value.parts(lambda part: part.movedim(dim + 2, -1).unsqueeze(-2))
    hot = hot.parts(lambda part: part.reshape(*part.shape[:2], *(1,) * (rank - 1), count, size))
    found = chosen(value, hot, rank)
    return replace(found.parts(lambda part: part.movedim(-1, dim + 2)), dtype=result.dtype)


def gathered(value: Value, dim: int, index: Value) -> Value:
    """`torch.gather`."""
    dim %= max(1, len(value.shape))
    size = value.shape[dim]
    cut = tuple(slice(None) if axis == dim else slice(0, length) for axis, length in enumerate(index.shape))
    value = value.parts(lambda part: part[(slice(None), slice(None), *cut)])
    value = value.parts(lambda part: part.movedim(dim + 2, -1).unsqueeze(dim + 2))
    hot = truth.equal(index.parts(lambda part: part.unsqueeze(-1)), fixed(torch.arange(size)))
    floats = index.constant()
    if floats is not None:
        whole = spread(value, max(value.batch, index.batch), (*index.shape, size))
        places = index.known.to(torch.int64).unsqueeze(-1).expand(1, whole.batch, *index.shape, 1)
        return whole.parts(lambda part: part.gather(-1, places.expand(part.shape[0], *places.shape[1:])).squeeze(-1))
    return chosen(value, hot, len(index.shape))


def scattered(value: Value, dim: int, index: Value, number: Value) -> Value:
    """`torch.scatter` of one number: where any of the places is that of an element."""
    dim %= max(1, len(value.shape))
    size = value.shape[dim]
    for axis, length in enumerate(index.shape):
        if axis != dim and length != value.shape[axis]:
            raise Unknown("a scatter of fewer rows")
    hot = truth.equal(
        index.parts(lambda part: part.movedim(dim + 2, -1).unsqueeze(dim + 2)),
        fixed(torch.arange(size).reshape(-1, *(1,) * (len(index.shape) - dim))),
    )
    missed = truth.invert(hot.parts(lambda part: part.select(-1, 0)))
    for place in range(1, index.shape[dim]):
        other = truth.invert(hot.parts(lambda part, n=place: part.select(-1, n)))  # type: ignore[misc]
        missed = truth.both(missed, other)
    missed = spread(missed, max(missed.batch, value.batch), value.shape)
    return truth.choose(missed, value, number, value.dtype)


def placed(value: Value, dim: int, index: Value, source: Value) -> Value | None:
    """`torch.scatter` of numbers to places that are known; None where two go to one place."""
    dim %= len(value.shape)
    batch, count = max(value.batch, index.batch, source.batch), math.prod(value.shape)
    at = index.known[0].to(torch.int64).expand(batch, *index.shape)
    taken = torch.zeros(batch, *value.shape, dtype=torch.int64).scatter_add(dim + 1, at, torch.ones_like(at))
    cut = tuple(slice(0, length) for length in index.shape)
    source = source.parts(lambda part: part[(slice(None), slice(None), *cut)])
    if bool((taken > 1).any()) or source.shape != index.shape:
        return None
    rows = [spread(one, batch, one.shape).parts(lambda part: part.flatten(2)) for one in (value, source)]
    new = torch.arange(count, count + math.prod(index.shape)).reshape(index.shape).expand(batch, *index.shape)
    old = torch.arange(count).reshape(value.shape).expand(batch, *value.shape)
    places = old.scatter(dim + 1, at, new).reshape(1, batch, -1)
    both = joined(rows, 0, torch.cat)
    moved = both.parts(lambda part: part.gather(2, places.expand(len(part), *places.shape[1:])))
    return replace(shaped(moved, batch, *value.shape), dtype=value.dtype)


def ranked(value: Value, dim: int, count: int, *, largest: bool, name: str) -> tuple[Value, Value]:
    """The numbers of the first ranks along a dim, symbols of the set, and their places, symbols of the row."""
    dim %= max(1, len(value.shape))
    size = value.shape[dim]
    rows = value.parts(lambda part: part.movedim(dim + 2, -1))
    if name in UNSTABLE and (decisions := current()) is not None and size > 1:
        decisions.wanted = True
        if decisions.ranks and (found := _decided(rows, count, largest=largest)) is not None:
            return tuple(one.parts(lambda part: part.movedim(-1, dim + 2)) for one in found)  # type: ignore[return-value]
    order = _order(rows) if size > 1 else rows
    ordered = mixed(fingerprint(order.data) * (2 * mixed(torch.arange(size) + 11) + 1) + torch.arange(size)).sum(-1)
    members = mixed(fingerprint(rows.data)).sum(-1)
    values, places = [], []
    for rank in range(count):
        if size == 1:
            values.append(rows.parts(lambda part: part.select(-1, 0)).plain())
            places.append(_zeros(values[-1], torch.int64))
            continue
        if rank == 0 and not bool(value.known.isinf().any()):
            values.append(extreme(value, [dim], value.dtype, keep=False, least=not largest).plain())
        else:
            data = symbols(f"rank {rank if largest else size - 1 - rank} of {size}", members)
            values.append(
                Value(data, torch.full_like(rows.known.select(-1, 0), torch.nan), value.dtype, lower=value.lower)
            )
        data = symbols(f"{name} {rank} {largest}", ordered)
        unknown = torch.full_like(rows.known.select(-1, 0), torch.nan)
        places.append(Value(data, unknown, torch.int64, range=(0, size - 1), size=order.size))
    return joined(values, dim, torch.stack), joined(places, dim, torch.stack)


def _order(rows: Value) -> Value:
    """Rows in the same order along the last dim, the same for scores, their exponentials, and multiples of these.

    They are quotients by the first number of a row of positive numbers, else exponentials of the differences from it.
    """
    if not rows.dtype.is_floating_point or not bool(rows.known.isnan().all()):
        return rows
    first = rows.parts(lambda part: part.narrow(-1, 0, 1))
    if bool((rows.signs == 2).all()):
        return arithmetic.divide(rows, first, rows.dtype)
    return arithmetic.exponential(arithmetic.subtract(rows, first, rows.dtype), rows.dtype)


UNSTABLE = ("place", "sorted place")
"""Ranks of equal numbers that torch leaves open: rows are ranked whose numbers are distinct."""


def _decided(rows: Value, count: int, *, largest: bool) -> tuple[Value, Value] | None:
    """The numbers of the first ranks along the last dim and their places, by concrete decisions; None of others.

    Raises:
        Unknown: Numbers that are equal, or constants, would have to be ranked.
    """
    decisions = current()
    size = rows.shape[-1]
    if decisions is None or not rows.dtype.is_floating_point or rows.bits:
        return None
    last = -torch.inf if largest else torch.inf
    data, known = (part.reshape(part.shape[0], -1, size) for part in (rows.data, rows.known[0].unsqueeze(0)))
    held = None if rows.masks is None else rows.masks.reshape(len(rows.masks), -1, size)
    places, masks = [], []
    for number in range(data.shape[1]):
        open_ = (known[0, number] != last).nonzero().squeeze(1)
        free_ = held is None or not bool(held[:, number].any())
        own = decisions.row(data[:, number, open_], largest=largest, smooth=rows.smooth, pairs=free_)
        if own is None:
            return None
        row, words = own
        if len({*words}) < len(words) or len(words) < count or not bool(known[0, number, open_].isnan().all()):
            raise Unknown("the ranks of numbers that are equal, or constants")
        order = dict(zip(words, open_.tolist(), strict=True))
        places += [order[row.at(rank)] for rank in range(count)]
        masks += [row.mask(rank + 1) for rank in range(count)]
    shape = (*rows.data.shape[1:-1], count)
    at = torch.tensor(places, dtype=torch.int64).reshape(1, *shape)
    held_by = mask_tensor(masks, shape)
    if rows.masks is not None:
        held_by = held_by | union(rows.masks, [-1], keep=True)
    values = rows.plain(masks=None).parts(lambda part: part.gather(-1, at.expand(part.shape[0], *shape)))
    floats = at.to(torch.float64)
    found = Value(constants(floats[0]), floats, torch.int64, range=(0, size - 1), size=Size(), masks=held_by)
    return replace(values, masks=held_by), found


def place_of_one(value: Value, dim: int) -> Value | None:
    """The place of the only 1 along a dim of truth values; None of others."""
    rows = value.parts(lambda part: part.movedim(dim % max(1, len(value.shape)) + 2, -1)).plain()
    size = rows.shape[-1] if rows.shape else 0
    if not value.bits or not bool((level(total(rows.data, [-1])) == 1).all()):
        return None
    found = summed(
        arithmetic.multiply(rows, fixed(torch.arange(size)), torch.int64), [len(rows.shape) - 1], torch.int64
    )
    found = replace(found, range=(0, size - 1))
    set_places(found.data, rows.data.movedim(-1, 1))
    return found


def _zeros(like: Value, dtype: torch.dtype) -> Value:
    return Value(torch.zeros_like(like.data), torch.zeros_like(like.known), dtype, size=Size())
