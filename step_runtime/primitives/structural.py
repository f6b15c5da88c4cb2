"""Primitives that only reshape: Promote, Flatten, Reshape, Repeat, RepeatRef, Bufferize, Streamify, Copy, Identity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import sympy

from step_runtime.base.errors import RuleError, RunError
from step_runtime.base.shapes import (
    INNERMOST_FIRST,
    Dim,
    Sizes,
    as_dim,
    check_positive,
    evaluate,
    format_dim,
    is_reversed,
    try_evaluate,
)
from step_runtime.base.types import Buffer, StreamType, STuple
from step_runtime.base.units import Measure
from step_runtime.execution.applier import StreamData
from step_runtime.primitives.primitive import Frame, Kind, Operand, Primitive, Rules, dim_list, whole
from step_runtime.primitives.token_times import (
    Pace,
    Schedule,
    Tokens,
    expanded,
    held,
    inserted,
    kept_above,
    spaced,
    spelled,
)

__all__ = [
    "Bufferize",
    "Copy",
    "Flatten",
    "Identity",
    "Promote",
    "Repeat",
    "RepeatLast",
    "RepeatRef",
    "Reshape",
    "Streamify",
]


@dataclass(frozen=True)
class Promote(Primitive):
    """Inserts a dim of 1 at index `b`, where `0 <= b <= rank + 1`."""

    b: int
    view: ClassVar[bool] = True
    reshapes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Checks that `b` is an int."""
        object.__setattr__(self, "b", whole(self.b, self.name, "b"))

    def infer(self, inputs: Sequence[StreamType], rules: Rules) -> tuple[StreamType, ...]:
        """The same type with a 1 at index `b`."""
        stream = inputs[0]
        if not 0 <= self.b <= stream.rank + 1:
            raise RuleError(
                "promote-rank",
                "Promote needs 0 <= b <= rank + 1",
                [f"b = {self.b}; the stream {stream} has rank {stream.rank}"],
                hint=f"b is the index of the new 1, counted from the innermost dim: 0 to {stream.rank + 1}",
            )
        shape = (*stream.shape[: self.b], sympy.Integer(1), *stream.shape[self.b :])
        return (StreamType(stream.dtype, shape),)

    def schedule(self, tokens: Sequence[Tokens], inputs: Sequence[StreamType], pace: Pace) -> Schedule:
        """The same tokens, and a stop after every item of the dim below; it takes no time."""
        levels, times = tokens[0]
        raised = Tokens(levels + (levels > self.b), times)
        return Schedule((inserted(raised, levels == self.b, self.b + 1),))

    def run(self, inputs: Sequence[Operand], outputs: Sequence[StreamType], frame: Frame) -> tuple[StreamData, ...]:
        """A view."""
        axis = len(inputs[0].type.shape) - self.b
        return (tuple(part.unsqueeze(axis) for part in inputs[0].data),)


