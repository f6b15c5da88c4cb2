"""Primitives that route by an index of multihots: Partition and Merge (paper, Appendix A.1)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from operator import eq
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch

from step_runtime.base.errors import RuleError, RunError, quantity
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import (
    INNERMOST_FIRST,
    Dim,
    Sizes,
    as_dim,
    check_positive,
    evaluate,
    format_dim,
    is_reversed,
    routed_dim,
    try_evaluate,
    upper_bound,
)
from step_runtime.base.types import Multihot, StreamType
from step_runtime.base.units import Measure
from step_runtime.execution.applier import StreamData
from step_runtime.primitives.primitive import Frame, Kind, Operand, Primitive, Rules, check_input, function
from step_runtime.primitives.token_times import (
    Bits,
    Ints,
    Pace,
    Schedule,
    Tokens,
    held,
    latest,
    served,
    spelled,
)

__all__ = ["Merge", "Partition"]


@dataclass(frozen=True)
class Partition(Primitive):
    """Routes slices of a stream to `N` streams: to each one whose bit of the index element is 1."""

    N: Dim
    kind: ClassVar[Kind] = "route"
    arity: ClassVar[int] = 2
    argument: ClassVar[str] = "(E0, E1)"
    lists_results: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Checks that `N` is a dim."""
        object.__setattr__(self, "N", as_dim(self.N))

    def output_count(self, sizes: Sizes) -> int | None:
        """`N` at the sizes given.

        Raises:
            RuleError: `N` has no size, or is less than 1.
        """
        check_positive(self.N, "Partition: N", sizes)
        count = try_evaluate(self.N, sizes)
        if count is None:
            raise RuleError("dim-value", f"Partition: N = {format_dim(self.N)} has no size")
        return count

    def infer(self, inputs: Sequence[StreamType], rules: Rules) -> tuple[StreamType, ...]:
        """`N` streams, each with the slice's dims and a fresh outermost dim that depends on the data."""
        data, index = inputs
        count = self.output_count(rules.sizes) or 0
        _check_index(index, count, "Partition: N", rules)
        inner = data.rank - index.rank
        if inner < 0 or data.shape[inner:] != index.shape:
            raise RuleError(
                "partition-shape",
                "Partition needs the index's shape to equal the outer dims of the data's shape",
                hint=INNERMOST_FIRST
                if is_reversed(data.shape[max(inner, 0) :], index.shape)
                else "the order is (data, index); Bufferize the data's inner dims until the outer ones fit",
            )
        return tuple(
            StreamType(data.dtype, (*data.shape[:inner], routed_dim(next(rules.counter)))) for _ in range(count)
        )

    def dim_bounds(self, inputs: Sequence[StreamType], outputs: Sequence[StreamType], bounds: Sizes) -> Sizes:
        """A routed dim is at most the number of the index's elements."""
        most = prod(upper_bound(dim, bounds) for dim in inputs[1].shape)
        return {output.shape[-1].name: most for output in outputs}

    def schedule(self, tokens: Sequence[Tokens], inputs: Sequence[StreamType], pace: Pace) -> Schedule:
        """Each slice as soon as it and its index element are there; the streams end with the data."""
        data, index = tokens
        rank = inputs[0].rank - inputs[1].rank
        times, index_taken = held(index, data, data.levels >= rank)
        piece: Ints = np.cumsum(data.levels >= rank) - (data.levels >= rank)
        marks = index.levels == 0
        count = evaluate(self.N, pace.sizes)
        chosen = np.ones((int(marks.sum()), count), np.bool_) if pace.chosen is None else pace.chosen
        bits = np.zeros((len(marks), count), np.bool_)
        bits[marks] = chosen
        outputs = []
        for stream in range(count):
            mine = bits[piece, stream]
            mine[-1] = True
            levels = data.levels[mine]
            levels[-1] = rank + 1
            outputs.append(Tokens(levels, times[mine]))
        return Schedule(tuple(outputs), (times[data.levels == 0], index_taken))

    def run(self, inputs: Sequence[Operand], outputs: Sequence[StreamType], frame: Frame) -> tuple[StreamData, ...]:
        """For each stream the chosen slices in stream order; their number becomes its fresh dim's size."""
        outer = len(inputs[1].type.shape)
        bits = _bits(inputs[1])
        counts = bits.sum(0).tolist()
        # Sorted by stream, and by place for each.
        chosen = torch.split(bits.t().nonzero()[:, 1], counts)
        slices = tuple(part.flatten(0, outer - 1) for part in inputs[0].data)
        for output, count in zip(outputs, counts, strict=True):
            frame.sizes[output.shape[-1].name] = count
        return tuple(tuple(part.index_select(0, places) for part in slices) for places in chosen)


