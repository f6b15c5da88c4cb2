"""Tensors of exact numbers: residues, and what else is known of them.

All parts of a value have one leading dim of their own, then one for the elements that a function is applied to at once,
then the dims of the tensor.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from step_runtime.verification.exact.constants import common_denominator, constants
from step_runtime.verification.exact.residues import CHANNELS, level, mixed, moduli, symbols

LEADING = 2
ENDLESS = 1e29
"""The least size of a constant that stands for infinity, as -1e30 does in masks."""
WORDS = 4
"""Words of a mask of decisions."""
NONE = -1
"""Marks numbers that a part says nothing of."""
NAN = torch.nan
_FRESH = itertools.count()


class Unknown(Exception):
    """Something is not followed: an operator, or a decision by data; the message names it."""


class Size(NamedTuple):
    """Bounds on numbers as quotients of polynomials: degrees, and bits of the sums of their coefficients' sizes.

    Numbers of a tensor whose denominators have no degree have one denominator of so many bits in common.
    """

    top: float = 0.0
    bottom: float = 0.0
    high: float = 0.0
    low: float = 0.0

    @property
    def degree(self) -> float:
        """That of a difference from 0, cleared of denominators."""
        return self.top + self.bottom

    @property
    def bits(self) -> float:
        """Those of its coefficients."""
        return self.high + self.low

    def plus(self, other: Size) -> Size:
        """That of sums."""
        one = max(self.top + other.bottom, other.top + self.bottom), self.bottom + other.bottom
        return Size(*one, max(self.high + other.low, other.high + self.low) + 1, self.low + other.low)

    def times(self, other: Size) -> Size:
        """That of products."""
        return Size(*(own + its for own, its in zip(self, other, strict=True)))

    def inverse(self) -> Size:
        """That of inverses."""
        return Size(self.bottom, self.top, self.low, self.high)

    def summed(self, count: int) -> Size:
        """That of sums of so many."""
        bits = math.log2(max(1, count))
        if not self.bottom:
            return self._replace(high=self.high + bits)
        rest = max(0, count - 1)
        top, high = self.top + rest * self.bottom, self.high + rest * self.low + bits
        return Size(top, self.bottom * count, high, self.low * count)


def larger(*sizes: Size) -> Size:
    """The larger of bounds."""
    return Size(*map(max, zip(*sizes, strict=True)))


SYMBOL = Size(top=1.0)
NOTHING = Size()
_PARTS = ("data", "known", "sign", "logs", "roots", "extremes", "gap", "masks", "lead")


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
        lower: Whether some may be minus infinity for some data, as masks give it.
        endless: Whether infinite constants are so in torch too, of which 0 times are no numbers; else they are large.
        broken: Whether some are no numbers, as 0 times infinity is, so that 0 times are none either.
        range: What whole numbers lie between, both ends included.
        logs: The exponentials of those that contain a logarithm; `NONE` for others.
        roots: The squares of those that are roots; `NONE` for others.
        extremes: `(members * WORLDS, batch, *shape)`: of those that are the largest of a set, or the least, the
            residues of its members on level 0, each once; `NONE` in empty places.
        least: Whether these are the least of their sets.
        gap: Of truth values that say whether a difference is above 0, or at least 0, the difference.
        lead: `(2 * CHANNELS, batch, *shape)`: of sums of numbers above 0 the first term, and its logarithm, by which
            theirs are found, under the laws `linear`; `NONE` for others.
        masks: `(words, batch, *shape)`: the decisions by data with concrete outcomes that each depends on, as bits.
        smooth: Whether all are analytic functions of real inputs, so that different ones are equal almost nowhere.
        size: A bound on the numbers as quotients of polynomials.
        inner: One on `logs` and `roots`.
    """

    data: Tensor
    known: Tensor
    dtype: torch.dtype
    bits: bool = False
    sign: Tensor | None = None
    partial: bool = False
    lower: bool = False
    endless: bool = False
    broken: bool = False
    range: tuple[int, int] | None = None
    logs: Tensor | None = None
    roots: Tensor | None = None
    extremes: Tensor | None = None
    least: bool = False
    gap: Tensor | None = None
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

    @property
    def signs(self) -> Tensor:
        """The signs, of constants and truth values too."""
        if self.sign is not None:
            return self.sign
        if self.bits:
            return torch.ones_like(self.known, dtype=torch.int8)
        own = torch.where(self.known == 0, 1, 2 * self.known.sign().nan_to_num(0.0))
        return own.to(torch.int8)

    @property
    def bounds(self) -> tuple[int, int] | None:
        """What whole numbers lie between, constants and truth values too."""
        if self.bits or self.range is not None:
            return (0, 1) if self.bits else self.range
        if not self.known.numel() or not bool(self.known.isfinite().all()):
            return None
        return math.floor(self.known.min()), math.ceil(self.known.max())

    def parts(self, move: Callable[[Tensor], Tensor]) -> Value:
        """The value with each part moved alike."""
        own = ((name, getattr(self, name)) for name in _PARTS)
        return replace(self, **{name: move(part) for name, part in own if part is not None})  # type: ignore[arg-type]

    def plain(self, **changes: object) -> Value:
        """The value without what only some rules know of it."""
        own = {"logs": None, "roots": None, "extremes": None, "gap": None, "lead": None, "bits": False}
        return replace(self, **{**own, "sign": self.signs, **changes})  # type: ignore[arg-type]

    def constant(self) -> Tensor | None:
        """The floats, if none depends on data."""
        return None if bool(self.known.isnan().any()) else self.known[0]


