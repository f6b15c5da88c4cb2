"""Measures of streams: how many elements one has, and how many bits an element takes on the chip.

One rule serves polynomials and numbers: dims are measured as they are, or by their values at given sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

from step_runtime.base.shapes import Dim, Sizes, upper_bound
from step_runtime.base.types import DType, Multihot, StreamType, components_of, layout

Figure: TypeAlias = Literal["memory", "traffic", "operations", "time", "queue"]
FIGURES: tuple[Figure, ...] = get_args(Figure)
"""The figures of a program's cost; each is the better the smaller it is."""

UNITS: Mapping[Figure, str] = {
    "memory": "bytes", "traffic": "bytes", "operations": "operations", "time": "cycles", "queue": "elements",
}  # fmt: skip

Amount: TypeAlias = Any
"""An int, or a polynomial in the dims (`sympy.Expr`)."""


@dataclass(frozen=True)
class Measure:
    """Sizes of streams and elements: the amount of a dim, and the bits of a number, by the scalar's name."""

    dim: Callable[[Dim], Amount]
    scalar_bits: Callable[[str], int]

    @cached_property
    def _known(self) -> dict[Any, Amount]:
        return {}

    def product(self, dims: Iterable[Dim]) -> Amount:
        """The product of some dims."""
        result: Amount = 1
        for dim in dims:
            result = result * self.dim(dim)
        return result

    def elements(self, stream: StreamType) -> Amount:
        """The elements of a stream."""
        key = stream.shape
        if key not in self._known:
            self._known[key] = self.product(stream.shape)
        return self._known[key]

    def bits(self, dtype: DType) -> Amount:
        """The bits of one element: those of its numbers, and one for each place of a Multihot."""
        if dtype not in self._known:
            self._known[dtype] = sum(self._bits(element) for element in components_of(dtype))
        return self._known[dtype]

    def _bits(self, element: Any) -> Amount:
        inner = getattr(element, "elem", element)
        bits = 1 if isinstance(inner, Multihot) else self.scalar_bits(inner.name)
        return bits * self.product(layout(element))


def measure_at(bounds: Sizes, scalar_bits: Callable[[str], int]) -> Measure:
    """Measures as numbers, where `bounds` has the value, or the upper bound, of every symbol."""
    return Measure(lambda dim: upper_bound(dim, bounds), scalar_bits)


def symbolic_measure(scalar_bits: Callable[[str], int]) -> Measure:
    """Measures as polynomials in the dims."""
    return Measure(lambda dim: dim, scalar_bits)
