"""The largest and the least of exact numbers: of sets, whatever the order and the number of comparisons."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from step_runtime.verification.exact import facts, residues
from step_runtime.verification.exact.arithmetic import NAN, negative
from step_runtime.verification.exact.residues import CHANNELS, WORLDS, fingerprint, level, symbols
from step_runtime.verification.exact.value import NONE, Value, aligned, common_shape


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
    """The larger of two: of one set, whatever the order and the number of comparisons."""
    one, other = aligned(one, other)
    shape = common_shape(one.data.shape[1:], other.data.shape[1:])
    sets = [_members(value).broadcast_to(-1, WORLDS, *shape) for value in (one, other)]
    choices = [value.data.broadcast_to(CHANNELS, *shape) for value in (one, other)]
    found = _of_set(torch.cat(sets), torch.stack(choices), [one, other], dtype)
    floats = [value.known.broadcast_to(1, *shape) for value in (one, other)]
    return _known_extreme(found, torch.stack(floats), torch.stack(choices))


def largest_along(value: Value, dim: int, dtype: torch.dtype) -> Value:
    """The largest along a dim of the tensor, which goes."""
    place = dim + 2
    sets = _members(value).movedim(place + 1, 0)
    sets = sets.flatten(0, 1)
    choices = value.data.movedim(place, 0)
    found = _of_set(sets, choices, [value], dtype)
    return _known_extreme(found, value.known.movedim(place, 0), choices)


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
    degree = max(operand.degree[0] for operand in operands), max(operand.degree[1] for operand in operands)
    logged = any(operand.logged for operand in operands)
    return Value(data, known, dtype, extremes=members.flatten(0, 1), degree=degree, logged=logged)


def _needless(sets: Tensor, words: Tensor, present: Tensor) -> Tensor:
    """Which members are no larger than others: 0 beside a number and its opposite, or beside a positive one.

    So are numbers beside 0 whose opposites are positive.
    """
    zero = (sets == 0).all(1) & present
    if not bool(zero.any()):
        return zero
    prime = residues.primes()[residues.compared()]
    opposite = fingerprint(((prime - sets) % prime).movedim(0, 1))
    below = facts.positive(opposite[0]) & present & zero.any(0)
    some = (facts.positive(words[0]) & present).any(0)
    for one in range(len(sets)):
        for other in range(one):
            pair = (words[:, one] == opposite[:, other]).all(0)
            some = some | (pair & present[one] & present[other] & ~zero[one])
    return (zero & some) | below


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
