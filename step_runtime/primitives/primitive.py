"""The base of all primitives: a frozen configuration, a rule on types and shapes, an execution, and facts about it."""

from __future__ import annotations

import functools
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import sympy
import torch

from step_runtime.base.errors import RuleError
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import INNERMOST_FIRST, Dim, Sizes, format_shape, is_reversed, is_routed
from step_runtime.base.sized import Condition, Number, is_size
from step_runtime.base.stream import Stream, consume
from step_runtime.base.types import Buffer, DType, Element, StreamType, components_of, without_format
from step_runtime.base.units import Measure
from step_runtime.execution.applier import Applier, StreamData
from step_runtime.primitives.token_times import Pace, Schedule, Tokens

Kind: TypeAlias = Literal["compute", "copy", "route", "shape"]
"""A primitive's purpose: to apply functions, to copy a stream, to route by an index, or to reshape."""


class Operand(NamedTuple):
    """A stream's type together with its tensors, each of torch shape `reversed(shape) + layout`."""

    type: StreamType
    data: StreamData


@dataclass
class Rules:
    """The inputs of a type rule: the sizes, fresh names for data-dependent dims, and functions for hints.

    `conditions` collects what rules require of the sizes, where that is asked for.
    """

    sizes: Mapping[str, int] = field(default_factory=dict)
    counter: Iterator[int] = field(default_factory=itertools.count)
    fns: Sequence[Fn] = ()
    conditions: list[Condition] | None = None

    def require(self, dim: Dim, test: Callable[[Number], bool] = is_size) -> None:
        """Notes that a dim has to be a size wherever the types hold, or to meet another test."""
        if self.conditions is None or (test is is_size and _always_size(dim)):
            return
        if dim.free_symbols and not any(map(is_routed, dim.free_symbols)):
            self.conditions.append(Condition(dim, test))

    def conversions(self, wanted: DType, held: DType) -> str:
        """For hints: the functions that convert one type to another."""
        return " or ".join(fn.label for fn in self.fns if (fn.input, fn.output, fn.stateful) == (held, wanted, False))


def _always_size(dim: Dim) -> bool:
    """Whether a dim is a size whatever those of its symbols are: a sum of products of them."""
    if isinstance(dim, sympy.Add | sympy.Mul):
        return all(map(_always_size, dim.args))
    if isinstance(dim, sympy.Pow):
        return bool(dim.exp.is_Integer and dim.exp > 0) and _always_size(dim.base)
    return isinstance(dim, sympy.Symbol) or bool(dim.is_Integer and dim > 0)


@dataclass
class Frame:
    """One run: the sizes, to which routed dims are added as they become known, and how functions run."""

    sizes: dict[str, int]
    applier: Applier


