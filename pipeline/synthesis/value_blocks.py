"""Values of many streams of one type, and how to distinguish them.

A `Block` holds one stream per row: all its numbers, flat, in float64. Primitives run on whole blocks, as the rows form
one more dim outside the outermost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy
import sympy
import torch
from torch import Tensor

from step_runtime.base.shapes import Sizes, torch_shape
from step_runtime.base.types import StreamType, components_of
from step_runtime.execution.applier import Data, element_layout
from step_runtime.execution.number_formats import exact
from step_runtime.primitives import Operand

ROWS = sympy.Symbol("rows.")
"""The dim that a block's rows are in; the dot keeps it apart from every symbol that a task can declare."""
Rows = numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.int64]]

TOLERANCE = 1e-9
"""Relative difference up to which two numbers count as equal."""
_NOISE = 1e-13
"""Relative size below which a number beside larger ones is what rounding leaves."""
_LARGEST = 1e9
"""A row is sane if its largest number is below this, and above its inverse or 0."""
_DIGITS = 9
"""Decimal digits that a digest keeps."""
_LEAST_EXPONENT = -12
"""Of numbers that differ from 0 by more than rounding."""
_MULTIPLIERS = 1_000_003, 6_364_136_223_846_793_005
"""They spread mantissa and exponent, and the two projections, over 64 bits."""
_NOT_A_NUMBER, _INFINITE = 0.7265, 3.1807
"""What values are compared by in place of NaN and of infinity: masked streams differ in their other numbers."""


def in_rows(type_: StreamType) -> StreamType:
    """The type of a block as a stream."""
    return StreamType(type_.dtype, (*type_.shape, ROWS))


@dataclass(frozen=True)
class RowLayout:
    """The layout of a type's numbers in a row: the torch shape of each component."""

    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, type_: StreamType, sizes: Sizes) -> RowLayout:
        """At the sizes given."""
        outer = torch_shape(type_.shape, sizes)
        return cls(tuple((*outer, *element_layout(part, sizes)) for part in components_of(type_.dtype)))

    @property
    def numbers(self) -> int:
        """In one row."""
        return sum(map(prod, self.shapes))

    def pack(self, data: Sequence[Tensor], rows: int) -> Tensor:
        """Tensors with the rows outermost as `(rows, numbers)`; every format's numbers are float64 numbers."""
        parts = [exact(part).reshape(rows, -1) for part in data]
        return parts[0].contiguous() if len(parts) == 1 else torch.cat(parts, 1)

    def unpack(self, values: Tensor) -> Data:
        """`(rows, numbers)` as tensors with the rows outermost."""
        parts = torch.split(values, [prod(shape) for shape in self.shapes], 1)
        return tuple(part.reshape(len(values), *shape) for part, shape in zip(parts, self.shapes, strict=True))


def operand(type_: StreamType, layout: RowLayout, values: Tensor) -> Operand:
    """A block as what primitives run on."""
    return Operand(in_rows(type_), layout.unpack(values))


@lru_cache(maxsize=256)
def _directions(numbers: int) -> Tensor:
    generator = torch.Generator().manual_seed(numbers)
    return torch.randn(numbers, 2, dtype=torch.float64, generator=generator)


def finite(values: Tensor) -> Tensor:
    """The values with fixed numbers in place of NaN and infinities."""
    return torch.nan_to_num(values, nan=_NOT_A_NUMBER, posinf=_INFINITE, neginf=-_INFINITE)


def _projected(values: Tensor) -> Tensor:
    """Two sums over each row."""
    projected = values @ _directions(values.shape[1])
    wrong = ~torch.isfinite(projected).all(1)
    if wrong.any():
        projected[wrong] = finite(values[wrong]) @ _directions(values.shape[1])
    return projected


def digests(values: Tensor) -> Rows:
    """A number for each row; rows that agree up to rounding have the same, with few exceptions."""
    projected = _projected(values).numpy()
    with numpy.errstate(divide="ignore", invalid="ignore"):
        exponent = numpy.floor(numpy.log10(numpy.abs(projected)))
    exponent = numpy.where(numpy.isfinite(exponent), numpy.maximum(exponent, _LEAST_EXPONENT), _LEAST_EXPONENT)
    rounded = numpy.rint(projected / 10.0 ** (exponent - _DIGITS + 1)).astype(numpy.int64)
    keys = rounded * _MULTIPLIERS[0] + exponent.astype(numpy.int64)
    with numpy.errstate(over="ignore"):
        return numpy.asarray(keys[:, 0] * _MULTIPLIERS[1] + keys[:, 1])


class SeenValues:
    """The digests seen among values of one type."""

    def __init__(self) -> None:
        self._known: set[int] = set()

    def new(self, values: Tensor) -> Rows:
        """The rows with a new value, the first of each value, in order; records them all as seen."""
        keys, first = numpy.unique(digests(values), return_index=True)
        as_text = keys.tolist()
        fresh = numpy.fromiter((key not in self._known for key in as_text), bool, len(as_text))
        self._known.update(as_text)
        return numpy.sort(first[fresh])


def close(left: Tensor, right: Tensor) -> Tensor:
    """Whether rows of two blocks agree, number by number, up to rounding relative to a row's largest number."""
    left, right = finite(left), finite(right)
    slack = TOLERANCE * right.abs() + _NOISE * right.abs().amax(1, keepdim=True)
    return ((left - right).abs() <= slack).all(1)


def sane(values: Tensor) -> Tensor:
    """Whether rows are finite but for -inf, as masks have it, and their size is not mostly rounding."""
    masked = values == -torch.inf
    largest = torch.where(masked, 0.0, values.abs()).amax(1)
    usual = (largest <= _LARGEST) & ((largest >= 1 / _LARGEST) | (largest == 0))
    return usual & ~masked.all(1)


class ValueIndex:
    """Blocks of one type, searched by value."""

    def __init__(self) -> None:
        self._blocks: list[Tensor] = []
        self._keys: list[numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.float64]]] = []
        self._sorted: tuple[numpy.ndarray, numpy.ndarray] | None = None

    def add(self, values: Tensor) -> None:
        """Adds a block."""
        self._blocks.append(values)
        self._keys.append(_projected(values)[:, 0].numpy())
        self._sorted = None

    def find(self, values: Tensor) -> list[tuple[int, int, int]]:
        """For rows of a block that agree with a row added: own row, number of the block added, row in it."""
        if not self._blocks or not len(values):
            return []
        if self._sorted is None:
            keys = numpy.concatenate(self._keys)
            order = numpy.argsort(keys, kind="stable")
            self._sorted = keys[order], order
        keys, order = self._sorted
        own = _projected(values)[:, 0].numpy()
        slack = TOLERANCE * (finite(values).abs() @ _directions(values.shape[1])[:, 0].abs()).numpy()
        first = numpy.searchsorted(keys, own - slack, "left")
        last = numpy.searchsorted(keys, own + slack, "right")
        starts = numpy.cumsum([0, *(len(block) for block in self._blocks)])
        found = []
        for row in numpy.nonzero(last > first)[0]:
            for place in order[first[row] : last[row]]:
                block = int(numpy.searchsorted(starts, place, "right")) - 1
                other = int(place - starts[block])
                if bool(close(values[row : row + 1], self._blocks[block][other : other + 1])):
                    found.append((int(row), block, other))
        return found