@dataclass(frozen=True)
class Merge(Primitive):
    """Gathers routed streams: for each index element, folds the next slice of every stream whose bit is 1."""

    fn: Fn
    kind: ClassVar[Kind] = "route"
    arity: ClassVar[int] = 2
    argument: ClassVar[str] = "([E0, E1], E2)"
    may_fail: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Checks that `fn` is a function with state."""
        function(self.fn, "Merge", stateful=True)

    def operands(self, argument: Any, is_stream: Callable[[Any], bool]) -> tuple[Any, ...]:
        """The streams of the list, then the index."""
        if isinstance(argument, list | tuple) and len(argument) == 2:
            streams, index = argument
            if isinstance(streams, list | tuple) and streams and all(map(is_stream, [*streams, index])):
                return (*streams, index)
        raise self.bad_argument(0)

    def bad_argument(self, streams: int) -> RuleError:
        """The error for an argument of another form."""
        return RuleError("apply-argument", f"Merge takes a list of streams and an index stream: {self.argument}")

    def print_argument(self, names: Sequence[str]) -> str:
        """The list of streams, then the index."""
        return f"([{', '.join(names[:-1])}], {names[-1]})"

    def infer(self, inputs: Sequence[StreamType], rules: Rules) -> tuple[StreamType, ...]:
        """`fn`'s output, at the slices' dims inside the index's."""
        *streams, index = inputs
        _check_index(index, len(streams), "Merge: the number of streams", rules)
        first = streams[0]
        for number, other in enumerate(streams[1:], 1):
            if (other.dtype, other.shape[:-1]) != (first.dtype, first.shape[:-1]):
                raise RuleError(
                    "merge-streams",
                    "Merge needs streams of one element type and the same dims but for the outermost",
                    [f"stream {number} of the list differs from stream 0"],
                    hint="map every routed stream by a function of the same output type",
                )
        check_input(self.fn, first, "Merge", rules)
        return (StreamType(self.fn.output, first.shape[:-1] + index.shape),)

    def memory(self, inputs: Sequence[StreamType], outputs: Sequence[StreamType], measure: Measure) -> int:
        """The state."""
        return measure.bits(outputs[0].dtype)

    def moved(self, inputs: Sequence[StreamType], outputs: Sequence[StreamType], measure: Measure) -> int:
        """The state is read and written at every element that it folds."""
        return 2 * self.calls(inputs, outputs, measure) * measure.bits(outputs[0].dtype)

    def calls(self, inputs: Sequence[StreamType], outputs: Sequence[StreamType], measure: Measure) -> int:
        """Once per element of every stream."""
        return sum(measure.elements(stream) for stream in inputs[:-1])

    def schedule(self, tokens: Sequence[Tokens], inputs: Sequence[StreamType], pace: Pace) -> Schedule:
        """Folds the slices in the order of the index, and emits with the last slice of each index element.

        An initial state, for an index element that chooses no stream, is emitted like a repeated value.
        """
        *streams, index = tokens
        rank = inputs[0].rank
        blank = spelled(tuple(evaluate(dim, pace.sizes) for dim in reversed(inputs[0].shape[:-1])))
        held_slices = [(len(stream.times) - 1) // len(blank) for stream in streams]
        marks = index.levels == 0
        work = _work(_chosen(pace.chosen, int(marks.sum()), held_slices), held_slices)
        ready = np.broadcast_to(index.times[marks][work.element][:, None], (len(work.element), len(blank)))
        slices = np.concatenate([stream.times[:-1].reshape(-1, len(blank)) for stream in streams])
        folds = work.row >= 0
        ready = np.where(folds[:, None], np.maximum(ready, slices[work.row] if len(slices) else 0), ready)
        costs = (blank == 0) * np.where(folds, pace.cycles, pace.step)[:, None]
        done = served(ready.ravel(), costs.ravel()).reshape(ready.shape)

        counts = np.where(marks, len(blank), 1)
        value = np.repeat(marks, counts)
        levels, times = np.repeat(index.levels + rank, counts), np.repeat(index.times, counts)
        levels[value] = np.tile(blank, int(marks.sum()))
        times[value] = done[work.last].ravel()
        times[-1] = max(times[-1], *(stream.end for stream in streams))
        taken = [done[np.flatnonzero(work.stream == stream)][:, blank == 0].ravel() for stream in range(len(streams))]
        index_taken = np.append(done[:1, 0], done[np.flatnonzero(work.last)[:-1] + 1, 0]) if len(done) else done.ravel()
        return Schedule((Tokens(levels, latest(times)),), (*taken, index_taken))

    def run(self, inputs: Sequence[Operand], outputs: Sequence[StreamType], frame: Frame) -> tuple[StreamData, ...]:
        """For each index element the fold of its slices; elements with equally many slices fold as one batch."""
        *streams, index = inputs
        bits = _bits(index)
        counts = bits.sum(0).tolist()
        for number, (stream, count) in enumerate(zip(streams, counts, strict=True)):
            _check_count(number, count, stream.data[0].shape[0])
        inner = streams[0].data[0].shape[1 : len(streams[0].type.shape)]
        rows = _order(bits, counts)
        columns = zip(*(stream.data for stream in streams), strict=True)
        slices = tuple(torch.cat(column).index_select(0, rows) for column in columns)
        state = self._folded_by_count(slices, bits.sum(1), inner, frame)
        outer = index.data[0].shape[:-1]
        return (tuple(part.reshape(*outer, *inner, *part.shape[1 + len(inner) :]) for part in state),)

    def _folded_by_count(
        self, slices: StreamData, taken: torch.Tensor, inner: tuple[int, ...], frame: Frame
    ) -> StreamData:
        """Folds `slices`, which are in the order of index elements; `taken` has the number of slices of each."""
        most = int(taken.max()) if len(taken) else 0
        if most * len(taken) == len(slices[0]):
            return self._folded(slices, most, len(taken), inner, frame)
        owners = taken.repeat_interleave(taken)
        merged: list[torch.Tensor] = []
        for count in sorted(set(taken.tolist())):
            places = (taken == count).nonzero().flatten()
            states = self._folded(tuple(part[owners == count] for part in slices), count, len(places), inner, frame)
            merged = merged or [part.new_empty(len(taken), *part.shape[1:]) for part in states]
            for part, state in zip(merged, states, strict=True):
                part[places] = state
        return tuple(merged)

    def _folded(
        self, slices: StreamData, count: int, elements: int, inner: tuple[int, ...], frame: Frame
    ) -> StreamData:
        """`count` slices of shape `inner` for each of `elements` index elements, folded across the slices."""
        dims = len(inner) + 2
        data = tuple(part.reshape(elements, count, *part.shape[1:]).movedim(1, dims - 1) for part in slices)
        return frame.applier.fold(self.fn, data, dims, 1, frame.sizes, scan=False)


class _Work(NamedTuple):
    """The slices that a Merge folds, in order, and a row for each index element that chooses none.

    Attributes:
        element: The index element.
        stream: The stream; -1 for none.
        row: The slice's number in all streams one after another; -1 for none.
        last: Whether it is the last of its index element.
    """

    element: Ints
    stream: Ints
    row: Ints
    last: Bits


def _work(chosen: Bits, held_slices: Sequence[int]) -> _Work:
    starts = np.cumsum([0, *held_slices[:-1]])
    rows = np.column_stack([np.cumsum(chosen, 0) - 1 + starts, np.full(len(chosen), -1)])
    element, stream = np.nonzero(np.column_stack([chosen, ~chosen.any(1)]))
    last = np.append(element[1:] != element[:-1], True)[: len(element)]
    row = rows[element, stream]
    return _Work(element, np.where(row < 0, -1, stream), row, last)


def _chosen(known: Bits | None, elements: int, held_slices: Sequence[int]) -> Bits:
    return np.arange(elements)[:, None] < np.array(held_slices) if known is None else known


def _order(bits: torch.Tensor, counts: list[int]) -> torch.Tensor:
    """For each bit that is set, element by element, the place of its slice in the concatenation of all streams."""
    starts = [start - 1 for start in itertools.accumulate(counts[:-1], initial=0)]
    return (bits.cumsum(0) + torch.tensor(starts))[bits]


def _check_count(number: int, chosen: int, held: int) -> None:
    for wrong, problem in ((held < chosen, "runs short"), (held > chosen, "has slices left at the end")):
        if wrong:
            raise RunError(
                "merge-count",
                f"Merge: stream {number} {problem}",
                [f"the index chooses it {quantity(chosen, 'time')}; it holds {quantity(held, 'slice')}"],
                hint="Merge with the index that its streams were partitioned by",
            )


def _check_index(index: StreamType, count: int, who: str, rules: Rules) -> None:
    if not isinstance(index.dtype, Multihot):
        raise RuleError(
            "index-dtype",
            f"{who}: the index must be a stream of Multihots",
            hint="the index comes last; a function of the task may make Multihots of it",
        )
    length = try_evaluate(index.dtype.length, rules.sizes)
    rules.require(index.dtype.length, partial(eq, count))
    if length is not None and length != count:
        raise RuleError(
            "index-length",
            f"{who} must equal the length of the index's Multihot",
            [f"{quantity(count, 'stream')}; {index.dtype} has {quantity(length, 'bit')}"],
            hint=f"there is one stream to each bit: {length}",
        )


def _bits(index: Operand) -> torch.Tensor:
    """The index as `(elements, streams)` booleans, in stream order."""
    bits = index.data[0]
    return bits.flatten(0, -2) != 0
