"""Numbers as residues, with their known properties: floats, logarithms, roots, sets of extremes.

All parts of a value have one leading dim of their own, then one for the elements that a function is applied to at once,
then the dims of the tensor.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from step_runtime.verification.exact.constants import constants
from step_runtime.verification.exact.residues import CHANNELS, level, mixed, symbols

LEADING = 2
ENDLESS = 1e29
"""The least size of a constant that stands for infinity, as -1e30 does in masks."""
WORDS = 4
"""Words of a mask of decisions."""
NONE = -1
"""Marks numbers that a part says nothing of."""
_FRESH = itertools.count()


class Unknown(Exception):
    """Something is not followed: an operator, or a decision by data; the message names it."""


_PARTS = ("data", "known", "logs", "roots", "extremes", "gap", "masks", "shift")
_PLAIN = {
    "bits": False,
    **dict.fromkeys(("logs", "roots", "extremes", "gap", "shift")),
}


@dataclass(frozen=True)
class Value:
    """A tensor of exact numbers.

    Attributes:
        data: Their residues, `(CHANNELS, batch, *shape)`.
        known: `(1, batch, *shape)`: the floats of those that depend on no data, infinite ones included, else NaN.
        dtype: torch's type of the tensor.
        bits: Whether all are 0 or 1.
        logs: The exponentials of those that contain a logarithm; `NONE` for others.
        roots: The squares of those that are roots; `NONE` for others.
        extremes: `(members * WORLDS, batch, *shape)`: of those that are the largest of a set, or the least, the
            residues of its members on level 0, each once; `NONE` in empty places.
        least: Whether these are the least of their sets.
        gap: Of truth values that say whether a difference is above 0, or at least 0, the difference.
        logged: Whether they may depend on logarithms.
        smooth: Whether all are analytic functions of real inputs, so that different ones are equal almost nowhere.
        floor: What none of them is below, if that is known.
        shift: `(1, batch, *shape)`: about which constant was added last, as to an angle; a hint. None for 0.
        masks: `(words, batch, *shape)`: the decisions by data with concrete outcomes that each depends on, as bits.
        degree: At most the degrees of the numbers as rational functions: of numerator and denominator.
        inner: At most those of `logs` and `roots`.
    """

    data: Tensor
    known: Tensor
    dtype: torch.dtype
    bits: bool = False
    logs: Tensor | None = None
    roots: Tensor | None = None
    extremes: Tensor | None = None
    least: bool = False
    gap: Tensor | None = None
    degree: tuple[float, float] = (1.0, 0.0)
    logged: bool = False
    smooth: bool = False
    floor: float = -math.inf
    masks: Tensor | None = None
    shift: Tensor | None = None
    inner: tuple[float, float] = (0.0, 0.0)

    @property
    def shape(self) -> tuple[int, ...]:
        """The tensor's shape."""
        return tuple(self.data.shape[LEADING:])

    @property
    def batch(self) -> int:
        """The number of elements at once; 1 also stands for any number."""
        return int(self.data.shape[1])

    @property
    def lowest(self) -> float:
        """What no number is below: the least of constants."""
        return self.floor if not self.known.numel() or bool(self.known.isnan().any()) else float(self.known.min())

    def parts(self, move: Callable[[Tensor], Tensor]) -> Value:
        """The value with each part moved alike."""
        own = ((name, getattr(self, name)) for name in _PARTS)
        return replace(self, **{name: move(part) for name, part in own if part is not None})  # type: ignore[arg-type]

    def plain(self, **changes: object) -> Value:
        """The value with nothing known of it but its residues and floats."""
        return replace(self, **{**_PLAIN, **changes})  # type: ignore[arg-type]

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
    return Value(data, floats.unsqueeze(0), values.dtype, bits, degree=(0.0, 0.0), smooth=True)


def free(name: str, shape: Sequence[int], dtype: torch.dtype) -> Value:
    """A tensor of independent numbers."""
    count = math.prod(shape)
    places = torch.arange(count)
    words = torch.stack((places * 2 + 1, places * 2 + 2)).reshape(2, 1, *shape)
    data = symbols(f"input {name}", words)
    known = torch.full((1, 1, *shape), torch.nan, dtype=torch.float64)
    return Value(data, known, dtype, smooth=dtype.is_floating_point)


def fresh(like: Tensor) -> Tensor:
    """Residues of numbers that equal no others: what stands for what is not a number."""
    count = math.prod(like.shape[1:])
    places = torch.arange(count).reshape(1, *like.shape[1:]).expand(2, *like.shape[1:])
    return symbols("no number", mixed(places + next(_FRESH) * (1 << 32)))


def aligned(*values: Value) -> list[Value]:
    """Values of as many dims, for broadcasting."""
    dims = max(len(value.shape) for value in values)
    return [value.parts(lambda part, n=dims: _padded(part, n)) for value in values]  # type: ignore[misc]


def _padded(part: Tensor, dims: int) -> Tensor:
    missing = dims - (part.dim() - LEADING)
    return part.reshape(*part.shape[:LEADING], *(1,) * missing, *part.shape[LEADING:]) if missing else part


def spread(value: Value, batch: int, shape: Sequence[int]) -> Value:
    """A value broadcast to so many elements and a shape."""
    (padded,) = (value.parts(lambda part: _padded(part, len(shape))),)
    return padded.parts(lambda part: part.expand(part.shape[0], batch, *shape))


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
    place = dim + LEADING
    first = values[0]
    same = len({value.least for value in values if value.extremes is not None}) <= 1

    def of(part: Callable[[Value], Tensor | None], rows: int, none: int = NONE) -> Tensor | None:
        own = [part(value) for value in values]
        if all(one is None for one in own):
            return None
        filled = [
            torch.full((rows, *value.data.shape[1:]), none) if one is None else _rows(one, rows)
            for one, value in zip(own, values, strict=True)
        ]
        return join(filled, place)

    most = max((value.extremes.shape[0] for value in values if value.extremes is not None), default=0)
    return Value(
        join([value.data for value in values], place),
        join([value.known for value in values], place),
        first.dtype,
        all(value.bits for value in values),
        of(lambda value: value.logs, CHANNELS),
        of(lambda value: value.roots, CHANNELS),
        of(lambda value: value.extremes, most) if same else None,
        any(value.least for value in values if value.extremes is not None),
        of(lambda value: value.gap, CHANNELS) if all(value.gap is not None for value in values) else None,
        larger_degree(*(value.degree for value in values)),
        any(value.logged for value in values),
        all(value.smooth for value in values),
        min(value.lowest for value in values),
        of(lambda value: value.masks, WORDS, 0),
        of(lambda value: value.shift, 1, 0),
        inner=larger_degree(*(value.inner for value in values)),
    )


def larger_degree(*degrees: tuple[float, float]) -> tuple[float, float]:
    """The larger of degrees, of numerators and of denominators."""
    return max(top for top, _ in degrees), max(bottom for _, bottom in degrees)


def _rows(part: Tensor, rows: int) -> Tensor:
    missing = rows - part.shape[0]
    return torch.cat((part, part.new_full((missing, *part.shape[1:]), NONE))) if missing else part


def same(one: Tensor, other: Tensor) -> Tensor:
    """Which numbers are equal, of shape `(1, ...)`."""
    return (level(one) == level(other)).all(0, keepdim=True)
