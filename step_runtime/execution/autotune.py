"""Finds the fastest mode that gives the same result as running a function element by element, by a trial on real data.

The first elements run one by one, in stream order. If that has side effects (a counter, a random number), or if
no faster mode gives the same, the remaining elements run one by one too, so that the trial is not observable.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, islice
from typing import TypeVar

from step_runtime.base.errors import RunError
from step_runtime.execution.invocation import Data
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
from step_runtime.execution.tracing import Captures

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
