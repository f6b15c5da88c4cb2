"""Applies functions to many elements at once.

Functions are written for one element. Each runs in the fastest of three modes that gives the same result as
element by element, found by a trial when it is first applied to elements of some layout:

- traced: its operators, recorded once, are replayed on whole batches, and folds whose form allows it are computed
  for all steps at once;
- vmapped: its code runs once per batch under `torch.func.vmap`, on copies, if it writes into its input or a trace
  does not see everything that it uses;
- sequential: its code runs once per element, in stream order, if it branches on data (`if`, `.item()`), keeps state
  in Python, or is random.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any, TypeAlias

import torch

from step_runtime.base.errors import RunError
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Sizes
from step_runtime.base.types import components_of, is_wide, layout
from step_runtime.execution import invocation
from step_runtime.execution.autotune import tune_fold, tune_map
from step_runtime.execution.deadline import Deadline
from step_runtime.execution.invocation import Data, element_layout
from step_runtime.execution.modes import ElementFunction, Mode, Shape, StreamData, Traced
from step_runtime.execution.number_formats import element_type
from step_runtime.execution.tracing import Product

__all__ = ["Applier", "Data", "StreamData", "element_layout"]

_Key: TypeAlias = tuple[Any, ...]

RAISED_BY = "(Limits.seconds, --limit-seconds)"

_GROWTH = 16
"""A function is tried again on a batch that exceeds its trial's batch by more than this factor."""


class Applier:
    """Runs functions over batches, fp32 in one floating type; remembers how each function runs.

    `map` and `fold` raise TaskCodeError if a function fails or returns something other than it declares,
    and RunError after the deadline.

    Args:
        dtype: The type that holds fp32, to which such outputs are cast; None keeps the function's own. Other formats
            are always held in their own type.
        deadline: After it `RunError` (code `time-limit`) is raised; None for no limit.
    """

    def __init__(self, dtype: torch.dtype | None = None, deadline: Deadline | None = None) -> None:
        self.dtype = dtype
        self.deadline = deadline
        self._modes: dict[_Key, tuple[Mode, int]] = {}
        self._symbols: dict[Fn, list[str]] = {}
        self._wide: dict[Fn, bool] = {}

    def map(self, fn: Fn, data: StreamData, dims: int, sizes: Sizes) -> StreamData:
        """`fn` on each element of a stream with `dims` dims, `(*dims, *layout)` per component; so is the result."""
        self._tick(fn)
        data = self._taken(fn, data)
        outer, key = self._outline(fn, data, dims, sizes)
        batch = prod(outer)
        if not batch:
            return self._empty(fn, outer, sizes)
        mode = self._known(key, batch)
        if mode is not None:
            return mode.map(data, outer)
        mode, result = tune_map(self._one(fn, 0, sizes), data, outer)
        self._modes[key] = mode, batch
        return result

    def fold(self, fn: Fn, data: StreamData, dims: int, b: int, sizes: Sizes, *, scan: bool) -> Data:
        """`fn` folded over the `b` inner dims of a stream with `dims` dims, innermost fastest.

        The result is the last state of each fold, or for a scan every state, which keeps all dims.
        """
        self._tick(fn)
        data = self._taken(fn, data)
        shape, key = self._outline(fn, data, dims, sizes)
        kept = shape if scan else shape[: dims - b]
        mode = self._known(key, prod(shape))
        initial = mode.initial if mode and mode.initial else invocation.initial(fn, sizes, self.dtype)
        if 0 in shape:
            return tuple(part.expand(*kept, *part.shape) for part in initial)
        if not scan and isinstance(mode, Traced) and mode.sums and self._is_wide(fn):
            inner = tuple(range(dims - b, dims))
            return ((data.sum(inner) if isinstance(data, Product) else data[0].sum(inner)) + initial[0],)
        folds = prod(shape[: dims - b])
        rows = tuple(part.reshape(folds, -1, *part.shape[dims:]) for part in data)
        if mode is not None:
            result = mode.fold(initial, rows, scan=scan)
        else:
            mode, result = tune_fold(self._one(fn, len(initial), sizes), initial, rows, scan=scan)
            self._modes[key] = mode, prod(shape)
        return tuple(part.reshape(*kept, *part.shape[2 if scan else 1 :]) for part in result)

    def _is_wide(self, fn: Fn) -> bool:
        """Whether a function takes and gives only fp32."""
        if fn not in self._wide:
            self._wide[fn] = is_wide(fn.input, fn.output)
        return self._wide[fn]

    def _taken(self, fn: Fn, data: StreamData) -> StreamData:
        """The data in the formats that a function takes; data of a simulation is in them already."""
        if self._is_wide(fn) or isinstance(data, Product):
            return data
        wide = self.dtype or torch.get_default_dtype()
        kinds = [element_type(element, wide) for element in components_of(fn.input)]
        return tuple(part.to(kind) for part, kind in zip(data, kinds, strict=True))

    def _outline(self, fn: Fn, data: StreamData, dims: int, sizes: Sizes) -> tuple[Shape, _Key]:
        """The sizes of a stream's dims, and the key of its trial: the function and the layouts of its elements."""
        if fn not in self._symbols:
            layouts = [dim for element in components_of(fn.output) for dim in layout(element)]
            self._symbols[fn] = sorted({symbol.name for dim in layouts for symbol in dim.free_symbols})
        given = [sizes[name] for name in self._symbols[fn]]
        if isinstance(data, Product):
            return data.shape[:dims], (fn, *given, data.shape[dims:], self.dtype)
        taken = [value for part in data for value in (part.shape[dims:], part.dtype)]
        return data[0].shape[:dims], (fn, *given, *taken)

    def _known(self, key: _Key, batch: int) -> Mode | None:
        """The mode that was found, if it may be used for a batch of this size."""
        if key not in self._modes:
            return None
        mode, tried = self._modes[key]
        return mode if mode.usable(batch <= _GROWTH * tried) else None

    def _one(self, fn: Fn, states: int, sizes: Sizes) -> ElementFunction:
        return ElementFunction(fn, states, sizes, self.dtype, partial(self._tick, fn))

    def _tick(self, fn: Fn) -> None:
        used = self.deadline.passed() if self.deadline is not None else None
        if used is not None:
            raise RunError(
                "time-limit",
                f"the run took longer than {used}, the limit {RAISED_BY}; it was at function {fn.label}",
            )

    def _empty(self, fn: Fn, outer: Shape, sizes: Sizes) -> Data:
        wide = self.dtype or torch.get_default_dtype()
        elements = components_of(fn.output)
        shapes = [(*outer, *element_layout(element, sizes)) for element in elements]
        kinds = [element_type(element, wide) for element in elements]
        return tuple(torch.zeros(shape, dtype=kind) for shape, kind in zip(shapes, kinds, strict=True))
