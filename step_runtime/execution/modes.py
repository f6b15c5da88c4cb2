"""The three modes of running a function on a batch; see `applier`."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import torch
from torch import Tensor

from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Sizes
from step_runtime.execution import invocation
from step_runtime.execution.invocation import Data
from step_runtime.execution.number_formats import is_rounded, same_numbers
from step_runtime.execution.tracing import MAX_BATCH_DIMS, Captures, Fold, Product, Tape, trace

_LARGE = 2**13
"""The size of a result, in numbers, from which checking its factors' memory layout pays off."""

Shape: TypeAlias = Sequence[int]
StreamData: TypeAlias = Data | Product
"""A stream's tensors; those of a product are computed on access."""


@dataclass(frozen=True)
class ElementFunction:
    """A function with tensors as arguments: the components of the state first, if it has one, then the element's.

    Args:
        count: Components of the state, 0 for a function without state.
        tick: Called before each element that runs alone; may raise.
    """

    fn: Fn
    count: int
    sizes: Sizes
    dtype: torch.dtype | None
    tick: Callable[[], None]

    def __call__(self, *tensors: Tensor) -> Data:
        """The result for one element.

        Raises:
            TaskCodeError: The function fails, or returns something other than it declares.
        """
        element = (tensors[: self.count], tensors[self.count :]) if self.count else (tensors,)
        return invocation.apply(self.fn, element, self.sizes, self.dtype)

    def results(self, data: Data) -> Iterator[Data]:
        """The result for each element of `(batch, *layout)`, in order."""
        for index in range(data[0].shape[0]):
            self.tick()
            # Clones, as a function may write into what other streams share.
            yield self(*(part[index].clone() for part in data))

    def states(self, initial: Data, data: Data) -> Iterator[Data]:
        """Every state of folds over `(folds, steps, *layout)` from one initial state, fold after fold."""
        for fold in range(data[0].shape[0]):
            state = initial
            for step in range(data[0].shape[1]):
                self.tick()
                state = self(*(part.clone() for part in state), *(part[fold, step].clone() for part in data))
                yield state


class Mode(ABC):
    """A mode of running a function on batches."""

    initial: Data | None = None
    """The initial state of a function with state, if it is known to be always the same."""

    def __init__(self, one: ElementFunction) -> None:
        self.one = one

    def usable(self, tried: bool) -> bool:
        """Whether it may be used; `tried` says whether it was tried on batches about as large."""
        return tried

    @abstractmethod
    def map(self, data: StreamData, outer: Shape) -> StreamData:
        """On each element of `(*outer, *layout)`, none of which is 0; the result has the same form."""

    @abstractmethod
    def fold(self, initial: Data, data: Data, *, scan: bool) -> Data:
        """Over the steps of `(folds, steps, *layout)`, neither of which is 0.

        The result is the last state, `(folds, *layout)`, or for a scan every state, `(folds, steps, *layout)`.
        """


class Sequential(Mode):
    """Element by element, in stream order."""

    def usable(self, tried: bool) -> bool:
        """Always."""
        return True

    def map(self, data: StreamData, outer: Shape) -> StreamData:
        """See `Mode`."""
        return mapped(self.one.results(flat(data, outer)), outer)

    def fold(self, initial: Data, data: Data, *, scan: bool) -> Data:
        """See `Mode`."""
        folds, steps = data[0].shape[:2]
        return folded(self.one.states(initial, data), folds, steps, scan=scan)


def mapped(results: Iterable[Data], outer: Shape) -> Data:
    """The results of single elements as a batch."""
    return tuple(torch.stack(column).reshape(*outer, *column[0].shape) for column in zip(*results, strict=True))


def folded(states: Iterable[Data], folds: int, steps: int, *, scan: bool) -> Data:
    """Every state of all folds as the result of `Mode.fold`."""
    kept = [state for number, state in enumerate(states, 1) if scan or number % steps == 0]
    columns = [torch.stack(column) for column in zip(*kept, strict=True)]
    return tuple(part.reshape(folds, steps, *part.shape[1:]) if scan else part for part in columns)


def flat(data: StreamData, outer: Shape) -> Data:
    """`(*outer, *layout)` as `(batch, *layout)`."""
    return tuple(part.reshape(prod(outer), *part.shape[len(outer) :]) for part in data)


class Vmapped(Mode):
    """All elements of a batch at once, the function's code under vmap."""

    def _run(self, *data: Tensor) -> Data:
        with warnings.catch_warnings():
            # vmap warns of operators that it runs one by one.
            warnings.simplefilter("ignore")
            return tuple(torch.func.vmap(self.one)(*(part.clone() for part in data)))

    def map(self, data: StreamData, outer: Shape) -> StreamData:
        """See `Mode`."""
        return tuple(part.reshape(*outer, *part.shape[1:]) for part in self._run(*flat(data, outer)))

    def fold(self, initial: Data, data: Data, *, scan: bool) -> Data:
        """See `Mode`."""
        folds, steps = data[0].shape[:2]
        state = tuple(part.expand(folds, *part.shape) for part in initial)
        states = []
        for step in range(steps):
            self.one.tick()
            state = self._run(*state, *(part[:, step] for part in data))
            states.append(state)
        return tuple(torch.stack(column, 1) for column in zip(*states, strict=True)) if scan else state


