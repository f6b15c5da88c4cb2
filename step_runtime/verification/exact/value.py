"""Tensors of exact numbers: residues, and what else is known of them.

All parts of a value have one leading dim of their own, then one for the elements that a function is applied to at once,
then the dims of the tensor.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from step_runtime.verification.exact.constants import common_denominator, constants
from step_runtime.verification.exact.residues import draw, level, moduli, symbols

LEADING = 2
ENDLESS = 1e29
"""The least size of a constant that stands for infinity, as -1e30 does in masks."""
WORDS = 4
"""Words of a mask of decisions."""
NONE = -1
"""Marks numbers that a part says nothing of."""
NAN = torch.nan
_FLOAT = torch.float64


class Unknown(Exception):
    """Something is not followed: an operator, or a decision by data; the message names it."""


class Size(NamedTuple):
    """Bounds on numbers as polynomials in symbols and in inverses: degrees, and bits of the coefficients' sizes.

    `under` has the powers of inverses, by their numbers in the draw.
    """

    degree: float = 0.0
    bits: float = 0.0
    under: Mapping[Hashable, float] = MappingProxyType({})

    def plus(self, other: Size) -> Size:
        """That of sums."""
        return larger(self, other)._replace(bits=max(self.bits, other.bits) + 1)

    def times(self, other: Size) -> Size:
        """That of products."""
        under = {key: self.under.get(key, 0.0) + other.under.get(key, 0.0) for key in {**self.under, **other.under}}
        return Size(self.degree + other.degree, self.bits + other.bits, under)

    def power(self, exponent: float) -> Size:
        """That of powers."""
        under = {key: own * exponent for key, own in self.under.items()}
        return Size(self.degree * exponent, self.bits * exponent, under)

    def inverse(self, count: int, key: Hashable = None) -> Size:
        """That of inverses of so many numbers."""
        inverses = draw().inverses
        key = len(inverses) if key is None else key
        inverses.setdefault(key, (self, count))
        return Size(under={key: 1.0})

    def summed(self, count: int) -> Size:
        """That of sums of so many."""
        return self._replace(bits=self.bits + math.log2(max(1, count)))

    def cleared(self) -> Size:
        """That of a polynomial that is 0 where these are, without inverses."""
        found = self
        for key, (below, count) in reversed(draw().inverses.items()):
            if power := found.under.get(key):
                rest = {other: own for other, own in found.under.items() if other != key}
                found = found._replace(under=rest).times(below.power(power * count))
        return found


def larger(*sizes: Size) -> Size:
    """The larger of bounds."""
    under: dict[Hashable, float] = {}
    for size in sizes:
        under |= {key: max(own, under.get(key, 0.0)) for key, own in size.under.items()}
    return Size(max(size.degree for size in sizes), max(size.bits for size in sizes), under)


SYMBOL = Size(degree=1.0)
NOTHING = Size()
_PARTS = ("data", "known", "sign", "logs", "roots", "extremes", "masks", "lead", "lower")


@dataclass(frozen=True)
class Value:
    """A tensor of exact numbers.

    Attributes:
        data: Their residues, `(CHANNELS, batch, *shape)`.
        known: `(1, batch, *shape)`: the floats of those that depend on no data, infinite ones included, else NaN.
        dtype: torch's type of the tensor.
        bits: Whether all are 0 or 1.
        sign: `(1, batch, *shape)`: 2 above 0, 1 at least 0, -1 at most 0, -2 below 0, 0 where that is open.
        partial: Whether some may be undefined or infinite for some data, as quotients and logarithms are.
        lower: `(1, batch, *shape)`: flags of what numbers may be for some data, as masks give it: minus infinity (1),
            under the laws `masked` what stands for it (2), and under these nothing else but 0 (4).
        range: What whole numbers lie between, both ends included.
        logs: The exponentials of those that contain a logarithm; `NONE` for others.
        roots: The squares of those that are roots; `NONE` for others.
        extremes: `(members * WORLDS, batch, *shape)`: of those that are the largest of a set, or the least, the
            residues of its members on level 0, each once; `NONE` in empty places.
        least: Whether these are the least of their sets.
        lead: `(2 * CHANNELS, batch, *shape)`: of sums of numbers above 0 the first term, and its logarithm, by which
            theirs are found, under the laws `leading`; `NONE` for others.
        masks: `(words, batch, *shape)`: the decisions by data with concrete outcomes that each depends on, as bits.
        smooth: Whether all are analytic functions of real inputs, so that different ones are equal almost nowhere.
        size: A bound on the numbers.
        inner: One on `logs` and `roots`.
    """

    data: Tensor
    known: Tensor
    dtype: torch.dtype = _FLOAT
    bits: bool = False
    sign: Tensor | None = None
    partial: bool = False
    lower: Tensor | None = None
    range: tuple[int, int] | None = None
    logs: Tensor | None = None
    roots: Tensor | None = None
    extremes: Tensor | None = None
    least: bool = False
    lead: Tensor | None = None
    masks: Tensor | None = None
    smooth: bool = False
    size: Size = SYMBOL
    inner: Size = NOTHING

    @property
    def shape(self) -> tuple[int, ...]:
        """The tensor's shape."""
        return tuple(self.data.shape[LEADING:])

    @property
    def batch(self) -> int:
        """The number of elements at once; 1 also stands for any number."""
        return int(self.data.shape[1])

    @cached_property
    def signs(self) -> Tensor:
        """The signs, of constants and truth values too."""
        if self.sign is not None:
            return self.sign
        if self.bits:
            return torch.ones_like(self.known, dtype=torch.int8)
        return torch.where(self.known == 0, 1, 2 * self.known.sign().nan_to_num(0.0)).to(torch.int8)

    @cached_property
    def open(self) -> Tensor:
        """Which depend on data."""
        return self.known.isnan()

    @property
    def low(self) -> Tensor:
        """Which may be minus infinity for some data."""
        return torch.zeros_like(self.open) if self.lower is None else self.lower & 1 > 0

    @cached_property
    def infinite(self) -> Tensor:
        """Which are infinite, or stand for it."""
        return self.known.abs() >= ENDLESS

    @cached_property
    def signless(self) -> bool:
        """Whether no sign is known."""
        return self.varies and not self.bits and (self.sign is None or not bool(self.sign.any()))

    @cached_property
    def endless(self) -> bool:
        """Whether any is infinite."""
        return not self.varies and bool(self.infinite.any())

    @cached_property
    def varies(self) -> bool:
        """Whether all depend on data."""
        return bool(self.open.all())

    @property
    def zero(self) -> Tensor:
        """Which are 0 whatever the data are."""
        return (level(self.data) == 0).all(0, keepdim=True) & ~self.infinite

    @cached_property
    def bounds(self) -> tuple[int, int] | None:
        """What whole numbers lie between, constants and truth values too."""
        if self.bits or self.range is not None:
            return (0, 1) if self.bits else self.range
        if not self.known.numel() or self.varies or not bool(self.known.isfinite().all()):
            return None
        return math.floor(self.known.min()), math.ceil(self.known.max())

    def but(self, **changes: Any) -> Value:
        """The value with other parts, as by `dataclasses.replace`, which takes several times as long."""
        found = object.__new__(Value)
        found.__dict__.update({name: self.__dict__[name] for name in Value.__dataclass_fields__}, **changes)
        return found

    def parts(self, move: Callable[[Tensor], Tensor]) -> Value:
        """The value with each part moved alike."""
        own = ((name, getattr(self, name)) for name in _PARTS)
        return self.but(**{name: move(part) for name, part in own if part is not None})

    def holding(self, *operands: Value) -> Value:
        """The value with the decisions that operands of as many dims depend on."""
        masks = flags(self.masks, *(one.masks for one in operands))
        return self if masks is None else self.but(masks=masks.expand(-1, *self.data.shape[1:]))

    def plain(self, **changes: object) -> Value:
        """The value without what only some rules know of it."""
        own = {"logs": None, "roots": None, "extremes": None, "lead": None, "bits": False}
        return self.but(**{**own, "sign": self.signs, **changes})

    def constant(self) -> Tensor | None:
        """The floats, if none depends on data."""
        return None if self.varies or bool(self.open.any()) else self.known[0]


