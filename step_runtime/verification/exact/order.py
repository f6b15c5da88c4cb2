"""The order of exact numbers: extremes of sets, comparisons, choices by them, and rounding to numbers of a format."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from step_runtime.verification.exact import facts, residues
from step_runtime.verification.exact.arithmetic import (
    atom,
    exponential,
    logarithmic,
    multiply,
    negative,
    nought,
    raised,
    raised_size,
    subtract,
)
from step_runtime.verification.exact.constants import constants
from step_runtime.verification.exact.decisions import current, signs
from step_runtime.verification.exact.residues import (
    WORLDS,
    draw,
    fingerprint,
    level,
    moduli,
    symbols,
    times,
)
from step_runtime.verification.exact.value import (
    ENDLESS,
    NAN,
    NONE,
    Unknown,
    Value,
    aligned,
    alike,
    flags,
    joined,
    opposite,
    picked,
    same,
    union,
    united,
)

# --- extremes: of sets, whatever the order and the number of comparisons ---


def largest(one: Value, other: Value) -> Value:
    """The larger of two: of one set, whatever the order and the number of comparisons; of signs that differ, itself."""
    return largest_along(joined(alike(one, other), 0, torch.stack), 0)


def largest_along(value: Value, dim: int) -> Value:
    """The largest along a dim of the tensor, which goes."""
    place, signs = dim + 2, value.signs
    below = [(signs < 0) & (signs > 0).any(place, keepdim=True)]
    below += [value.zero & ((signs > 0) & ~value.zero).any(place, keepdim=True)]
    sets = torch.where(below[0] | below[1], NONE, _members(value)).movedim(place + 1, 0).flatten(0, 1)
    found = _of_set(sets, value.data.movedim(place, 0), value.known.movedim(place, 0))
    most, least = signs.amax(place), signs.amin(place)
    sign = torch.where((most > 0) | ((most < 0) & (least < 0)), most, torch.zeros_like(most))
    lower, masks = (union(part, [place]) for part in (value.lower, value.masks))
    if lower is not None and value.lower is not None:
        may = ((value.known <= -ENDLESS) | (value.lower > 0)).all(place) & found.open
        lower = torch.where(may, lower, 0) if bool(may.any()) else None
    found = found.but(sign=sign, lower=lower, range=value.bounds, masks=masks)
    return found.but(partial=value.partial, size=value.size)


def _members(value: Value) -> Tensor:
    """The sets that values are the largest of, `(members, WORLDS, batch, *shape)`; empty for minus infinity."""
    own = level(value.data)
    if value.extremes is not None and not value.least:
        parts = value.extremes.reshape(-1, WORLDS, *own.shape[1:])
        single = (parts != NONE).all(1).sum(0) < 1
        parts = torch.cat((torch.where(single, own, parts[0]).unsqueeze(0), parts[1:]))
    else:
        parts = own.unsqueeze(0)
    return torch.where((value.known <= -ENDLESS).unsqueeze(0), NONE, parts)


def _of_set(sets: Tensor, choices: Tensor, floats: Tensor) -> Value:
    """The largest of sets `(members, WORLDS, ...)`, each of one of the choices `(number, CHANNELS, ...)`, or more.

    It is the largest number itself, where none depends on data, or one is plus infinity.
    """
    present = (sets != NONE).all(1)
    words = fingerprint(sets.movedim(0, 1))
    first, order = torch.where(present, words[0], torch.iinfo(torch.int64).max).sort(dim=0)
    second = words[1].gather(0, order)
    there = present.gather(0, order)
    distinct = torch.ones_like(there)
    distinct[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    there = there & distinct
    count = there.sum(0)
    members = sets.gather(0, order.unsqueeze(1).expand_as(sets))
    data = symbols("largest", torch.stack([torch.where(there, residues.mixed(w), 0).sum(0) for w in (first, second)]))
    # A set of one number is that number.
    front = there.to(torch.int8).argmax(0)
    alone = members.gather(0, front.unsqueeze(0).unsqueeze(1).expand(1, *members.shape[1:]))[0]
    own = (level(choices.movedim(1, 0)) == alone.unsqueeze(1)).all(0)
    data = torch.where((count == 1) & own.any(0), _picked(choices, own.to(torch.int8).argmax(0)), data)
    members = torch.where((there & (count != 1)).unsqueeze(1), members, NONE)
    front = (~there).to(torch.int8).sort(dim=0, stable=True).indices
    most = max(1, int(count.max()) if count.numel() else 1)
    members = members.gather(0, front.unsqueeze(1).expand_as(members))[:most]
    known = torch.where(count == 0, floats.nan_to_num(-torch.inf).amax(0), NAN)
    certain = ~floats.isnan().any(0) | (floats >= ENDLESS).any(0) | (count == 0)
    best = torch.where(floats.isnan(), -torch.inf, floats).argmax(0)[0]
    data = torch.where(certain, _picked(choices, best), data)
    known = torch.where(certain, floats.gather(0, best.unsqueeze(0).unsqueeze(0))[0], known)
    return Value(data, known, extremes=torch.where(certain, NONE, members.flatten(0, 1)))


def _picked(choices: Tensor, places: Tensor) -> Tensor:
    """One of some choices `(number, rows, ...)` each."""
    return choices.gather(0, places.long().unsqueeze(0).unsqueeze(0).expand(1, *choices.shape[1:]))[0]


# --- truth values ---


def invert(value: Value) -> Value:
    """The other truth value."""
    data = (1 - value.data) % moduli(value.data)
    return Value(data, 1 - value.known, torch.bool, bits=True, size=value.size, masks=value.masks)


def both(one: Value, other: Value) -> Value:
    """Whether both hold."""
    return multiply(as_bits(one), as_bits(other)).but(bits=True)


def as_bits(value: Value) -> Value:
    """Whether numbers are not 0."""
    return value.but(dtype=torch.bool) if value.bits else invert(is_zero(value))


def is_zero(value: Value) -> Value:
    """Whether numbers are 0; the same for opposite ones."""
    return invert(value) if value.bits else _decided(_zero(value), value, 0)


def _zero(value: Value) -> Value:
    """Whether numbers are 0, of which none is decided."""
    data = symbols("zero", fingerprint(value.data) + fingerprint(opposite(value.data)))
    certain = value.zero | ~value.open | (value.signs.abs() == 2)
    known = torch.where(certain, value.zero.double(), NAN)
    return Value(torch.where(certain, value.zero.long(), data), known, torch.bool, bits=True, masks=value.masks)


_DECIDED = 1e-12
"""The least size of a float that depends on no data whose sign is that of the exact number."""


def above(one: Value, other: Value) -> Value:
    """Whether the first is larger; of a truth value and a constant, what is left of it."""
    one, other = aligned(one, other)
    if one.bits and not bool(other.open.any()):
        return _bit_above(one, other)
    if other.bits and not bool(one.open.any()):
        return _bit_above(invert(other), one.but(known=1 - one.known))
    _tellable(one, other)
    gap = subtract(one, other)
    certain = gap.zero | (gap.known.abs() > _DECIDED)
    positive = (gap.known > 0) & ~gap.zero
    data = torch.where(certain, positive.long(), symbols("above", fingerprint(gap.data)))
    known = torch.where(certain, positive.double(), NAN)
    return _decided(Value(data, known, torch.bool, bits=True, masks=gap.masks), gap, 1)


def _decided(found: Value, value: Value, sign: int, open_: Tensor | bool = True) -> Value:
    """Whether numbers have a sign, where that is open, and is a decision with a concrete outcome."""
    there = found.open & open_
    decided = signs(value.data, there, value.masks)
    if decided is None:
        return found
    own, masks = decided
    bits = (own == sign).long()
    known = torch.where(there, bits.double(), found.known)
    return found.but(data=torch.where(there, bits, found.data), known=known, masks=flags(masks, value.masks))


def _tellable(*pair: Value) -> None:
    """Refuses to compare what may be minus infinity with an infinite constant.

    Raises:
        Unknown: It would have to be compared.
    """
    if any(one.lower is not None for one in pair) and any(one.endless for one in pair):
        raise Unknown("a comparison of what may be infinite with an infinite number")


def _bit_above(bit: Value, bound: Value) -> Value:
    """Whether a truth value is above a constant."""
    data = torch.where(bound.known < 0, 1, torch.where(bound.known < 1, bit.data, 0))
    known = torch.where(bound.known < 0, 1.0, torch.where(bound.known < 1, bit.known, 0.0))
    return Value(data, known, torch.bool, bits=True).holding(bit, bound)


def equal(one: Value, other: Value) -> Value:
    """Whether two are equal."""
    one, other = aligned(one, other)
    for bit, bound in ((one, other), (other, one)):
        if bit.bits and not bool(bound.open.any()):
            turned = invert(bit)
            data = torch.where(bound.known == 1, bit.data, torch.where(bound.known == 0, turned.data, 0))
            known = torch.where(bound.known == 1, bit.known, torch.where(bound.known == 0, turned.known, 0.0))
            return Value(data, known, torch.bool, bits=True).holding(bit, bound)
    for value, bound in ((one, other), (other, one)):
        if value.lower is not None and not bool((value.lower & 2).any()) and bool((bound.known == -torch.inf).all()):
            return is_zero(exponential(value)).holding(bound)
    _tellable(one, other)
    endless = one.infinite | other.infinite
    finite = [each.but(known=torch.where(endless, 0.0, each.known)) for each in (one, other)]
    gap = subtract(*finite) if bool(endless.any()) else subtract(one, other)
    open_ = _zero(gap)
    found = _at_places(open_, one, other)
    found = _decided(found, gap, 0, (found.data == open_.data).all(0, keepdim=True))
    if bool(endless.any()):
        equal_ = one.known == other.known
        data, known = (
            torch.where(endless, equal_.long(), found.data),
            torch.where(endless, equal_.double(), found.known),
        )
        found = found.but(data=data, known=known)
    return found


def _at_places(found: Value, *pair: Value) -> Value:
    """Whether numbers are places; of a place of which the truth values are known, these."""
    for numbers, places in (pair, pair[::-1]):
        kept = facts.places_of(numbers.data) if numbers.dtype == torch.int64 else []
        if places.constant() is None or all(one is None for one in kept):
            continue
        shape = found.data.shape[1:]
        which = torch.arange(len(kept)).reshape(numbers.data.shape[1:]).broadcast_to(shape).reshape(-1).tolist()
        at = places.known[0].broadcast_to(shape).reshape(-1).tolist()
        columns = []
        for spot, (number, place) in enumerate(zip(which, at, strict=True)):
            hot = kept[number]
            own = found.data.flatten(1)[:, spot] if hot is None else torch.zeros(len(found.data), dtype=torch.int64)
            columns.append(hot[:, int(place)] if hot is not None and 0 <= place < hot.shape[1] else own)
        found = found.but(data=torch.stack(columns, 1).reshape(found.data.shape))
    return found


def choose(test: Value, one: Value, other: Value) -> Value:
    """One of two by a truth value.

    Raises:
        Unknown: Plus infinity may be chosen, or by other laws than `masked` what stands for infinity.
    """
    test, one, other = alike(as_bits(test), one, other)
    if not bool(test.open.any()):
        return picked(test.known, one, other).holding(test)
    if (extreme := _extreme(test, one, other)) is not None:
        return extreme.holding(test)
    open_ = test.open
    if any(bool((open_ & (value.known >= ENDLESS)).any()) for value in (one, other)):
        raise Unknown("plus infinity by data")
    known = torch.where(test.known == 1, one.known, torch.where(test.known == 0, other.known, NAN))
    known = torch.where(open_ & same(one.data, other.data), one.known, known)
    data = _mixed(test, one.data, other.data)
    data = torch.where(test.known == 1, one.data, torch.where(test.known == 0, other.data, data))
    both_signs = torch.minimum(one.signs.abs(), other.signs.abs())
    least = [open_ & known.isnan() & (value.known <= -ENDLESS) for value in (one, other)]
    infinite, formal = (one.known == -torch.inf) | (other.known == -torch.inf), draw().laws == "masked"
    either = least[0] | least[1]
    if not formal and bool((either & ~infinite).any()):
        if (decisions := current()) is not None:
            decisions.masked = True
        raise Unknown("a large constant that data choose")
    lower = torch.where(either, torch.where(infinite, 1, 2), 0)
    lower = lower + 4 * (formal & ((least[0] & (other.known == 0)) | (least[1] & (one.known == 0))))
    found = Value(
        data,
        known,
        bits=one.bits and other.bits,
        sign=torch.where(one.signs.sign() == other.signs.sign(), both_signs * one.signs.sign(), 0),
        partial=one.partial or other.partial,
        lower=flags(one.lower, other.lower, lower.to(torch.int8) if bool(lower.any()) else None),
        range=united(one.bounds, other.bounds),
        size=test.size.times(one.size.plus(other.size)),
    )
    return _masked(found.holding(test, one, other), test, one, other, either)


def _extreme(test: Value, one: Value, other: Value) -> Value | None:
    """The extreme that a choice is, if it takes the larger of both, or the lesser, by their comparison."""
    if any(value.lower is not None or value.endless for value in (one, other)):
        return None
    for first, second in ((one, other), (other, one)):
        over, under = (
            symbols("above", fingerprint(subtract(*pair).data)) for pair in ((first, second), (second, first))
        )
        if any(bool(same(test.data, each).all()) for each in (over, (1 - under) % moduli(under))):
            return largest(one, other) if first is one else negative(largest(negative(one), negative(other)))
    return None


def _mixed(test: Value, one: Tensor, other: Tensor) -> Tensor:
    modulus = moduli(one)
    return (other + times(test.data, (one - other) % modulus) - modulus) % modulus


def _masked(found: Value, test: Value, one: Value, other: Value, lower: Tensor) -> Value:
    """Where data choose minus infinity: the logarithm of a number that is multiplied by the truth value."""
    if not bool(lower.any()):
        return found
    powers = [raised(value) for value in (one, other)]
    if draw().laws == "masked":
        pairs = zip((one, other), powers, strict=True)
        powers = [torch.where(value.known <= -ENDLESS, nought(own), own) for value, own in pairs]
    size = test.size.times(raised_size(one).plus(raised_size(other)))
    return logarithmic(found, _mixed(test, *powers), lower, size)


# --- formats ---

_COMPUTING = (torch.float64, torch.float32)
_SUBSETS = {
    torch.float16: (torch.int8, torch.uint8),
    torch.bfloat16: (torch.int8, torch.uint8),
    torch.int16: (torch.int8, torch.uint8),
}
"""Types all of whose numbers another type holds."""


def narrowed(value: Value, source: torch.dtype | None) -> Value:
    """Numbers in the format of their type, converted from another one, or from exact numbers.

    Types that compute fp32 hold exact numbers, and integers those within their width; what may wrap around is a free
    symbol of the exact number.
    """
    dtype = value.dtype
    if dtype == source or dtype in _COMPUTING or dtype == torch.bool or value.bits or source in _SUBSETS.get(dtype, ()):
        return value
    whole = None if dtype.is_floating_point else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    if whole and (bounds := value.bounds) and whole[0] <= bounds[0] and bounds[1] <= whole[1]:
        return value
    found = atom(f"in {dtype}", value).but(dtype=dtype, range=whole)
    fits = value.infinite | (value.known.to(dtype).double() == value.known)
    return found.but(data=torch.where(fits, value.data, found.data), known=torch.where(fits, value.known, NAN))


Rounding = Literal["floor", "ceil", "trunc", "round"]


def cast(value: Value, dtype: torch.dtype) -> Value:
    """Numbers converted to another type."""
    source = value.dtype
    if dtype == torch.bool:
        return as_bits(value)
    if not dtype.is_floating_point and source.is_floating_point:
        value = rounded("trunc", value).but(range=None)
    return narrowed(value.but(dtype=dtype), source)


def rounded(name: Rounding, value: Value) -> Value:
    """Numbers rounded to whole ones."""
    if not value.dtype.is_floating_point:
        return value
    found = atom(name, value)
    whole = getattr(torch, name)(value.known)
    near = (value.known - value.known.round()).abs()
    certain = value.infinite | (near == 0) | ((near > 1e-9) & ((near - 0.5).abs() > 1e-9))
    data = torch.where(certain, constants(torch.where(certain, whole, 0.0)[0]), found.data)
    return found.but(data=data, known=torch.where(certain, whole, NAN))
