"""Finds the fastest way that gives what running a function element by element gives, by trying on real data.

The first elements run one by one, in stream order. Where that leaves something behind (a counter, a random number
drawn), and where no faster way gives the same, the rest goes on one by one, so that nobody can tell.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, islice
from typing import TypeVar

import torch

from step_runtime.base.errors import RunError
from step_runtime.execution.invocation import Data
from step_runtime.execution.modes import (
    OneElement,
    Shape,
    Single,
    StreamData,
    Traced,
    Vmapped,
    Way,
    flat,
    folded,
    mapped,
)
from step_runtime.execution.tracing import Captures

Result = TypeVar("Result")

_PROBED = 3
"""Elements that run one by one in a trial."""


def try_map(one: OneElement, data: StreamData, outer: Shape) -> tuple[Way, StreamData]:
    """The way found, and what its `map` gives for `(*outer, *layout)`, no dim of which is 0."""
    elements = flat(data, outer)
    trial = _Trial(one)
    results = one.results(elements)
    exact = list(islice(results, _PROBED))

    def first_and_last(way: Way) -> tuple[StreamData, Data]:
        result = way.map(data, outer)
        return result, tuple(part[[*range(len(exact)), -1]] for part in flat(result, outer))

    if trial.clean():
        last = next(one.results(tuple(part[-1:] for part in elements)))
        expected = mapped([*exact, last], [len(exact) + 1])
        found = trial.fastest(tuple(part[0] for part in elements), first_and_last, expected)
        if found is not None:
            return found
    return Single(one), mapped(chain(exact, results), outer)


def try_fold(one: OneElement, initial: Data, data: Data, *, scan: bool) -> tuple[Way, Data]:
    """The way found, and what its `fold` gives for `(folds, steps, *layout)`, neither of which is 0."""
    folds, steps = data[0].shape[:2]
    trial = _Trial(one)
    states = one.states(initial, data)
    exact = list(islice(states, min(_PROBED, steps)))
    start = tuple(part[:1, : len(exact)] for part in data)

    def first_states(way: Way) -> tuple[Data, Data]:
        every, last = way.fold(initial, start, scan=True), way.fold(initial, start, scan=False)
        return way.fold(initial, data, scan=scan), (*every, *last)

    if trial.clean():
        every = mapped(exact, [1, len(exact)])
        expected = (*every, *(part[:, -1] for part in every))
        found = trial.fastest((*initial, *(part[0, 0] for part in data)), first_states, expected)
        if found is not None:
            found[0].initial = initial if trial.constant else None
            return found
    return Single(one), folded(chain(exact, states), folds, steps, scan=scan)


class _Trial:
    """What a function left behind since the trial began, and which ways do without."""

    def __init__(self, one: OneElement) -> None:
        self._one = one
        self._captures = Captures(one.fn)
        self._before = self._captures.state()
        self.constant = self._captures.constant

    def clean(self) -> bool:
        """Whether all that the function can reach is known, and is as it was."""
        return not self._captures.opaque and self._captures.state() == self._before

    def fastest(
        self, example: Data, run: Callable[[Way], tuple[Result, Data]], expected: Data
    ) -> tuple[Way, Result] | None:
        """The first way for which `run` gives a result together with what is expected; None for none."""
        for make in (self._traced, self._vmapped):
            try:
                way = make(example)
                result, shown = run(way)
                agrees = all(map(_close, shown, expected))
            except RunError:
                raise
            except Exception:
                # Whatever a faster way does not take, one by one decides: a real failure shows there.
                agrees = False
            if not self.clean():
                return None
            if agrees:
                return way, result
        return None

    def _traced(self, example: Data) -> Way:
        return Traced(self._one, self._captures, example)

    def _vmapped(self, example: Data) -> Way:
        return Vmapped(self._one)


def _close(value: torch.Tensor, expected: torch.Tensor) -> bool:
    return value.shape == expected.shape and torch.allclose(value, expected, equal_nan=True)
