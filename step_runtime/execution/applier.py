"""Applies functions to many elements at once.

Functions are written for one element. Each runs in the fastest of three modes that gives the same result as
element by element, found by a trial when it is first applied to elements of some layout:

- traced: its operators, recorded once, are replayed on whole batches, and folds whose form allows it are computed
  for all steps at once;
- vmapped: its code runs once per batch under `torch.func.vmap`, on copies, if it writes into its input or a trace
  does not see everything that it uses;
- sequential: its code runs once per element, in stream order, if it branches on data (`if`, `.item()`), keeps state
  in Python, or is random.

In the trial the first elements run one by one, in stream order. If that has side effects (a counter, a random number),
or if no faster mode gives the same, the remaining elements run one by one too, so that the trial is not observable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from math import prod
from typing import Any, TypeAlias, TypeVar

import torch

from step_runtime.base.errors import RunError, TaskCodeError, out_of_memory
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Sizes
from step_runtime.base.types import components_of, is_wide, layout
from step_runtime.execution import invocation
from step_runtime.execution.deadline import Deadline
from step_runtime.execution.invocation import Data, element_layout
from step_runtime.execution.modes import (
    ElementFunction,
    Mode,
    Sequential,
    Shape,
    StreamData,
    Traced,
    Vmapped,
    close,
    flat,
    folded,
    mapped,
)
from step_runtime.execution.number_formats import element_type
from step_runtime.execution.tracing import Captures, Product

Result = TypeVar("Result")

_PROBED = 3
"""Elements that run one by one in a trial."""


def tune_map(one: ElementFunction, data: StreamData, outer: Shape) -> tuple[Mode, StreamData]:
    """The mode found, and what its `map` gives for `(*outer, *layout)`, no dim of which is 0."""
    elements = flat(data, outer)
    trial = _Trial(one)
    results = one.results(elements)
    exact = list(islice(results, _PROBED))

    def first_and_last(mode: Mode) -> tuple[StreamData, Data]:
        result = mode.map(data, outer)
        return result, tuple(part[[*range(len(exact)), -1]] for part in flat(result, outer))

    if trial.clean():
        last = next(one.results(tuple(part[-1:] for part in elements)))
        expected = mapped([*exact, last], [len(exact) + 1])
        found = trial.fastest(tuple(part[0] for part in elements), first_and_last, expected)
        if found is not None:
            return found
    return Sequential(one), mapped(chain(exact, results), outer)


def tune_fold(one: ElementFunction, initial: Data, data: Data, *, scan: bool) -> tuple[Mode, Data]:
    """The mode found, and what its `fold` gives for `(folds, steps, *layout)`, neither of which is 0."""
    folds, steps = data[0].shape[:2]
    trial = _Trial(one)
    states = one.states(initial, data)
    exact = list(islice(states, min(_PROBED, steps)))
    start = tuple(part[:1, : len(exact)] for part in data)

    def first_states(mode: Mode) -> tuple[Data, Data]:
        every, last = mode.fold(initial, start, scan=True), mode.fold(initial, start, scan=False)
        return mode.fold(initial, data, scan=scan), (*every, *last)

    if trial.clean():
        every = mapped(exact, [1, len(exact)])
        expected = (*every, *(part[:, -1] for part in every))
        found = trial.fastest((*initial, *(part[0, 0] for part in data)), first_states, expected)
        if found is not None:
            found[0].initial = initial if trial.constant else None
            return found
    return Sequential(one), folded(chain(exact, states), folds, steps, scan=scan)


class _Trial:
    """The side effects of a function since the start of the trial, and the modes that reproduce its results."""

    def __init__(self, one: ElementFunction) -> None:
        self._one = one
        self._captures = Captures(one.fn)
        self._before = self._captures.state()
        self.constant = self._captures.constant

    def clean(self) -> bool:
        """Whether everything that the function can reach is known and unchanged."""
        return not self._captures.opaque and self._captures.state() == self._before

    def fastest(
        self, example: Data, run: Callable[[Mode], tuple[Result, Data]], expected: Data
    ) -> tuple[Mode, Result] | None:
        """The first mode for which `run` gives the expected result, with that result; None if none does."""
        modes = (lambda: Traced(self._one, self._captures, example)), (lambda: Vmapped(self._one))
        for make in modes:
            try:
                mode = make()
                result, sample = run(mode)
                agrees = all(map(close, sample, expected))
            except RunError:
                raise
            except Exception:
                # If a faster mode fails, the elements run one by one, which shows whether the failure is real.
                agrees = False
            if not self.clean():
                return None
            if agrees:
                return mode, result
        return None


__all__ = ["Applier", "Data", "StreamData", "element_layout"]

_Key: TypeAlias = tuple[Any, ...]

RAISED_BY = "(Limits.seconds, --limit-seconds)"

_GROWTH = 16
"""A function is tried again on a batch that exceeds its trial's batch by more than this factor."""