@dataclass(frozen=True)
class Flatten(Primitive):
    """Merges each dim in `L` (consecutive indices within `1..rank`) into its inner neighbour."""

    L: tuple[int, ...]
    view: ClassVar[bool] = True
    reshapes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Checks that `L` is a list of consecutive ints."""
        dims = dim_list(self.L, self.name)
        object.__setattr__(self, "L", dims)
        if not dims or dims != tuple(range(dims[0], dims[0] + len(dims))):
            raise RuleError("config", f"Flatten: L must be consecutive dim indices such as [1, 2], found {list(dims)}")

    def infer(self, inputs: Sequence[StreamType], rules: Rules) -> tuple[StreamType, ...]:
        """The same type; dims `min(L) - 1` to `max(L)` become their product at index `min(L) - 1`."""
        stream = inputs[0]
        first, last = self.L[0], self.L[-1]
        if first < 1 or last > stream.rank:
            raise RuleError(
                "flatten-rank",
                "Flatten takes dim indices from 1 to the rank",
                [f"L = {list(self.L)}; the stream {stream} has rank {stream.rank}"],
                hint="dim i is merged into dim i - 1; dim 0 is the innermost",
            )
        merged: Dim = sympy.Integer(1)
        for dim in stream.shape[first - 1 : last + 1]:
            merged = as_dim(merged * dim)
        return (StreamType(stream.dtype, (*stream.shape[: first - 1], merged, *stream.shape[last + 1 :])),)

    def schedule(self, tokens: Sequence[Tokens], inputs: Sequence[StreamType], pace: Pace) -> Schedule:
        """The same tokens without the stops of the dims merged; it takes no time."""
        levels, times = tokens[0]
        first, last = self.L[0], self.L[-1]
        left = (levels < first) | (levels > last)
        kept = levels[left]
        return Schedule((Tokens(kept - (kept > last) * len(self.L), times[left]),))

    def run(self, inputs: Sequence[Operand], outputs: Sequence[StreamType], frame: Frame) -> tuple[StreamData, ...]:
        """A reshape; row-major order is stream order."""
        rank = inputs[0].type.rank
        start, end = rank - self.L[-1], rank - self.L[0] + 1
        return (tuple(part.flatten(start, end) for part in inputs[0].data),)


@dataclass(frozen=True)
class Reshape(Primitive):
    """Splits each dim in `L` (indices of the input) into `[S, dim/S]`; `S` must divide it."""

    L: tuple[int, ...]
    S: Dim
    view: ClassVar[bool] = True
    may_fail: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Checks that `L` is a list of distinct ints and `S` a dim."""
        dims = dim_list(self.L, self.name)
        object.__setattr__(self, "L", dims)
        object.__setattr__(self, "S", as_dim(self.S))
        if not dims or len(set(dims)) != len(dims):
            raise RuleError("config", f"Reshape: L must be distinct dim indices, found {list(dims)}")

    def infer(self, inputs: Sequence[StreamType], rules: Rules) -> tuple[StreamType, ...]:
        """The same type; the rank grows by `len(L)`."""
        stream = inputs[0]
        if min(self.L) < 0 or max(self.L) > stream.rank:
            raise RuleError(
                "reshape-rank",
                "Reshape takes dim indices from 0 to the rank",
                [f"L = {list(self.L)}; the stream {stream} has rank {stream.rank}"],
                hint="dim 0 is the innermost",
            )
        check_positive(self.S, "Reshape: S", rules.sizes)
        rules.require(self.S)
        shape: list[Dim] = []
        for index, dim in enumerate(stream.shape):
            shape += [self.S, self._quotient(dim, rules)] if index in self.L else [dim]
        return (StreamType(stream.dtype, tuple(shape)),)

    def _quotient(self, dim: Dim, rules: Rules) -> Dim:
        size, parts = try_evaluate(dim, rules.sizes), try_evaluate(self.S, rules.sizes)
        if size is not None and parts is not None and size % parts:
            raise RuleError(
                "reshape-divides",
                "Reshape needs S to divide the dim at every set of sizes",
                [f"S: {format_dim(self.S)} = {parts}; dim: {format_dim(dim)} = {size}"],
                hint="split by a factor that the dim has at every set of sizes",
            )
        rules.require(quotient := as_dim(dim / self.S))
        return quotient

    def schedule(self, tokens: Sequence[Tokens], inputs: Sequence[StreamType], pace: Pace) -> Schedule:
        """The same tokens, and a stop after every `S` items of each dim split; it takes no time."""
        split, parts = tokens[0], evaluate(self.S, pace.sizes)
        # From the outermost on, so that the indices of those left stay as they are.
        for index in sorted(self.L, reverse=True):
            items = split.levels == index
            raised = Tokens(split.levels + (split.levels > index), split.times)
            split = inserted(raised, items & (np.cumsum(items) % parts == 0), index + 1)
        return Schedule((split,))

    def run(self, inputs: Sequence[Operand], outputs: Sequence[StreamType], frame: Frame) -> tuple[StreamData, ...]:
        """A reshape; for a dim that depends on the data, the rule is checked here."""
        stream, data = inputs[0]
        parts = evaluate(self.S, frame.sizes)
        shape: list[int] = []
        for axis, size in enumerate(data[0].shape[: stream.rank + 1]):
            split = stream.rank - axis in self.L
            if split and size % parts:
                raise RunError("reshape-divides", f"Reshape: S = {parts} does not divide the dim, which has {size}")
            shape += [size // parts, parts] if split else [size]
        return (tuple(part.reshape(*shape, *part.shape[stream.rank + 1 :]) for part in data),)


class _Repeating(Primitive):
    """The base of Repeat and RepeatRef: each element is emitted several times."""

    view: ClassVar[bool] = True
    reshapes: ClassVar[bool] = True

    def memory(self, inputs: Sequence[StreamType], outputs: Sequence[StreamType], measure: Measure) -> int:
        """The element that it repeats."""
        return measure.bits(inputs[0].dtype)

    def moved(self, inputs: Sequence[StreamType], outputs: Sequence[StreamType], measure: Measure) -> int:
        """Each element is written once, and read as often as it is emitted."""
        return (measure.elements(inputs[0]) + measure.elements(outputs[0])) * measure.bits(inputs[0].dtype)


@dataclass(frozen=True)
class Repeat(_Repeating):
    """Emits each element `n` times: a new innermost dim. `RepeatLast` is another name for it."""

    n: Dim

    def __post_init__(self) -> None:
        """Checks that `n` is a dim."""
        object.__setattr__(self, "n", as_dim(self.n))

    def infer(self, inputs: Sequence[StreamType], rules: Rules) -> tuple[StreamType, ...]:
        """The same type, with `n` as the new innermost dim."""
        check_positive(self.n, "Repeat: n", rules.sizes)
        rules.require(self.n)
        return (StreamType(inputs[0].dtype, (self.n, *inputs[0].shape)),)

    def schedule(self, tokens: Sequence[Tokens], inputs: Sequence[StreamType], pace: Pace) -> Schedule:
        """Each element `n` times, one value a cycle."""
        item = spelled((evaluate(self.n, pace.sizes),))
        return Schedule((expanded(tokens[0], item, 1, pace.step),))

    def run(self, inputs: Sequence[Operand], outputs: Sequence[StreamType], frame: Frame) -> tuple[StreamData, ...]:
        """A view."""
        return (_repeated(inputs[0], evaluate(self.n, frame.sizes)),)


RepeatLast = Repeat


def _repeated(operand: Operand, times: int) -> StreamData:
    axis = len(operand.type.shape)
    return tuple(part.unsqueeze(axis).expand(*part.shape[:axis], times, *part.shape[axis:]) for part in operand.data)


@dataclass(frozen=True)
class RepeatRef(_Repeating):
    """Emits each element of the first stream as often as the second's innermost dim says; consumes both."""

    arity: ClassVar[int] = 2
    argument: ClassVar[str] = "(E0, E1)"

    def infer(self, inputs: Sequence[StreamType], rules: Rules) -> tuple[StreamType, ...]:
        """The data's type at the reference's shape."""
        data, reference = inputs
        if reference.shape[1:] != data.shape:
            raise RuleError(
                "repeatref-shape",
                "RepeatRef needs the reference's shape without its innermost dim to equal the data's shape",
                hint=INNERMOST_FIRST
                if is_reversed(reference.shape[1:], data.shape)
                else "the order is (data, reference): the reference has one more inner dim than the data",
            )
        return (StreamType(data.dtype, reference.shape),)

    def schedule(self, tokens: Sequence[Tokens], inputs: Sequence[StreamType], pace: Pace) -> Schedule:
        """An element with each of the reference's, one value a cycle; it is taken at the first of them."""
        data, reference = tokens
        ready, taken = held(data, reference, reference.levels > 0)
        emitted = Tokens(reference.levels, spaced(ready, reference.levels, pace.step))
        return Schedule((emitted,), (taken, emitted.values))

    def run(self, inputs: Sequence[Operand], outputs: Sequence[StreamType], frame: Frame) -> tuple[StreamData, ...]:
        """A view."""
        reference = inputs[1]
        return (_repeated(inputs[0], reference.data[0].shape[reference.type.rank]),)


@dataclass(frozen=True)
class Bufferize(Primitive):
    """Gathers the `a` inner dims of each outer element into one Buffer; `0 < a <= rank`."""

    a: int
    view: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Checks that `a` is an int."""
        object.__setattr__(self, "a", whole(self.a, self.name, "a"))

    def infer(self, inputs: Sequence[StreamType], rules: Rules) -> tuple[StreamType, ...]:
        """A Buffer of the `a` inner dims; of a Buffer, one with those dims added outside."""
        stream = inputs[0]
        if not 0 < self.a <= stream.rank:
            raise RuleError(
                "bufferize-rank",
                "Bufferize needs 0 < a <= rank",
                [f"a = {self.a}; the stream {stream} has rank {stream.rank}"],
                hint=f"the outermost dim stays; Promote(b={stream.rank + 1}) first adds an outermost 1 that may",
            )
        if isinstance(stream.dtype, STuple):
            hint = "Bufferize the components before they are zipped, or Map a function that takes one out"
            details = [f"the stream holds {stream.dtype}"]
            raise RuleError("bufferize-tuple", "Bufferize takes no tuples", details, hint)
        return (StreamType(Buffer(stream.dtype, stream.shape[: self.a]), stream.shape[self.a :]),)

    def memory(self, inputs: Sequence[StreamType], outputs: Sequence[StreamType], measure: Measure) -> int:
        """An element, and the buffer twice, as one is filled while the other is read (STeP, Section 4.2)."""
        return measure.bits(inputs[0].dtype) + 2 * measure.bits(outputs[0].dtype)

    def moved(self, inputs: Sequence[StreamType], outputs: Sequence[StreamType], measure: Measure) -> int:
        """Every element is written once, and read once as part of its buffer."""
        return 2 * measure.elements(inputs[0]) * measure.bits(inputs[0].dtype)

    def schedule(self, tokens: Sequence[Tokens], inputs: Sequence[StreamType], pace: Pace) -> Schedule:
        """A buffer when its block ends."""
        return Schedule((kept_above(*tokens[0], self.a),))

    def run(self, inputs: Sequence[Operand], outputs: Sequence[StreamType], frame: Frame) -> tuple[StreamData, ...]:
        """The same tensor: a buffer's layout continues its stream's dims."""
        return (inputs[0].data,)


@dataclass(frozen=True)
class Streamify(Primitive):
    """Turns a Buffer's dims into stream dims: the inverse of Bufferize."""

    view: ClassVar[bool] = True

    def infer(self, inputs: Sequence[StreamType], rules: Rules) -> tuple[StreamType, ...]:
        """The Buffer's element, with the buffer's dims as the inner dims."""
        stream = inputs[0]
        if not isinstance(stream.dtype, Buffer):
            raise RuleError(
                "streamify-dtype",
                "Streamify takes a stream of Buffers",
                [f"the stream holds {stream.dtype}"],
                hint="its elements are in the stream already; leave Streamify out",
            )
        return (StreamType(stream.dtype.elem, stream.dtype.dims + stream.shape),)

    def schedule(self, tokens: Sequence[Tokens], inputs: Sequence[StreamType], pace: Pace) -> Schedule:
        """The elements of each buffer, so many values a cycle as there are lanes."""
        dtype = inputs[0].dtype
        dims = dtype.dims if isinstance(dtype, Buffer) else ()
        # A routed dim may be empty, which `evaluate` allows.
        item = spelled(tuple(evaluate(dim, pace.sizes) for dim in reversed(dims)))
        return Schedule((expanded(tokens[0], item, len(dims), pace.step, pace.lanes),))

    def run(self, inputs: Sequence[Operand], outputs: Sequence[StreamType], frame: Frame) -> tuple[StreamData, ...]:
        """The same tensor."""
        return (inputs[0].data,)


class _Passing(Primitive):
    """The base of Copy and Identity: every result is the stream itself."""

    view: ClassVar[bool] = True
    transparent: ClassVar[bool] = True
    results: ClassVar[int] = 1

    def infer(self, inputs: Sequence[StreamType], rules: Rules) -> tuple[StreamType, ...]:
        """The same type."""
        return (inputs[0],) * self.results

    def schedule(self, tokens: Sequence[Tokens], inputs: Sequence[StreamType], pace: Pace) -> Schedule:
        """The same tokens."""
        return Schedule((tokens[0],) * self.results)

    def run(self, inputs: Sequence[Operand], outputs: Sequence[StreamType], frame: Frame) -> tuple[StreamData, ...]:
        """The same tensors, which no primitive writes into."""
        return (inputs[0].data,) * self.results


@dataclass(frozen=True)
class Copy(_Passing):
    """Two streams from one, as every stream may be consumed only once."""

    kind: ClassVar[Kind] = "copy"
    results: ClassVar[int] = 2

    def output_count(self, sizes: Sizes) -> int | None:
        """Two."""
        return self.results


@dataclass(frozen=True)
class Identity(_Passing):
    """The same stream."""
