"""Numbers at places that depend on data, and numbers by rank."""

from __future__ import annotations

import math

import torch

from step_runtime.verification.exact import arithmetic, facts, order
from step_runtime.verification.exact.constants import constants
from step_runtime.verification.exact.decisions import current, mask_tensor
from step_runtime.verification.exact.reductions import summed
from step_runtime.verification.exact.residues import fingerprint, level, mixed, symbols, total
from step_runtime.verification.exact.value import (
    NONE,
    Size,
    Unknown,
    Value,
    aligned,
    fixed,
    flags,
    joined,
    shaped,
    spread,
    union,
    united,
    unknown_floats,
)


def chosen(value: Value, hot: Value, dim: int) -> Value:
    """The sum along a dim of numbers times truth values; positive if the numbers are and one truth value holds."""
    found = summed(arithmetic.multiply(value, hot), [dim])
    one = bool((level(summed(hot.plain(), [dim]).data) == 1).all())
    found = found.but(range=value.bounds if one else united(value.bounds, (0, 0)))
    if one and bool((value.signs == 2).all()):
        found = found.but(sign=torch.full_like(found.known, 2, dtype=torch.int8))
    return found


def gathered(value: Value, dim: int, index: Value) -> Value:
    """`torch.gather`."""
    if not index.shape:
        return value
    dim %= len(value.shape)
    size = value.shape[dim]
    cut = tuple(slice(None) if axis == dim else slice(0, length) for axis, length in enumerate(index.shape))
    value = value.parts(lambda part: part[(slice(None), slice(None), *cut)].movedim(dim + 2, -1).unsqueeze(dim + 2))
    if index.constant() is not None:
        whole = spread(value, max(value.batch, index.batch), (*index.shape, size))
        places = index.known.to(torch.int64).unsqueeze(-1).expand(1, whole.batch, *index.shape, 1)
        found = whole.parts(lambda part: part.gather(-1, places.expand(len(part), *places.shape[1:])).squeeze(-1))
        return found.holding(index)
    hot = order.equal(index.parts(lambda part: part.unsqueeze(-1)), fixed(torch.arange(size)))
    return chosen(value, hot, len(index.shape))


def indexed(value: Value, indices: list[Value | None]) -> Value:
    """Numbers at places along some dims, by indices that depend on no data, or along one dim by data.

    Raises:
        Unknown: Data choose along several dims, or how many numbers are taken.
    """
    given = [one for one in indices if one is not None]
    if any(one.dtype == torch.bool for one in given):
        raise Unknown("an index by truth values, whose number depends on data")
    floats = [one.constant() for one in given]
    if all(one is not None and one.shape[0] == 1 for one in floats):
        whole = iter([one[0].to(torch.int64) for one in floats if one is not None])
        key = tuple(slice(None) if one is None else next(whole) for one in indices)
        found = torch.arange(math.prod(value.shape)).reshape(value.shape)[key]
        flat = value.parts(lambda part: part.flatten(2) if part.dim() > 2 else part.unsqueeze(2))
        flat = flat.parts(lambda part: part[:, :, found.reshape(-1)].reshape(*part.shape[:2], *found.shape))
        masks = flags(*(one.masks for one in aligned(*given)))
        if masks is not None:
            dims = range(2, masks.dim()) if None in indices[: len(given)] else []
            masks = union(masks.reshape(*masks.shape, *(1,) * (found.dim() + 2 - masks.dim())), dims, keep=True)
        return flat.but(masks=flags(flat.masks, masks)).holding()
    if len(given) > 1:
        raise Unknown("an index by data along several dims")
    index, dim = given[0], indices.index(given[0])
    size, count = value.shape[dim], len(index.shape)
    rows = value.parts(lambda part: part.movedim(dim + 2, -1).reshape(*part.shape[:2], 1, -1, size))
    hot = order.equal(index.parts(lambda part: part.reshape(*part.shape[:2], -1, 1, 1)), fixed(torch.arange(size)))
    rest = [length for axis, length in enumerate(value.shape) if axis != dim]
    found_ = chosen(rows, hot, 2)
    ends = list(range(2, 2 + count)), list(range(2 + dim, 2 + dim + count))
    return found_.parts(lambda part: part.reshape(*part.shape[:2], *index.shape, *rest).movedim(*ends))


def scattered(value: Value, dim: int, index: Value, source: Value) -> Value:
    """`torch.scatter`: of numbers to places that are known, or of one number along the dim.

    Raises:
        Unknown: Two numbers go to one place, or several to places by data.
    """
    dim %= max(1, len(value.shape))
    one = not source.shape or index.shape[dim] == 1
    if source.shape and index.constant() is not None:
        return _placed(value, dim, index, source)
    if (
        not index.shape
        or not one
        or any(length != value.shape[axis] for axis, length in enumerate(index.shape) if axis != dim)
    ):
        raise Unknown("a scatter of several numbers to places by data, or of fewer rows")
    if source.shape:
        source = source.parts(lambda part: part.narrow(dim + 2, 0, 1))
    places = fixed(torch.arange(value.shape[dim]).reshape(-1, *(1,) * (len(index.shape) - dim)))
    hot = order.equal(index.parts(lambda part: part.movedim(dim + 2, -1).unsqueeze(dim + 2)), places)
    missed = order.invert(hot.parts(lambda part: part.select(-1, 0)))
    for place in range(1, index.shape[dim]):
        other = order.invert(hot.parts(lambda part, n=place: part.select(-1, n)))  # type: ignore[misc]
        missed = order.both(missed, other)
    return order.choose(spread(missed, max(missed.batch, value.batch), value.shape), value, source)