class Traced(Mode):
    """All elements of a batch at once, by a tape of the function's operators.

    Raises:
        Untraceable: The function cannot be traced. Its own exceptions pass through.
    """

    def __init__(self, one: ElementFunction, captures: Captures, example: Data) -> None:
        super().__init__(one)
        self._captures = captures
        self._example = example
        self._tape = trace(one, example, captures)
        self._tapes: dict[int, Tape | None] = {1: self._tape}
        self._layout = self._tape.layouts[self._tape.outputs[0]]
        self._fold = Fold(self._tape, one.count) if one.count else None

    def usable(self, tried: bool) -> bool:
        """As for any mode, and nothing that the function can reach may have changed, except the values of tensors."""
        return tried and self._captures.unchanged() and self._tape.weights() is not None

    def map(self, data: StreamData, outer: Shape) -> StreamData:
        """See `Mode`; the result may be a `Product`, not computed yet."""
        batch = prod(outer)
        # Copying a small batch is faster than finding out how to avoid it.
        large = batch * self._layout.numel() >= _LARGE
        if self._tape.elementwise and not (large and self._tape.nodes):
            return self._tape.replay(batch, *data, *(self._tape.weights() or ()))
        groups = self._groups(data, outer) if large else (batch,)
        tape = self._over(len(groups))
        if tape is None:
            groups, tape = (batch,), self._tape
        if len(groups) == len(outer):
            parts: Sequence[Tensor] = data
        else:
            parts = [part.reshape(*groups, *part.shape[len(outer) :]) for part in data]
        if large and tape.factors is not None:
            factors = tape.factors(*groups, *parts, *(tape.weights() or ()))
            left, right = (factor.reshape(*outer, *factor.shape[len(groups) :]) for factor in factors)
            if not is_rounded(left.dtype) and left.dtype == right.dtype:
                product = Product(left, right, torch.Size((*outer, *self._layout)))
                return product if product.worthwhile else (product.formed,)
        results = tape.replay(*groups, *parts, *(tape.weights() or ()))
        if len(groups) == len(outer):
            return results
        return tuple([part.reshape(*outer, *part.shape[len(groups) :]) for part in results])

    def fold(self, initial: Data, data: Data, *, scan: bool) -> Data:
        """See `Mode`."""
        if self._fold is None:
            raise TypeError(f"{self.one.fn.label} carries no state")
        weights = self._tape.weights() or []
        state = [part.expand(data[0].shape[0], *part.shape) for part in initial]
        return tuple(self._fold.run(state, data, weights, scan=scan, tick=self.one.tick))

    @property
    def sums(self) -> bool:
        """Whether its folds only sum their input, which has one component."""
        return self._fold is not None and self._fold.sums

    def _over(self, dims: int) -> Tape | None:
        """The tape over this many batch dims; None if none gives the same as the tape over one dim."""
        if dims not in self._tapes:
            self._tapes[dims] = None
            with suppress(Exception):
                tape = trace(self.one, self._example, self._captures, dims)
                sizes = tuple(range(2, 2 + dims))
                # A separate generator, as functions may use the run's.
                random = torch.Generator().manual_seed(0)
                data = [torch.rand(*sizes, *p.shape, dtype=p.dtype, generator=random) for p in self._example]
                weights = self._tape.weights() or []
                found = tape.replay(*sizes, *data, *(tape.weights() or []))
                expected = self._tape.replay(prod(sizes), *flat(tuple(data), sizes), *weights)
                if all(map(close, flat(found, sizes), expected)):
                    self._tapes[dims] = tape
        return self._tapes[dims]

    def _groups(self, data: StreamData, outer: Shape) -> Shape:
        """The batch dims to run over: one, unless that would copy what a stream repeats."""
        if not self._tape.pointwise or all(part.is_contiguous() for part in data):
            return (prod(outer),)
        groups = [1]
        repeats = None
        for dim, size in enumerate(outer):
            if size > 1:
                now = [part.stride(dim) == 0 for part in data]
                if repeats is None or now == repeats:
                    groups[-1] *= size
                else:
                    groups.append(size)
                repeats = now
        return groups if len(groups) <= MAX_BATCH_DIMS else (prod(outer),)


def close(found: Tensor, expected: Tensor) -> bool:
    """Whether two modes agree on a result; NaN equals NaN. Numbers that are rounded must be the same."""
    if is_rounded(expected.dtype):
        return same_numbers(found, expected)
    return found.shape == expected.shape and torch.allclose(found, expected, equal_nan=True)