@dataclass(frozen=True)
class Primitive(ABC):
    """Base of all primitives. `apply` runs eagerly; `infer` and `run` are its two halves.

    All other facts that the packages need are attributes of the primitive; the defaults here suit most primitives.

    Attributes:
        kind: Its purpose.
        arity: The streams that it takes, as one stream or a tuple of two.
        zips: Whether a tuple of several streams is accepted in place of one stream, and zipped.
        argument: The argument of `apply` as hints write it.
        lists_results: Whether its results are one list of streams of any length, not one name per stream.
        reshapes: Whether it makes a program shape-manipulating (paper, Table 2).
        transparent: Whether every result equals the input, so that it computes nothing.
        view: Whether its results are its inputs' own numbers, so that they need no memory.
        may_fail: Whether data may break a rule although types and shapes are right.
    """

    kind: ClassVar[Kind] = "shape"
    arity: ClassVar[int] = 1
    zips: ClassVar[bool] = False
    argument: ClassVar[str] = "E0"
    lists_results: ClassVar[bool] = False
    reshapes: ClassVar[bool] = False
    transparent: ClassVar[bool] = False
    view: ClassVar[bool] = False
    may_fail: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """The primitive's name in the language."""
        return type(self).__name__

    @classmethod
    def config_names(cls) -> tuple[str, ...]:
        """The configuration's keywords, in order."""
        return _field_names(cls)

    def operands(self, argument: Any, is_stream: Callable[[Any], bool]) -> tuple[Any, ...]:
        """The streams in the argument of `apply`, in the primitive's order.

        Raises:
            RuleError: The argument has another form than the primitive takes.
        """
        if self.arity == 1 and is_stream(argument):
            return (argument,)
        if isinstance(argument, list | tuple) and all(map(is_stream, argument)):
            if len(argument) == self.arity == 2 or (self.zips and len(argument) > 1):
                return tuple(argument)
            raise self.bad_argument(len(argument))
        raise self.bad_argument(0)

    def bad_argument(self, streams: int) -> RuleError:
        """The error for an argument of another form than the primitive takes: a sequence of this many streams."""
        takes = "one stream" if self.arity == 1 else "a tuple of two streams"
        hint = "zip streams into one first: step.Zip().apply((E0, E1))" if self.arity == 1 else None
        return RuleError("apply-argument", f"{self.name} takes {takes}", hint=hint)

    def print_argument(self, names: Sequence[str]) -> str:
        """The argument of `apply` in a program's text, for streams of these names in the primitive's order."""
        return names[0] if len(names) == 1 else f"({', '.join(names)})"

    def output_count(self, sizes: Sizes) -> int | None:
        """The number of streams in its result list; None for a single stream."""
        return None

    def dim_bounds(self, inputs: Sequence[StreamType], outputs: Sequence[StreamType], bounds: Sizes) -> Sizes:
        """The upper bound of each dim that depends on this primitive's data, by name, given those of the other dims."""
        return {}

    def functions(self) -> tuple[Fn, ...]:
        """The functions in its configuration."""
        return tuple(value for value in (getattr(self, name) for name in self.config_names()) if isinstance(value, Fn))

    @abstractmethod
    def infer(self, inputs: Sequence[StreamType], rules: Rules) -> tuple[StreamType, ...]:
        """The types of the results.

        Raises:
            RuleError: A precondition does not hold.
        """

    def memory(self, inputs: Sequence[StreamType], outputs: Sequence[StreamType], measure: Measure) -> int:
        """The bits that it holds on chip; none by default."""
        return 0

    def moved(self, inputs: Sequence[StreamType], outputs: Sequence[StreamType], measure: Measure) -> int:
        """The bits that are written and read in all if its storage is off chip."""
        return 0

    def calls(self, inputs: Sequence[StreamType], outputs: Sequence[StreamType], measure: Measure) -> int:
        """How often its function runs; 0 for a primitive without one."""
        return 0

    def schedule(self, tokens: Sequence[Tokens], inputs: Sequence[StreamType], pace: Pace) -> Schedule:
        """When the tokens of the results are emitted, for the times at which those of the operands come.

        Raises:
            RuleError: The primitive has no rule on time.
        """
        raise RuleError("cost", f"{self.name} has no rule on time")

    @abstractmethod
    def run(self, inputs: Sequence[Operand], outputs: Sequence[StreamType], frame: Frame) -> tuple[StreamData, ...]:
        """The tensors of the results, for inputs whose types passed `infer`.

        Raises:
            RunError: The data breaks a rule.
            TaskCodeError: A function fails, or returns something other than it declares.
        """

    def apply(self, argument: Any, name: str = "") -> Any:
        """Runs the primitive on streams: types and shapes always, data where every input has some.

        Returns:
            One stream, or a list of streams where `output_count` is a number.

        Raises:
            RuleError: A precondition does not hold.
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
            frame = Frame(sizes, Applier(_computing_type(operands)))
            for result, tensors in zip(results, self.run(operands, [r.type for r in results], frame), strict=True):
                result.data = list(tensors)
        for result in results:
            result.ctx = {sympy.Symbol(key): size for key, size in sizes.items()}
        return results[0] if self.output_count(sizes) is None else results


_EAGER_DIMS = itertools.count()


def _computing_type(operands: Sequence[Operand]) -> torch.dtype:
    """The type of the first fp32 numbers among some operands; torch's default where there are none."""
    for operand in operands:
        for element, part in zip(components_of(operand.type.dtype), operand.data, strict=True):
            if element.format.wide:
                return part.dtype
    return torch.get_default_dtype()


def whole(value: Any, who: str, key: str) -> int:
    """`value` as an int of a configuration.

    Raises:
        RuleError: It is not an int.
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
        RuleError: It is not a list of ints.
    """
    if not isinstance(value, list | tuple):
        hint = f"write L=[{value}]" if isinstance(value, int | sympy.Integer) else None
        raise RuleError("config", f"{who}: L must be a list of dim indices, found {_shown(value)}", hint=hint)
    return tuple(whole(item, who, "L") for item in value)