def fixed(values: Tensor) -> Value:
    """A tensor that depends on no data, for all elements at once.

    Raises:
        Unknown: Some are no numbers.
    """
    floats = values.detach().to(_FLOAT).unsqueeze(0)
    if bool(floats.isnan().any()):
        raise Unknown("what is no number whatever the data are")
    bits = values.dtype == torch.bool or bool(((floats == 0) | (floats == 1)).all())
    above, below = common_denominator(floats)
    size = Size(bits=above).times(Size(bits=math.log2(below)).inverse(1, key=("constant", below)))
    return Value(constants(floats), floats.unsqueeze(0), values.dtype, bits, size=size, smooth=True)


def number(value: float, dtype: torch.dtype = _FLOAT) -> Value:
    """A constant without dims."""
    kept = draw().numbers
    if (value, dtype) not in kept:
        kept[value, dtype] = fixed(torch.tensor(value, dtype=_FLOAT)).but(bits=False, dtype=dtype)
    return kept[value, dtype]  # type: ignore[no-any-return]


def unknown_floats(data: Tensor) -> Tensor:
    """Those of numbers that depend on data."""
    return torch.full((1, *data.shape[1:]), NAN, dtype=_FLOAT)


def free(name: str, shape: Sequence[int], dtype: torch.dtype) -> Value:
    """A tensor of independent numbers."""
    places = torch.arange(math.prod(shape))
    words = torch.stack((places * 2 + 1, places * 2 + 2)).reshape(2, 1, *shape)
    data = symbols(f"input {name}", words)
    return Value(data, unknown_floats(data), dtype, smooth=dtype.is_floating_point)