def fixed(values: Tensor) -> Value:
    """A tensor that depends on no data, for all elements at once."""
    if values.is_complex():
        raise Unknown("complex numbers")
    floats = values.detach().to(torch.float64).unsqueeze(0)
    floats = torch.where(floats.abs() >= ENDLESS, floats.sign() * torch.inf, floats)
    bits = values.dtype == torch.bool or bool(((floats == 0) | (floats == 1)).all())
    data, none = constants(floats.nan_to_num(0.0, torch.inf, -torch.inf)), floats.isnan()
    data = torch.where(none, fresh(data), data) if bool(none.any()) else data
    size = Size(0.0, 0.0, *common_denominator(floats))
    found = Value(data, floats.unsqueeze(0), values.dtype, bits, partial=bool(none.any()), size=size, smooth=True)
    return replace(found, endless=bool(values.isinf().any()), broken=found.partial)


def number(value: float, dtype: torch.dtype = torch.float64) -> Value:
    """A constant without dims."""
    return replace(fixed(torch.tensor(value, dtype=torch.float64)), bits=False, dtype=dtype)


def free(name: str, shape: Sequence[int], dtype: torch.dtype) -> Value:
    """A tensor of independent numbers."""
    places = torch.arange(math.prod(shape))
    words = torch.stack((places * 2 + 1, places * 2 + 2)).reshape(2, 1, *shape)
    data = symbols(f"input {name}", words)
    return Value(data, torch.full((1, 1, *shape), NAN, dtype=torch.float64), dtype, smooth=dtype.is_floating_point)


def fresh(like: Tensor) -> Tensor:
    """Residues of numbers that equal no others: what stands for what is not a number."""
    count = math.prod(like.shape[1:])
    places = torch.arange(count).reshape(1, *like.shape[1:]).expand(2, *like.shape[1:])
    return symbols("no number", mixed(places + next(_FRESH) * (1 << 32)))


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


def broadcast(*tensors: Tensor) -> list[Tensor]:
    """Tensors in their common shape."""
    shape = common_shape(*(one.shape for one in tensors))
    return [one.broadcast_to(shape) for one in tensors]


def common_shape(*shapes: Sequence[int]) -> torch.Size:
    """The shape that tensors of these are broadcast to."""
    return torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call, no-any-return]


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
    same = len({value.least for value in values if value.extremes is not None}) <= 1

    def of(part: Callable[[Value], Tensor | None], rows: int, none: int = NONE) -> Tensor | None:
        own = [part(value) for value in values]
        if all(one is None for one in own):
            return None
        filled = [
            torch.full((rows, *value.data.shape[1:]), none) if one is None else _rows(one, rows)
            for one, value in zip(own, values, strict=True)
        ]
        return join(filled, dim + LEADING)

    most = max((value.extremes.shape[0] for value in values if value.extremes is not None), default=0)
    return Value(
        join([value.data for value in values], dim + LEADING),
        join([value.known for value in values], dim + LEADING),
        values[0].dtype,
        bits=all(value.bits for value in values),
        sign=join([value.signs for value in values], dim + LEADING),
        partial=any(value.partial for value in values),
        lower=any(value.lower for value in values),
        endless=any(value.endless for value in values),
        broken=any(value.broken for value in values),
        range=united(*(value.bounds for value in values)),
        logs=of(lambda value: value.logs, CHANNELS),
        roots=of(lambda value: value.roots, CHANNELS),
        extremes=of(lambda value: value.extremes, most) if same else None,
        least=any(value.least for value in values if value.extremes is not None),
        gap=of(lambda value: value.gap, CHANNELS) if all(value.gap is not None for value in values) else None,
        lead=of(lambda value: value.lead, 2 * CHANNELS),
        masks=of(lambda value: value.masks, WORDS, 0),
        smooth=all(value.smooth for value in values),
        size=larger(*(value.size for value in values)),
        inner=larger(*(value.inner for value in values)),
    )


def united(*ranges: tuple[int, int] | None) -> tuple[int, int] | None:
    """The range of numbers of several."""
    known = [one for one in ranges if one is not None]
    return (min(low for low, _ in known), max(high for _, high in known)) if len(known) == len(ranges) else None


def _rows(part: Tensor, rows: int) -> Tensor:
    missing = rows - part.shape[0]
    return torch.cat((part, part.new_full((missing, *part.shape[1:]), NONE))) if missing else part


def same(one: Tensor, other: Tensor) -> Tensor:
    """Which numbers are equal, of shape `(1, ...)`."""
    return (level(one) == level(other)).all(0, keepdim=True)