def _placed(value: Value, dim: int, index: Value, source: Value) -> Value:
    """`torch.scatter` of numbers to places that are known."""
    batch, count = max(value.batch, index.batch, source.batch), math.prod(value.shape)
    at = index.known[0].to(torch.int64).expand(batch, *index.shape)
    taken = torch.zeros(batch, *value.shape, dtype=torch.int64).scatter_add(dim + 1, at, torch.ones_like(at))
    cut = tuple(slice(0, length) for length in index.shape)
    source = source.parts(lambda part: part[(slice(None), slice(None), *cut)])
    if bool((taken > 1).any()):
        raise Unknown("a scatter of two numbers to one place")
    rows = [spread(one, batch, one.shape).parts(lambda part: part.flatten(2)) for one in (value, source)]
    new = torch.arange(count, count + math.prod(index.shape)).reshape(index.shape).expand(batch, *index.shape)
    old = torch.arange(count).reshape(value.shape).expand(batch, *value.shape)
    places = old.scatter(dim + 1, at, new).reshape(1, batch, -1)
    both = joined(rows, 0, torch.cat)
    moved = both.parts(lambda part: part.gather(2, places.expand(len(part), *places.shape[1:])))
    whole = all(axis == dim or length == value.shape[axis] for axis, length in enumerate(index.shape))
    masks = union(index.masks, [dim + 2] if whole else range(2, 2 + len(value.shape)), keep=True)
    return (found := shaped(moved, batch, *value.shape)).but(masks=flags(found.masks, masks)).holding()


def ranked(value: Value, dim: int, count: int, *, largest: bool, name: str) -> tuple[Value, Value]:
    """The numbers of the first ranks along a dim, symbols of the set, and their places, symbols of the row."""
    dim %= max(1, len(value.shape))
    size = value.shape[dim] if value.shape else 1
    if size == 1:
        return value.plain(), Value(torch.zeros_like(value.data), torch.zeros_like(value.known), size=Size())
    rows = value.parts(lambda part: part.movedim(dim + 2, -1))
    # Ranks of equal numbers that torch leaves open: rows are ranked whose numbers are distinct.
    if name in ("place", "sorted place") and (decisions := current()) is not None:
        decisions.wanted = True
        if decisions.ranks and (found := _decided(rows, count, largest=largest)) is not None:
            return tuple(one.parts(lambda part: part.movedim(-1, dim + 2)) for one in found)  # type: ignore[return-value]
    ordered = mixed(fingerprint(rows.data) * (2 * mixed(torch.arange(size) + 11) + 1) + torch.arange(size)).sum(-1)
    members = mixed(fingerprint(rows.data)).sum(-1)
    open_, lower, masks = unknown_floats(rows.data[..., 0]), union(rows.lower, [-1]), union(rows.masks, [-1])
    values, places = [], []
    for rank in range(count):
        data = symbols(f"rank {rank if largest else size - 1 - rank} of {size}", members)
        values.append(Value(data, open_, lower=lower, partial=value.partial, masks=masks))
        data = symbols(f"{name} {rank} {largest}", ordered)
        places.append(Value(data, open_, torch.int64, range=(0, size - 1), size=rows.size, masks=masks))
    if not value.endless:
        turn = arithmetic.negative if not largest else Value.plain
        values[0] = turn(order.largest_along(turn(value), dim)).plain()
    return joined(values, dim, torch.stack), joined(places, dim, torch.stack)


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
    data, known = (part.reshape(part.shape[0], -1, size) for part in (rows.data, rows.known))
    places, masks = [], []
    for number in range(data.shape[1]):
        open_ = (known[0, number] != last).nonzero().squeeze(1)
        own = decisions.row(data[:, number, open_], largest=largest, smooth=rows.smooth)
        if own is None:
            return None
        row, words = own
        if len({*words}) < len(words) or len(words) < count or not bool(known[0, number, open_].isnan().all()):
            raise Unknown("the ranks of numbers that are equal, or constants")
        order_ = dict(zip(words, open_.tolist(), strict=True))
        places += [order_[row.at(rank)] for rank in range(count)]
        masks += [row.mask(rank + 1) for rank in range(count)]
    shape = (*rows.data.shape[1:-1], count)
    at = torch.tensor(places, dtype=torch.int64).reshape(1, *shape)
    held_by = flags(mask_tensor(masks, shape), union(rows.masks, [-1], keep=True))
    values = rows.plain(masks=None).parts(lambda part: part.gather(-1, at.expand(part.shape[0], *shape)))
    floats = at.to(torch.float64)
    found = Value(constants(floats[0]), floats, torch.int64, range=(0, size - 1), size=Size(), masks=held_by)
    return values.but(masks=held_by), found


def place_of(value: Value, dim: int | None, *, largest: bool) -> Value:
    """The place of an extreme: of the only 1 of truth values, else a symbol of the row."""
    if dim is None:
        value, dim = value.parts(lambda part: part.reshape(*part.shape[:2], -1)), 0
    if value.roots is not None and bool((value.roots[:1] != NONE).all()):
        value = value.plain(data=value.roots, size=value.inner)  # roots have the order of the numbers
    dim %= max(1, len(value.shape))
    rows = value.plain()
    if largest and value.shape and value.bits and bool((level(total(rows.data, [dim + 2])) == 1).all()):
        places = fixed(torch.arange(value.shape[dim]).reshape(-1, *(1,) * (len(value.shape) - 1 - dim)))
        found = summed(arithmetic.multiply(rows, places), [dim]).but(range=(0, value.shape[dim] - 1))
        facts.set_places(found.data, rows.data.movedim(dim + 2, 1))
        return found
    found = ranked(value, dim, 1, largest=largest, name="first place")[1]
    return found.parts(lambda part: part.select(dim + 2, 0)) if value.shape else found
