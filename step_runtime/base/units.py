"""Measures of streams: how many elements one has, and how many bits an element takes on the chip."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Literal, TypeAlias, get_args

from step_runtime.base.shapes import Dim, Sizes, upper_bound
from step_runtime.base.types import Buffer, DType, Element, Multihot, StreamType, components_of, layout

Figure: TypeAlias = Literal["memory", "traffic", "operations", "time", "queue"]
FIGURES: tuple[Figure, ...] = get_args(Figure)
"""The figures of a program's cost; each is the better the smaller it is."""

TRADED: tuple[Figure, ...] = ("memory", "time", "traffic", "operations")
"""The figures that are traded for one another; queues are part of the memory."""

UNITS: Mapping[Figure, str] = {
    "memory": "bytes", "traffic": "bytes", "operations": "operations", "time": "cycles", "queue": "elements",
}  # fmt: skip


def figures_key(figures: Mapping[Figure, float], objective: Figure) -> tuple[float, ...]:
    """The order of two programs: by the objective, then by the other figures in their order."""
    return (figures[objective], *(figures[figure] for figure in FIGURES if figure != objective))


@dataclass(frozen=True)
class Measure:
    """Sizes of streams and elements: by the size, or the upper bound, of every dim, and the bits of every scalar."""

    bounds: Sizes
    scalar_bits: Callable[[str], int]

    @cached_property
    def _known(self) -> dict[DType | tuple[Dim, ...], int]:
        return {}

    def elements(self, stream: StreamType) -> int:
        """The elements of a stream."""
        if stream.shape not in self._known:
            self._known[stream.shape] = self._product(stream.shape)
        return self._known[stream.shape]

    def bits(self, dtype: DType) -> int:
        """The bits of one element: those of its numbers, and one for each place of a Multihot."""
        if dtype not in self._known:
            self._known[dtype] = sum(self._bits(element) for element in components_of(dtype))
        return self._known[dtype]

    def _bits(self, element: Element) -> int:
        inner = element.elem if isinstance(element, Buffer) else element
        bits = 1 if isinstance(inner, Multihot) else self.scalar_bits(inner.name)
        return bits * self._product(layout(element))

    def _product(self, dims: Iterable[Dim]) -> int:
        return prod(upper_bound(dim, self.bounds) for dim in dims)
