"""Primitives that compute: Map, Zip, Accum, Scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from step_runtime.base.errors import RuleError
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import INNERMOST_FIRST, is_reversed
from step_runtime.base.types import StreamType, STuple
from step_runtime.base.units import Measure
from step_runtime.execution.applier import StreamData
from step_runtime.primitives.primitive import Frame, Kind, Operand, Primitive, Rules, check_input, function, whole
from step_runtime.primitives.token_times import Pace, Schedule, Tokens, called, joined, kept_above

__all__ = ["Accum", "Map", "Scan", "Zip"]


def zip_types(left: StreamType, right: StreamType) -> StreamType:
    """The type of two streams paired element by element; tuples are flat.

    Raises:
        RuleError: The shapes differ.
    """
    if left.shape != right.shape:
        hint = "Zip pairs elements one to one; make both shapes equal first"
        if left.shape[1:] == right.shape or right.shape[1:] == left.shape:
            hint += ", e.g. with step.RepeatRef().apply((smaller, larger))"
        if is_reversed(left.shape, right.shape):
            hint = INNERMOST_FIRST
        raise RuleError("zip-shape", "the two streams differ in shape", hint=hint)
    return StreamType(STuple((left.dtype, right.dtype)), left.shape)


@dataclass(frozen=True)
class Zip(Primitive):
    """Pairs two streams of one shape element by element (left components first)."""

    arity: ClassVar[int] = 2
    argument: ClassVar[str] = "(E0, E1)"
    view: ClassVar[bool] = True

    def bad_argument(self, streams: int) -> RuleError:
        """For too many streams, the hint shows how to nest the calls."""
        error = super().bad_argument(streams)
        if streams > 2:
            error.hint = "zip two at a time: step.Zip().apply((step.Zip().apply((E0, E1)), E2))"
        return error

    def infer(self, inputs: Sequence[StreamType], rules: Rules) -> tuple[StreamType, ...]:
        """The flat tuple of both element types, at the shape of both."""
        return (zip_types(*inputs),)

    def schedule(self, tokens: Sequence[Tokens], inputs: Sequence[StreamType], pace: Pace) -> Schedule:
        """Each pair as soon as both are there."""
        pairs = joined(tokens)
        return Schedule((pairs,), (pairs.values, pairs.values))

    def run(self, inputs: Sequence[Operand], outputs: Sequence[StreamType], frame: Frame) -> tuple[StreamData, ...]:
        """The components of both, in order."""
        return ((*inputs[0].data, *inputs[1].data),)


@dataclass(frozen=True)
class Map(Primitive):
    """Applies `fn` to each element; a tuple of streams is zipped first, left to right."""

    fn: Fn
    kind: ClassVar[Kind] = "compute"
    zips: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Checks that `fn` is a function without state."""
        function(self.fn, "Map", stateful=False)

    def infer(self, inputs: Sequence[StreamType], rules: Rules) -> tuple[StreamType, ...]:
        """`fn`'s output type, at the same shape."""
        zipped = inputs[0]
        for other in inputs[1:]:
            zipped = zip_types(zipped, other)
        check_input(self.fn, zipped, "Map", rules)
        return (StreamType(self.fn.output, zipped.shape),)

    def calls(self, inputs: Sequence[StreamType], outputs: Sequence[StreamType], measure: Measure) -> int:
        """Once per element."""
        return measure.elements(outputs[0])

    def schedule(self, tokens: Sequence[Tokens], inputs: Sequence[StreamType], pace: Pace) -> Schedule:
        """Each element when `fn` is done with it: one call at a time."""
        zipped = joined(tokens)
        taken = (zipped.values,) * len(tokens) if len(tokens) > 1 else ()
        return Schedule((Tokens(zipped.levels, called(zipped, pace.cycles)),), taken)

    def run(self, inputs: Sequence[Operand], outputs: Sequence[StreamType], frame: Frame) -> tuple[StreamData, ...]:
        """`fn` over all elements as one batch."""
        data = [operand.data for operand in inputs]
        parts = data[0] if len(data) == 1 else tuple(part for zipped in data for part in zipped)
        return (frame.applier.map(self.fn, parts, len(inputs[0].type.shape), frame.sizes),)