def flags(*parts: Tensor | None) -> Tensor | None:
    """The flags of what depends on several, as bits."""
    there = [part for part in parts if part is not None]
    return functools.reduce(torch.bitwise_or, there) if there else None


def union(part: Tensor | None, dims: Sequence[int], *, keep: bool = False) -> Tensor | None:
    """The flags of what depends on all along some dims."""
    if part is None:
        return None
    for dim in sorted({dim % part.dim() for dim in dims}, reverse=True):
        rows = part.split(1, dim) if part.shape[dim] else [part.sum(dim, keepdim=True)]  # type: ignore[no-untyped-call]
        part = functools.reduce(torch.bitwise_or, rows)
        part = part if keep else part.squeeze(dim)
    return part


def opposite(data: Tensor) -> Tensor:
    """The residues of opposites."""
    return data.neg() % moduli(data)


def aligned(*values: Value) -> list[Value]:
    """Values of as many dims, for broadcasting."""
    dims = max(len(value.shape) for value in values)
    return [value.parts(lambda part, n=dims: _padded(part, n)) for value in values]  # type: ignore[misc]


def _padded(part: Tensor, dims: int) -> Tensor:
    missing = dims - (part.dim() - LEADING)
    return part.reshape(*part.shape[:LEADING], *(1,) * missing, *part.shape[LEADING:]) if missing else part


def spread(value: Value, batch: int, shape: Sequence[int]) -> Value:
    """A value broadcast to so many elements and a shape."""
    return value.parts(lambda part: _padded(part, len(shape)).expand(part.shape[0], batch, *shape))


def alike(*values: Value) -> list[Value]:
    """Values broadcast to one number of elements and one shape."""
    shape = torch.broadcast_shapes(*(value.data.shape[1:] for value in aligned(*values)))  # type: ignore[no-untyped-call]
    return [spread(value, shape[0], shape[1:]) for value in values]


def broadcast(*tensors: Tensor) -> list[Tensor]:
    """Tensors in their common shape."""
    return list(torch.broadcast_tensors(*tensors))  # type: ignore[no-untyped-call]


def shaped(value: Value, batch: int, *shape: int) -> Value:
    """A value in another shape, of so many elements."""
    return value.parts(lambda part: part.reshape(part.shape[0], batch, *shape))


def selected(value: Value, dim: int, place: int) -> Value:
    """A value at one place along a dim of the tensor, which goes."""
    return value.parts(lambda part: part.select(dim + LEADING, place))


def joined(values: Sequence[Value], dim: int, join: Callable[[list[Tensor], int], Tensor]) -> Value:
    """Values of one shape joined along a dim, by `torch.cat` or `torch.stack`, with the parts that any of them has.

    `dim` is a dim of the tensors, from 0.
    """
    batch = max(value.batch for value in values)
    values = [spread(value, batch, value.shape) for value in values]
    sets = [value for value in values if value.extremes is not None]
    parts: dict[str, Tensor] = {}
    for name in _PARTS:
        own = [value.signs if name == "sign" else getattr(value, name) for value in values]
        rows = max((len(one) for one in own if one is not None), default=0)
        mixed_ = name == "extremes" and len({value.least for value in sets}) > 1
        if not rows or mixed_:
            continue
        none = 0 if name in ("masks", "lower") else NONE
        filled = [_rows(one, rows, none, value) for one, value in zip(own, values, strict=True)]
        parts[name] = join(filled, dim + LEADING)
    return values[0].but(
        **{**dict.fromkeys(_PARTS), **parts},
        bits=all(value.bits for value in values),
        partial=any(value.partial for value in values),
        range=united(*(value.bounds for value in values)),
        least=any(value.least for value in sets),
        smooth=all(value.smooth for value in values),
        size=larger(*(value.size for value in values)),
        inner=larger(*(value.inner for value in values)),
    )


def picked(test: Tensor, one: Value, other: Value) -> Value:
    """One of two values of one shape, by truth values `(1, batch, *shape)` that are known."""
    places = test.long().unsqueeze(2)
    pair = joined([other, one], 0, torch.stack)
    return pair.parts(lambda part: part.gather(2, places.expand(len(part), *places.shape[1:])).squeeze(2))


def _rows(part: Tensor | None, rows: int, none: int, value: Value) -> Tensor:
    """A part in so many rows; none of it where the value has no such part."""
    if part is None:
        return torch.full((rows, *value.data.shape[1:]), none)
    return torch.cat((part, part.new_full((rows - len(part), *part.shape[1:]), none))) if len(part) < rows else part


def united(*ranges: tuple[int, int] | None) -> tuple[int, int] | None:
    """The range of numbers of several."""
    known = [one for one in ranges if one is not None]
    return (min(low for low, _ in known), max(high for _, high in known)) if len(known) == len(ranges) else None


def same(one: Tensor, other: Tensor) -> Tensor:
    """Which numbers are equal, of shape `(1, ...)`."""
    return (level(one) == level(other)).all(0, keepdim=True)
