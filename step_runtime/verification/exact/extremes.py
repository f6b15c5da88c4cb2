"""The largest and the least of exact numbers: of sets, whatever the order and the number of comparisons."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from step_runtime.verification.exact import residues
from step_runtime.verification.exact.arithmetic import negative
from step_runtime.verification.exact.residues import WORLDS, draw, fingerprint, level, symbols
from step_runtime.verification.exact.value import NAN, NONE, Value, aligned, common_shape, larger, spread


def _members(value: Value) -> Tensor:
    """The sets that values are the largest of, `(members, WORLDS, batch, *shape)`; empty for minus infinity."""
    own = level(value.data)
    if value.extremes is not None and not value.least:
        parts = value.extremes.reshape(-1, WORLDS, *own.shape[1:])
        single = (parts != NONE).all(1).sum(0) < 1
        first = torch.where(single, own, parts[0])
        parts = torch.cat((first.unsqueeze(0), parts[1:]))
    else:
        parts = own.unsqueeze(0)
    return torch.where((value.known == -torch.inf).unsqueeze(0), NONE, parts)


def largest(one: Value, other: Value, dtype: torch.dtype) -> Value:
    """The larger of two: of one set, whatever the order and the number of comparisons; of signs that differ, itself."""
    one, other = aligned(one, other)
    shape = common_shape(one.data.shape[1:], other.data.shape[1:])
    one, other = (spread(value, shape[0], shape[1:]) for value in (one, other))
    choices, signs = torch.stack([one.data, other.data]), (one.signs, other.signs)
    sets = []
    for value, own, rest in ((one, *signs), (other, *signs[::-1])):
        needless = ((own < 0) & (rest > 0)) | (_zero(value) & (rest > 0))
        sets.append(torch.where(needless, NONE, _members(value)))
    found = _of_set(torch.cat(sets), choices, [one, other], dtype)
    found = _known_extreme(found, torch.stack([one.known, other.known]), choices)
    most, least = torch.maximum(*signs), torch.minimum(*signs)
    sign = torch.where(most > 0, most, torch.where((most < 0) & (least < 0), most, torch.zeros_like(most)))
    least_known = [each.known == -torch.inf for each in (one, other, found)]
    lower = bool(((least_known[0] | one.lower) & (least_known[1] | other.lower) & ~least_known[2]).any())
    return replace(
        found,
        sign=sign,
        lower=lower,
        range=_larger_range(one.bounds, other.bounds),
    )


def _zero(value: Value) -> Tensor:
    """Which numbers are 0 whatever the data are."""
    return (level(value.data) == 0).all(0, keepdim=True) & ~value.known.isinf()


def _larger_range(one: tuple[int, int] | None, other: tuple[int, int] | None) -> tuple[int, int] | None:
    return None if one is None or other is None else (max(one[0], other[0]), max(one[1], other[1]))


def largest_along(value: Value, dim: int, dtype: torch.dtype) -> Value:
    """The largest along a dim of the tensor, which goes."""
    place = dim + 2
    choices = value.data.movedim(place, 0)
    found = _of_set(_members(value).movedim(place + 1, 0).flatten(0, 1), choices, [value], dtype)
    found = _known_extreme(found, value.known.movedim(place, 0), choices)
    most, least = value.signs.amax(place), value.signs.amin(place)
    sign = torch.where(most > 0, most, torch.where((most < 0) & (least < 0), most, torch.zeros_like(most)))
    return replace(found, sign=sign, lower=value.lower, range=value.bounds)


def _known_extreme(found: Value, floats: Tensor, choices: Tensor) -> Value:
    """The largest number itself, where none depends on data, or one is plus infinity."""
    certain = ~floats.isnan().any(0) | (floats == torch.inf).any(0)
    if not bool(certain.any()):
        return found
    best = torch.where(floats.isnan(), -torch.inf, floats).argmax(0)
    value = floats.gather(0, best.unsqueeze(0))[0]
    data = choices.gather(0, best.unsqueeze(0).expand(1, *choices.shape[1:]))[0]
    kept = found.extremes if found.extremes is None else torch.where(certain, NONE, found.extremes)
    known = torch.where(certain, value, found.known)
    return replace(found, data=torch.where(certain, data, found.data), known=known, extremes=kept)


def _of_set(sets: Tensor, choices: Tensor, operands: list[Value], dtype: torch.dtype) -> Value:
    """The largest of sets `(members, WORLDS, ...)`, each of one of the choices `(number, CHANNELS, ...)`, or more."""
    present = (sets != NONE).all(1)
    words = fingerprint(sets.movedim(0, 1))
    present = present & ~_needless(sets, words, present)
    first, order = torch.where(present, words[0], torch.iinfo(torch.int64).max).sort(dim=0)
    second = words[1].gather(0, order)
    there = present.gather(0, order)
    fresh_ = torch.ones_like(there)
    fresh_[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    there = there & fresh_
    count = there.sum(0)
    total = torch.stack([torch.where(there, residues.mixed(word), 0).sum(0) for word in (first, second)])
    data = symbols("largest", total)
    # A set of one number is that number.
    own = (level(choices.movedim(1, 0)) == sets_of_one(sets, order, there).unsqueeze(1)).all(0)
    pick = own.to(torch.int64).argmax(0)
    single = choices.gather(0, pick.unsqueeze(0).unsqueeze(0).expand(1, *choices.shape[1:]))[0]
    data = torch.where((count == 1) & own.any(0), single, data)
    kept = int(count.max()) if count.numel() else 1
    members = sets.gather(0, order.unsqueeze(1).expand_as(sets))
    members = torch.where(there.unsqueeze(1), members, NONE)
    front = (~there).to(torch.int8).sort(dim=0, stable=True).indices
    members = members.gather(0, front.unsqueeze(1).expand_as(members))[: max(1, kept)]
    members = torch.where((count == 1).unsqueeze(0).unsqueeze(0), NONE, members)
    known = torch.where(count == 0, -torch.inf, NAN).to(torch.float64).unsqueeze(0)
    size = larger(*(operand.size for operand in operands))
    partial, endless = any(operand.partial for operand in operands), any(operand.endless for operand in operands)
    found = Value(data, known, dtype, partial=partial, extremes=members.flatten(0, 1), size=size)
    return replace(found, endless=endless, broken=any(operand.broken for operand in operands))


def _needless(sets: Tensor, words: Tensor, present: Tensor) -> Tensor:
    """Which members are no larger than others: 0 beside a number and its opposite."""
    zero = (sets == 0).all(1) & present
    if not bool(zero.any()):
        return zero
    primes = draw().moduli[:WORLDS].view(1, WORLDS, *(1,) * (sets.dim() - 2))
    opposites = fingerprint((sets.neg() % primes).movedim(0, 1))
    some = torch.zeros_like(zero[0])
    for one in range(len(sets)):
        for other in range(one):
            pair = (words[:, one] == opposites[:, other]).all(0)
            some = some | (pair & present[one] & present[other] & ~zero[one])
    return zero & some


def sets_of_one(sets: Tensor, order: Tensor, there: Tensor) -> Tensor:
    """The first member of each set, `(WORLDS, ...)`."""
    front = there.to(torch.int8).argmax(0)
    place = order.gather(0, front.unsqueeze(0))
    return sets.gather(0, place.unsqueeze(1).expand(1, *sets.shape[1:]))[0]


def smallest(one: Value, other: Value, dtype: torch.dtype) -> Value:
    """The lesser of two."""
    return negative(largest(negative(one), negative(other), dtype))


def smallest_along(value: Value, dim: int, dtype: torch.dtype) -> Value:
    """The least along a dim of the tensor, which goes."""
    return negative(largest_along(negative(value), dim, dtype))
