"""Primitives that route by an index of multihots: Partition and Merge (paper, Appendix A.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import torch

from step_runtime.batching import Data
from step_runtime.errors import RuleError, RunError
from step_runtime.functions import Fn
from step_runtime.primitives.base import Frame, Operand, Primitive, Rules, check_input, function
from step_runtime.shapes import Dim, Sizes, StreamType, as_dim, check_positive, format_dim, try_evaluate
from step_runtime.types import Multihot


@dataclass(frozen=True)
class Partition(Primitive):
    """Routes slices of a stream to `N` streams: to each one whose bit of the index element is 1."""

    N: Dim
    arity: ClassVar[int] = 2

    def __post_init__(self) -> None:
        """Holds `N` to a dim."""
        object.__setattr__(self, "N", as_dim(self.N))

    def output_count(self, sizes: Sizes) -> int | None:
        """`N` at the sizes given.

        Raises:
            RuleError: `N` has no size, or is less than 1.
        """
        check_positive(self.N, sizes, "Partition: N")
        count = try_evaluate(self.N, sizes)
        if count is None:
            raise RuleError("dim-value", f"Partition: N = {format_dim(self.N)} has no size")
        return count

    def infer(self, inputs: Sequence[StreamType], rules: Rules) -> tuple[StreamType, ...]:
        """`N` streams, each with the slice's dims and one dim of its own that only the data decides."""
        data, index = inputs
        count = self.output_count(rules.sizes) or 0
        _check_index(index, count, "Partition: N", rules.sizes)
        inner = data.rank - index.rank
        if inner < 0 or data.shape[inner:] != index.shape:
            raise RuleError(
                "partition-shape",
                "Partition needs the index's shape to equal the outer dims of the data's shape",
                hint="the order is (data, index); Bufferize the data's inner dims until the outer ones fit",
            )
        return tuple(StreamType(data.dtype, (*data.shape[:inner], rules.fresh_dim())) for _ in range(count))

    def run(self, inputs: Sequence[Operand], outputs: Sequence[StreamType], frame: Frame) -> tuple[Data, ...]:
        """For each stream the chosen slices in stream order; their number becomes its fresh dim's size."""
        outer = len(inputs[1].type.shape)
        bits = _bits(inputs[1])
        slices = tuple(part.reshape(bits.shape[0], *part.shape[outer:]) for part in inputs[0].data)
        for number, output in enumerate(outputs):
            frame.sizes[str(output.shape[-1])] = int(bits[:, number].sum())
        return tuple(tuple(part[bits[:, number]] for part in slices) for number in range(len(outputs)))


@dataclass(frozen=True)
class Merge(Primitive):
    """Gathers routed streams: for each index element, folds the next slice of every stream whose bit is 1."""

    fn: Fn
    arity: ClassVar[int] = 2

    def __post_init__(self) -> None:
        """Holds `fn` to a function with state."""
        function(self.fn, "Merge", stateful=True)

    def operands(self, argument: Any, is_stream: Callable[[Any], bool]) -> tuple[Any, ...]:
        """The streams of the list, then the index."""
        if isinstance(argument, list | tuple) and len(argument) == 2:
            streams, index = argument
            if isinstance(streams, list | tuple) and streams and all(map(is_stream, [*streams, index])):
                return (*streams, index)
        raise self.bad_argument()

    def bad_argument(self) -> RuleError:
        """The error for an argument of another form."""
        return RuleError("apply-argument", "Merge takes a list of streams and an index stream: ([E0, E1], E2)")

    def infer(self, inputs: Sequence[StreamType], rules: Rules) -> tuple[StreamType, ...]:
        """`fn`'s output, at the slices' dims inside the index's."""
        *streams, index = inputs
        _check_index(index, len(streams), "Merge: the number of streams", rules.sizes)
        first = streams[0]
        for number, other in enumerate(streams[1:], 1):
            if (other.dtype, other.shape[:-1]) != (first.dtype, first.shape[:-1]):
                raise RuleError(
                    "merge-streams",
                    "Merge needs streams of one element type and the same dims but for the outermost",
                    [f"stream {number} of the list differs from stream 0"],
                    hint="map every routed stream by a function of the same output type",
                )
        check_input(self.fn, first.dtype, "Merge")
        return (StreamType(self.fn.output, first.shape[:-1] + index.shape),)

    def run(self, inputs: Sequence[Operand], outputs: Sequence[StreamType], frame: Frame) -> tuple[Data, ...]:
        """Stream by stream in ascending order, each folded into all index elements that chose it."""
        *streams, index = inputs
        bits = _bits(index)
        inner_dims = len(streams[0].type.shape) - 1
        inner = tuple(streams[0].data[0].shape[1 : 1 + inner_dims])
        count, width = bits.shape[0], prod(inner)
        state = [
            part.reshape(count, width, *part.shape[1:]).clone()
            for part in frame.applier.initial(self.fn, count * width, frame.sizes)
        ]
        for number, stream in enumerate(streams):
            chosen = bits[:, number]
            slices = int(chosen.sum())
            _check_count(number, slices, stream.data[0].shape[0])
            flat = tuple(part.reshape(slices * width, *part.shape[1 + inner_dims :]) for part in stream.data)
            old = tuple(part[chosen].flatten(0, 1) for part in state)
            new = frame.applier.step(self.fn, old, flat, frame.sizes)
            for part, update in zip(state, new, strict=True):
                part[chosen] = update.reshape(slices, width, *update.shape[1:])
        outer = index.data[0].shape[:-1]
        return (tuple(part.reshape(*outer, *inner, *part.shape[2:]) for part in state),)


def _check_count(number: int, chosen: int, held: int) -> None:
    if held != chosen:
        raise RunError(
            "merge-count",
            f"Merge: stream {number} {'runs short' if held < chosen else 'has slices left at the end'}",
            [f"the index chooses it {chosen} times; it holds {held} slices"],
            hint="Merge with the index that its streams were partitioned by",
        )


def _check_index(index: StreamType, count: int, who: str, sizes: Sizes) -> None:
    if not isinstance(index.dtype, Multihot):
        raise RuleError(
            "index-dtype",
            f"{who}: the index must be a stream of Multihots",
            hint="the index comes last; a function of the task may make Multihots of it",
        )
    length = try_evaluate(index.dtype.length, sizes)
    if length is not None and length != count:
        raise RuleError(
            "index-length",
            f"{who} must equal the length of the index's Multihot",
            [f"{count} streams; {index.dtype} has {length} bits"],
            hint=f"there is one stream to each bit: {length}",
        )


def _bits(index: Operand) -> torch.Tensor:
    """The index as `(elements, streams)` booleans, in stream order."""
    bits = index.data[0]
    return bits.flatten(0, -2) != 0