def function(value: Any, who: str, *, stateful: bool) -> Fn:
    """`value` as a function of the kind the primitive takes.

    Raises:
        RuleError: It is not a function, has state where it must not, or has none where it must.
    """
    if not isinstance(value, Fn):
        raise RuleError("config", f"{who}: fn must be one of the task's functions, found {_shown(value)}")
    if value.stateful != stateful:
        kind, other = ("with", "Map") if stateful else ("without", "Accum, Scan or Merge")
        raise RuleError(
            "fn-state",
            f"{who} takes a function {kind} an initial state",
            [repr(value)],
            hint=f"{value.label} belongs in {other}",
        )
    return value


@functools.cache
def _field_names(cls: type[Primitive]) -> tuple[str, ...]:
    return tuple(f.name for f in fields(cls))


def check_input(fn: Fn, found: StreamType, who: str, rules: Rules) -> None:
    """Checks that a function's declared input is the stream's element type.

    Raises:
        RuleError: They differ.
    """
    if fn.input != found.dtype:
        raise RuleError(
            "fn-input",
            f"{who}: the function's input type differs from the stream's element type",
            [f"{fn.label} takes {fn.input}; the stream holds {found.dtype}"],
            hint=_input_hint(fn, found, rules),
        )


def format_hint(wanted: DType, held: DType, rules: Rules) -> str | None:
    """The conversion between types that differ only in number formats; None for other types."""
    if wanted == held or without_format(wanted) != without_format(held):
        return None
    pairs = zip(components_of(wanted), components_of(held), strict=True)
    differing = dict.fromkeys((want, has) for want, has in pairs if want != has)
    texts = []
    for want, has in differing:
        by = rules.conversions(want, has)
        how = f"Map(fn={by}) converts" if by else "Map a function that converts"
        texts.append(f"{how} {has} to {want}")
    return f"the number formats differ, and nothing is converted by itself: {'; '.join(texts)}"


def _input_hint(fn: Fn, found: StreamType, rules: Rules) -> str:
    hint = format_hint(fn.input, found.dtype, rules)
    if hint is not None:
        return hint
    wanted, held = components_of(fn.input), components_of(found.dtype)
    if len(wanted) == len(held):
        differing = [(want, has) for want, has in zip(wanted, held, strict=True) if want != has]
        if all(_reversed_buffers(want, has) for want, has in differing):
            return INNERMOST_FIRST
        gathered = {_gathered(want, has, found) for want, has in differing}
        if len(gathered) == 1 and (hint := gathered.pop()):
            return hint if len(held) == 1 else f"before the streams are zipped, {hint}"
    if len(wanted) > 1:
        return f"zip the streams in the order of {fn.input}"
    if isinstance(found.dtype, Buffer) and not isinstance(fn.input, Buffer):
        return "Streamify() turns a Buffer's dims into stream dims"
    if isinstance(fn.input, Buffer) and len(held) == 1:
        return "Bufferize(a=k) turns the k innermost stream dims into a Buffer"
    return "use a stream that holds this type, or another function"


def _reversed_buffers(want: Element, has: Element) -> bool:
    if not (isinstance(want, Buffer) and isinstance(has, Buffer)):
        return False
    return want.elem == has.elem and is_reversed(want.dims, has.dims)


def _gathered(want: Element, has: Element, found: StreamType) -> str | None:
    """How Bufferize makes the wanted Buffer of a stream that holds its elements; None where it cannot."""
    elem, own = (has.elem, has.dims) if isinstance(has, Buffer) else (has, ())
    if not isinstance(want, Buffer) or want.elem != elem or want.dims[: len(own)] != own:
        return None
    dims = want.dims[len(own) :]
    inner = found.shape[: len(dims)]
    if dims and is_reversed(inner, dims):
        return f"{INNERMOST_FIRST}: Bufferize(a={len(dims)}) gives Buffer({elem}, {format_shape((*own, *inner))})"
    if not dims or inner != dims:
        return None
    taken = "innermost stream dim" if len(dims) == 1 else f"{len(dims)} innermost stream dims"
    bufferize = f"Bufferize(a={len(dims)}) makes {want} of the {taken}"
    return bufferize if len(dims) <= found.rank else f"Promote(b={found.rank + 1}) and then {bufferize}"


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, Fn | sympy.Expr | int | str) else f"a {type(value).__name__}"