@dataclass(frozen=True)
class _Fold(Primitive):
    """The base of Accum and Scan: `fn` folds the `b` inner dims from its initial state, innermost fastest."""

    fn: Fn
    b: int
    kind: ClassVar[Kind] = "compute"

    def __post_init__(self) -> None:
        """Checks that `fn` is a function with state and `b` an int."""
        function(self.fn, self.name, stateful=True)
        object.__setattr__(self, "b", whole(self.b, self.name, "b"))

    def _check(self, stream: StreamType, rules: Rules) -> None:
        if not 0 < self.b <= stream.rank:
            hint = "b counts the inner dims to fold, and the outermost dim stays"
            if self.b == stream.rank + 1:
                hint = f"to fold all dims, Promote(b={self.b}) first: it adds an outermost 1, which stays"
            raise RuleError(
                f"{self.name.lower()}-rank",
                f"{self.name} needs 0 < b <= rank",
                [f"b = {self.b}; the stream {stream} has rank {stream.rank}"],
                hint,
            )
        check_input(self.fn, stream, self.name, rules)

    def memory(self, inputs: Sequence[StreamType], outputs: Sequence[StreamType], measure: Measure) -> int:
        """The state."""
        return measure.bits(outputs[0].dtype)

    def moved(self, inputs: Sequence[StreamType], outputs: Sequence[StreamType], measure: Measure) -> int:
        """The state is read and written at every element."""
        return 2 * measure.elements(inputs[0]) * measure.bits(outputs[0].dtype)

    def calls(self, inputs: Sequence[StreamType], outputs: Sequence[StreamType], measure: Measure) -> int:
        """Once per element."""
        return measure.elements(inputs[0])

    def _folded(self, inputs: Sequence[Operand], frame: Frame, *, scan: bool) -> tuple[StreamData, ...]:
        dims = len(inputs[0].type.shape)
        return (frame.applier.fold(self.fn, inputs[0].data, dims, self.b, frame.sizes, scan=scan),)


@dataclass(frozen=True)
class Accum(_Fold):
    """Folds the `b` inner dims to one result per outer element (paper, Figures 14 and 21)."""

    def infer(self, inputs: Sequence[StreamType], rules: Rules) -> tuple[StreamType, ...]:
        """`fn`'s output type, without the `b` inner dims."""
        self._check(inputs[0], rules)
        return (StreamType(self.fn.output, inputs[0].shape[self.b :]),)

    def schedule(self, tokens: Sequence[Tokens], inputs: Sequence[StreamType], pace: Pace) -> Schedule:
        """The last state when a block ends."""
        return Schedule((kept_above(tokens[0].levels, called(tokens[0], pace.cycles), self.b),))

    def run(self, inputs: Sequence[Operand], outputs: Sequence[StreamType], frame: Frame) -> tuple[StreamData, ...]:
        """The last state of every fold."""
        return self._folded(inputs, frame, scan=False)


@dataclass(frozen=True)
class Scan(_Fold):
    """As Accum, but emits the state after every element, so the shape stays."""

    def infer(self, inputs: Sequence[StreamType], rules: Rules) -> tuple[StreamType, ...]:
        """`fn`'s output type, at the same shape."""
        self._check(inputs[0], rules)
        return (StreamType(self.fn.output, inputs[0].shape),)

    def schedule(self, tokens: Sequence[Tokens], inputs: Sequence[StreamType], pace: Pace) -> Schedule:
        """Each state when `fn` is done with its element."""
        return Schedule((Tokens(tokens[0].levels, called(tokens[0], pace.cycles)),))

    def run(self, inputs: Sequence[Operand], outputs: Sequence[StreamType], frame: Frame) -> tuple[StreamData, ...]:
        """Every state of every fold."""
        return self._folded(inputs, frame, scan=True)
