"""Streams as Python objects, for programs written in Python and run eagerly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import sympy
from torch import Tensor

from step_runtime.base.errors import RuleError, quantity
from step_runtime.base.shapes import as_shape
from step_runtime.base.types import DType, StreamType, components_of


class Stream:
    """A stream of elements of `dtype`, with `shape` innermost first and `rank == len(shape) - 1`.

    `data` is None or a list with one tensor per tuple component, each of torch shape `reversed(shape)`
    followed by the element's layout; `ctx` maps symbols to ints.

    Raises:
        RuleError: `rank` does not fit `shape`, or `dtype` is not an element type.
    """

    def __init__(self, name: str, dtype: DType, rank: int, shape: Iterable[Any]) -> None:
        components_of(dtype)
        self.name = name
        self.dtype = dtype
        self.shape = list(as_shape(shape))
        self.rank = rank
        self.data: list[Tensor] | None = None
        self.ctx: dict[sympy.Symbol, int] = {}
        if rank != len(self.shape) - 1 or rank < 0:
            raise RuleError(
                "rank", f"stream {name}: rank {rank} does not fit its shape of {quantity(len(self.shape), 'dim')}"
            )

    @property
    def type(self) -> StreamType:
        """Element type and shape."""
        return StreamType(self.dtype, tuple(self.shape))

    def __repr__(self) -> str:
        return f"{self.name}: {self.type}"


_consumed: ContextVar[list[Stream] | None] = ContextVar("_consumed", default=None)


@contextmanager
def affine() -> Iterator[None]:
    """Enforces the affine rule on programs run eagerly within the context: no stream is consumed twice.

    Raises:
        RuleError: From `apply`, if a primitive gets a stream that is already consumed.
    """
    token = _consumed.set([])
    try:
        yield
    finally:
        _consumed.reset(token)


def consume(streams: Iterable[Stream]) -> None:
    """Records that a primitive consumes these streams, inside `affine`.

    Raises:
        RuleError: One of them is already consumed.
    """
    seen = _consumed.get()
    if seen is None:
        return
    for stream in streams:
        if any(stream is other for other in seen):
            message = f"a stream may be consumed once; this one is consumed again: {stream!r}"
            raise RuleError("affine", message, hint="step.Copy().apply(stream) gives each use a stream of its own")
        seen.append(stream)
