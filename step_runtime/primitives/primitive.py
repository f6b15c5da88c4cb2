"""What every primitive is: a frozen configuration, a rule on types and shapes, and an execution on torch."""

from __future__ import annotations

import functools
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple

import sympy

from step_runtime.base.errors import RuleError
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Dim, Sizes, routed_dim
from step_runtime.base.stream import Stream, consume
from step_runtime.base.types import StreamType
from step_runtime.execution.applier import Applier, StreamData


class Operand(NamedTuple):
    """A stream's type together with its tensors, each of torch shape `reversed(shape) + layout`."""

    type: StreamType
    data: StreamData


@dataclass
class Rules:
    """What a rule may look up: the sizes, and fresh names for dims that only the data decides."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    counter: Iterator[int] = field(default_factory=itertools.count)

    def fresh_dim(self) -> Dim:
        """A routed dim that equals no other."""
        return routed_dim(next(self.counter))


@dataclass
class Frame:
    """One run: the sizes, to which routed dims are added as they become known, and how functions run."""

    sizes: dict[str, int]
    applier: Applier


@dataclass(frozen=True)
class Primitive(ABC):
    """Base of all primitives. `apply` runs eagerly; `infer` and `run` are its two halves."""

    arity: ClassVar[int] = 1

    @property
    def name(self) -> str:
        """The primitive's name in the language."""
        return type(self).__name__

    @classmethod
    def config_names(cls) -> tuple[str, ...]:
        """The configuration's keywords, in order."""
        return _field_names(cls)

    def operands(self, argument: Any, is_stream: Callable[[Any], bool]) -> tuple[Any, ...]:
        """The streams in what `apply` was given, in the primitive's order.

        Raises:
            RuleError: the argument has another form than the primitive takes.
        """
        if self.arity == 1 and is_stream(argument):
            return (argument,)
        if self.arity == 2 and _is_sequence(argument, 2) and all(map(is_stream, argument)):
            return tuple(argument)
        raise self.bad_argument()

    def bad_argument(self) -> RuleError:
        """The error for an argument of another form than the primitive takes."""
        takes = "one stream" if self.arity == 1 else "a tuple of two streams"
        hint = "zip streams into one first: step.Zip().apply((E0, E1))" if self.arity == 1 else None
        return RuleError("apply-argument", f"{self.name} takes {takes}", hint=hint)

    def output_count(self, sizes: Sizes) -> int | None:
        """How many streams it gives: None for a single one, a number for a list of streams."""
        return None

    def functions(self) -> tuple[Fn, ...]:
        """The functions in its configuration."""
        return tuple(value for value in (getattr(self, name) for name in self.config_names()) if isinstance(value, Fn))

    @abstractmethod
    def infer(self, inputs: Sequence[StreamType], rules: Rules) -> tuple[StreamType, ...]:
        """The types of the results.

        Raises:
            RuleError: a precondition does not hold.
        """

    @abstractmethod
    def run(self, inputs: Sequence[Operand], outputs: Sequence[StreamType], frame: Frame) -> tuple[StreamData, ...]:
        """The tensors of the results, for inputs whose types passed `infer`.

        Raises:
            RunError: the data breaks a rule.
            TaskCodeError: a function failed, or returned something other than it declares.
        """

    def apply(self, argument: Any, name: str = "") -> Any:
        """Runs the primitive on streams: types and shapes always, data where every input has some.

        Returns one stream, or a list of streams for `Copy` and `Partition`.

        Raises:
            RuleError: a precondition does not hold.
        """
        streams: tuple[Stream, ...] = self.operands(argument, lambda value: isinstance(value, Stream))
        consume(streams)
        sizes = {symbol.name: size for stream in streams for symbol, size in stream.ctx.items()}
        types = [stream.type for stream in streams]
        try:
            inferred = self.infer(types, Rules(sizes, _EAGER_DIMS))
        except RuleError as error:
            raise error.about((stream.name, stream.type) for stream in streams) from None
        results = [Stream(name or f"the {self.name}'s", result.dtype, result.rank, result.shape) for result in inferred]
        data = [stream.data for stream in streams if stream.data is not None]
        if len(data) == len(streams):
            operands = [Operand(t, tuple(d)) for t, d in zip(types, data, strict=True)]
            frame = Frame(sizes, Applier(operands[0].data[0].dtype))
            for result, tensors in zip(results, self.run(operands, [r.type for r in results], frame), strict=True):
                result.data = list(tensors)
        for result in results:
            result.ctx = {sympy.Symbol(key): size for key, size in sizes.items()}
        return results[0] if self.output_count(sizes) is None else results


_EAGER_DIMS = itertools.count()


def _is_sequence(value: Any, length: int) -> bool:
    return isinstance(value, list | tuple) and len(value) == length


def whole(value: Any, who: str, key: str) -> int:
    """`value` as a whole number of a configuration.

    Raises:
        RuleError: it is not one.
    """
    if isinstance(value, sympy.Integer):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    hint = f"{key} counts stream dims, e.g. {key}=1"
    raise RuleError("config", f"{who}: {key} must be an int, found {_shown(value)}", hint=hint)


def dim_list(value: Any, who: str) -> tuple[int, ...]:
    """`value` as a list of dim indices.

    Raises:
        RuleError: it is no list of ints.
    """
    if not isinstance(value, list | tuple):
        hint = f"write L=[{value}]" if isinstance(value, int | sympy.Integer) else None
        raise RuleError("config", f"{who}: L must be a list of dim indices, found {_shown(value)}", hint=hint)
    return tuple(whole(item, who, "L") for item in value)


def function(value: Any, who: str, *, stateful: bool) -> Fn:
    """`value` as a function of the kind the primitive takes.

    Raises:
        RuleError: it is no function, or carries state where it must not, or the other way round.
    """
    if not isinstance(value, Fn):
        raise RuleError("config", f"{who}: fn must be one of the task's functions, found {_shown(value)}")
    if value.stateful != stateful:
        kind, other = ("with", "Map") if stateful else ("without", "Accum, Scan or Merge")
        raise RuleError(
            "fn-state",
            f"{who} takes a function {kind} an initial state",
            [repr(value)],
            hint=f"{value.label} belongs into {other}",
        )
    return value


@functools.cache
def _field_names(cls: type[Primitive]) -> tuple[str, ...]:
    return tuple(f.name for f in fields(cls))


def check_input(fn: Fn, found: Any, who: str) -> None:
    """Holds a function's declared input to the stream's element type.

    Raises:
        RuleError: they differ.
    """
    if fn.input != found:
        raise RuleError(
            "fn-input",
            f"{who}: the function's input type differs from the stream's element type",
            [f"{fn.label} takes {fn.input}; the stream holds {found}"],
            hint=_input_hint(fn, found),
        )


def _input_hint(fn: Fn, found: Any) -> str:
    wants, has = str(fn.input), str(found)
    if wants.startswith("["):
        return f"zip the streams in the order of {wants}"
    if has.startswith("Buffer") and not wants.startswith("Buffer"):
        return "Streamify() turns a Buffer's dims into stream dims"
    if wants.startswith("Buffer") and not has.startswith("["):
        return "Bufferize(a=k) turns the k innermost stream dims into a Buffer"
    return "use a stream that holds this type, or another function"


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, Fn | sympy.Expr | int | str) else f"a {type(value).__name__}"