def _unless_it_fails(run: Callable[[], Result]) -> Result | None:
    """What a known mode gives; None where it fails: another trial then shows whether the failure is the function's.

    Raises:
        RunError: The deadline has passed.
        TaskCodeError: The function failed.
        MemoryError: There is too little memory; torch raises RuntimeError.
    """
    try:
        return run()
    except (RunError, TaskCodeError):
        raise
    except Exception as error:
        if out_of_memory(error):
            raise
        return None


_Facts: TypeAlias = tuple[Fn, bool, list[str]]
"""A function that runs, whether it takes and gives only fp32, and the dims in the layout of its output."""


class Applier:
    """Runs functions over batches, fp32 in one floating type; remembers how each function runs.

    `map` and `fold` raise TaskCodeError if a function fails or returns something other than it declares,
    and RunError after the deadline.

    Args:
        dtype: The type that holds fp32, to which such outputs are cast; None keeps the function's own. Other formats
            are always held in their own type.
        deadline: After it `RunError` (code `time-limit`) is raised; None for no limit.
        functions: By label, those that run in place of a program's own: its task's functions at these sizes.
    """

    def __init__(
        self,
        dtype: torch.dtype | None = None,
        deadline: Deadline | None = None,
        functions: Mapping[str, Fn] | None = None,
    ) -> None:
        self.dtype = dtype
        self.deadline = deadline
        self._functions = functions or {}
        self._known_facts: dict[Fn, _Facts] = {}
        self._modes: dict[_Key, tuple[Mode, int]] = {}

    def map(self, fn: Fn, data: StreamData, dims: int, sizes: Sizes) -> StreamData:
        """`fn` on each element of a stream with `dims` dims, `(*dims, *layout)` per component; so is the result."""
        fn, wide, symbols = self._facts(fn)
        self._tick(fn)
        data = data if wide else self._taken(fn, data)
        outer, key = self._outline(fn, symbols, data, dims, sizes)
        batch = prod(outer)
        if not batch:
            return self._empty(fn, outer, sizes)
        known = self._known(key, batch)
        found = None if known is None else _unless_it_fails(partial(known.map, data, outer))
        if found is not None:
            return found
        mode, result = tune_map(self._one(fn, 0, sizes), data, outer)
        self._modes[key] = mode, batch
        return result

    def fold(self, fn: Fn, data: StreamData, dims: int, b: int, sizes: Sizes, *, scan: bool) -> Data:
        """`fn` folded over the `b` inner dims of a stream with `dims` dims, innermost fastest.

        The result is the last state of each fold, or for a scan every state, which keeps all dims.
        """
        fn, wide, symbols = self._facts(fn)
        self._tick(fn)
        data = data if wide else self._taken(fn, data)
        shape, key = self._outline(fn, symbols, data, dims, sizes)
        kept = shape if scan else shape[: dims - b]
        mode = self._known(key, prod(shape))
        initial = mode.initial if mode and mode.initial else invocation.initial(fn, sizes, self.dtype)
        if 0 in shape:
            return tuple(part.expand(*kept, *part.shape) for part in initial)
        if not scan and isinstance(mode, Traced) and mode.sums and wide:
            inner = tuple(range(dims - b, dims))
            return ((data.sum(inner) if isinstance(data, Product) else data[0].sum(inner)) + initial[0],)
        folds = prod(shape[: dims - b])
        rows = tuple(part.reshape(folds, -1, *part.shape[dims:]) for part in data)
        result = None if mode is None else _unless_it_fails(partial(mode.fold, initial, rows, scan=scan))
        if result is None:
            mode, result = tune_fold(self._one(fn, len(initial), sizes), initial, rows, scan=scan)
            self._modes[key] = mode, prod(shape)
        return tuple(part.reshape(*kept, *part.shape[2 if scan else 1 :]) for part in result)

    def _facts(self, fn: Fn) -> _Facts:
        found = self._known_facts.get(fn)
        if found is None:
            own = self._functions.get(fn.label, fn)
            layouts = [dim for element in components_of(own.output) for dim in layout(element)]
            symbols = sorted({symbol.name for dim in layouts for symbol in dim.free_symbols})
            found = self._known_facts[fn] = own, is_wide(own.input, own.output), symbols
        return found

    def _taken(self, fn: Fn, data: StreamData) -> StreamData:
        """The data in the formats that a function takes; data of a simulation is in them already."""
        if isinstance(data, Product):
            return data
        wide = self.dtype or torch.get_default_dtype()
        kinds = [element_type(element, wide) for element in components_of(fn.input)]
        return tuple(part.to(kind) for part, kind in zip(data, kinds, strict=True))

    def _outline(self, fn: Fn, symbols: Sequence[str], data: StreamData, dims: int, sizes: Sizes) -> tuple[Shape, _Key]:
        """The sizes of a stream's dims, and the key of its trial: the function and the layouts of its elements."""
        given = [sizes[name] for name in symbols]
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
