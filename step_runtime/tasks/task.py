"""The structural IR: a task as its author writes it (paper, Section 4.4, Figures 15 and 18).

A task names an operator's inputs, the functions that the hardware offers, and its outputs as PyTorch code.
YAML goes in through `reader` and comes out of `dump_task`; `loads_task(dump_task(task)) == task`. None of a task's code
is run here; `verification.loading` does that.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Self, TypeAlias

import sympy
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    StrictInt,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from step_runtime.base.errors import RuleError, describe_value, quantity, shortened
from step_runtime.base.formats import SCALARS, Format
from step_runtime.base.shapes import DEFAULT_SIZES, LARGEST_DIM, SYMBOLS, Dim
from step_runtime.base.syntax import BUILTINS
from step_runtime.base.types import DType, Multihot, StreamType, components_of, layout, parse_dim, parse_dtype
from step_runtime.base.units import Figure
from step_runtime.tasks import yaml_format
from step_runtime.tasks.generators import EXPECTED, TRUTH, WHOLE, Assumption, expression, family
from step_runtime.tasks.snippets import NARROW, compile_block, compile_function, compile_value
from step_runtime.tasks.yaml_format import Location

_NUMERAL = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")

Problem: TypeAlias = tuple[Location, str]
"""A place, and what is wrong there."""

_TAKEN = {"step": "the language", "torch": "PyTorch"}
_TAKEN_IN_CODE = dict.fromkeys(BUILTINS, "a builtin of the language") | {
    "input_data": "the inputs in a snippet",
    "ctx": "the sizes in a snippet",
    "Symbol": "sympy's in a snippet",
}
"""Names that are reserved where a program or a snippet uses the names of functions and dims."""


# --- what the values of a file are checked for, if `reader` gives the symbols that dims may use as context ------------


def _checked(check: Callable[[Any, Mapping[str, Dim]], object]) -> AfterValidator:
    """Refuses a value of a file that a check fails for; a task that no file holds is not checked."""

    def validated(value: Any, info: ValidationInfo) -> Any:
        if info.context is not None:
            try:
                check(value, info.context)
            except (ValueError, RuleError, RecursionError) as error:
                raise refused([((), shortened(str(error)))]) from None
        return value

    return AfterValidator(validated)


def refused(problems: Sequence[Problem]) -> PydanticCustomError:
    """The error of a value with these problems at places within it."""
    return PydanticCustomError("refused", "refused", {"problems": problems})


def _name(text: str, _: object) -> None:
    if not text.isidentifier() or keyword.iskeyword(text):
        raise ValueError(f"expected a Python name, found {text!r}")


def _symbol(text: str, _: object) -> None:
    if not text.isidentifier() or keyword.iskeyword(text):
        raise ValueError("expected a symbol's name")


def _size(value: int | list[int], _: object) -> None:
    many = value if isinstance(value, list) else [value]
    if not many or not all(1 <= size <= LARGEST_DIM for size in many):
        raise ValueError(f"expected sizes of 1 or more, and less than 2**63, found {describe_value(value)}")


def _zipped(sizes: Mapping[str, int | list[int]], _: object) -> None:
    lengths = {name: len(value) for name, value in sizes.items() if isinstance(value, list)}
    if len({*lengths.values()}) > 1:
        raise ValueError(f"lists must be of one length, as they are zipped; found {lengths}")
    if 1 in lengths.values():
        raise ValueError("a list gives one size per set, two or more; write a single number for all sets")


def _filled(dims: list[Any], _: object) -> None:
    if not dims:
        raise ValueError("expected at least one dim")


def _code(compiled: Callable[[str], object]) -> AfterValidator:
    """Python that compiles."""

    def check(source: str, _: object) -> None:
        try:
            compiled(source)
        except (SyntaxError, ValueError, RecursionError) as error:
            line = f" in its line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
            raise ValueError(f"expected Python code: {error.args[0] if error.args else error}{line}") from None

    return _checked(check)


def parse_limit(source: str | int, symbols: Mapping[str, Dim]) -> Dim:
    """Reads a limit: a whole number, such as 0 or 1e6, or what a dim may be, such as `4*D + 64`.

    Raises:
        ValueError: The text is neither, or names a symbol that `symbols` lacks.
    """
    number = float(source) if isinstance(source, str) and _NUMERAL.fullmatch(source) else 0.5  # such as 1e6
    if number == 0 or (number >= 1 and number.is_integer()):
        return sympy.Integer(int(number))
    return sympy.Integer(0) if source == 0 else parse_dim(source, symbols)


_DTYPE = (
    f"A format ({', '.join(SCALARS)}), Buffer(format, [dims]), Multihot(format, length), a Buffer of Multihots, or a"
    " list of these for a tuple; dims are innermost first."
)
DTypeText: TypeAlias = Annotated[str | list[str], _checked(parse_dtype), WithJsonSchema({
    "anyOf": [{"type": "string"}, {"items": {"type": "string"}, "type": "array"}], "description": _DTYPE,
})]  # fmt: skip
DimText: TypeAlias = str | StrictInt
_Dims: TypeAlias = Annotated[list[Annotated[DimText, _checked(parse_dim)]], _checked(_filled)]
LimitText: TypeAlias = Annotated[DimText, _checked(parse_limit)]
GlobalText: TypeAlias = Annotated[str, _code(lambda code: compile_block(code, "global", widen=NARROW))]
SizesText: TypeAlias = Annotated[
    dict[Annotated[str, _checked(_symbol)], Annotated[StrictInt | list[StrictInt], _checked(_size)]], _checked(_zipped)
]
_Name: TypeAlias = Annotated[str, _checked(_name)]


def _number(value: Any) -> float:
    """An initial value; YAML has no plain `-inf`, and YAML 1.1 no plain `1e30`, so these are text."""
    numeral = isinstance(value, str) and _NUMERAL.fullmatch(value) is not None
    known = numeral or value in ("-inf", "inf") or (isinstance(value, int | float) and not isinstance(value, bool))
    if not known or value != value:
        raise ValueError("expected a number, -inf or inf")
    if isinstance(value, int) and abs(value) < 2**63:
        return value
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number) and (numeral or isinstance(value, int)):
        raise ValueError("expected a number that a float holds, -inf or inf")
    return number


InitValue: TypeAlias = Annotated[
    int | float,
    BeforeValidator(_number),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"enum": ["-inf", "inf"]}]}),
]


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True, frozen=True)

    def _problems(self, symbols: Mapping[str, Dim]) -> Iterator[Problem]:
        """What values that are right alone are not together, by their places in this."""
        yield from ()

    @model_validator(mode="after")
    def _consistent(self, info: ValidationInfo) -> Self:
        found = [] if info.context is None else [*self._problems(info.context)]
        if found:
            raise refused(found)
        return self


class TensorSpec(_Strict):
    """An input stream or a parameter; `dims` innermost first.

    A Multihot has `min` to `max` ones in each element, 0 and its length by default, and no `data_gen`.
    """

    name: _Name
    dtype: DTypeText
    dims: _Dims
    data_gen: Annotated[str, _checked(expression)] | None = Field(
        default=None, description=f"What fills it with data: {EXPECTED}."
    )
    min: StrictInt | None = None
    max: StrictInt | None = None
    assumes: list[Assumption] = Field(
        default_factory=list, description="What the reference assumes of the data, which stress inputs keep."
    )

    def _problems(self, symbols: Mapping[str, Dim]) -> Iterator[Problem]:
        """Where generator, type and numbers of ones do not go together."""
        dtype = parse_dtype(self.dtype, symbols)
        if not isinstance(dtype, Multihot):
            if self.data_gen is None:
                yield ("data_gen",), f"this key is missing; expected {EXPECTED}"
            for number in {component.format for component in components_of(dtype)} if self.data_gen else ():
                allowed = {"int": WHOLE, "bool": TRUTH}.get(number.kind)
                if allowed is not None and family(self.data_gen or "") not in (*allowed, "expression"):
                    expected = f"{', '.join(allowed[:-1])} or {allowed[-1]}, or a Python expression with `shape`"
                    found = f"as {number.name} holds {number.range}; found {self.data_gen!r}"
                    yield ("data_gen",), f"expected {expected}, {found}"
            if self.min is not None or self.max is not None:
                yield (), "min and max are for Multihot inputs"
            return
        least, most = self.min or 0, self.max
        if least < 0 or (most is not None and most < least):
            found = f"min {least} and max {most}" if most is not None else f"min {least}"
            yield ("max" if self.min is None else "min",), f"expected 0 <= min <= max, found {found}"


class FnSpec(_Strict):
    """A function offered to programs as `func_name`; `init` makes it a stateful one (paper, Figure 16)."""

    name: str
    apply: Annotated[str, _code(lambda code: compile_function(code, ("state", "input"), "apply", widen=NARROW))]
    init: list[InitValue] | None = None
    input_dtype: DTypeText
    output_dtype: DTypeText
    func_name: _Name

    def _problems(self, symbols: Mapping[str, Dim]) -> Iterator[Problem]:
        """Initial values that the state does not hold."""
        state = parse_dtype(self.output_dtype, symbols)
        parts = components_of(state)
        if self.init is not None and len(self.init) != len(parts):
            expected = f"expected {quantity(len(parts), 'value')}, one per component of {state}"
            yield ("init",), f"{expected}, found {len(self.init)}"
        for index, (value, part) in enumerate(zip(self.init or (), parts, strict=False)):
            if not part.format.holds(value):
                yield ("init", index), f"{part.format.name} holds {part.format.range}; found {value}"


class OutputSpec(_Strict):
    """An output and its reference: one PyTorch snippet per tuple component, whose last line is the value."""

    name: _Name
    dtype: DTypeText
    dims: _Dims
    data_transform: Annotated[
        list[Annotated[str, _code(lambda code: compile_value(code, "data_transform", "value", widen=NARROW))]],
        BeforeValidator(_one_or_many, json_schema_input_type=str | list[str]),
    ]

    def _problems(self, symbols: Mapping[str, Dim]) -> Iterator[Problem]:
        """Another number of snippets than of components."""
        count = len(components_of(parse_dtype(self.dtype, symbols)))
        if len(self.data_transform) != count:
            expected = f"expected {quantity(count, 'snippet')}, one per component"
            yield ("data_transform",), f"{expected}, found {len(self.data_transform)}"


def _with_includes(schema: dict[str, Any]) -> None:
    """Adds to the schema of task files what `includes` resolves before validation."""
    own = schema["properties"]["fns"]["items"]
    named = {"type": "string", "description": "The func_name of a function in the file that fns_from names."}
    schema["properties"]["fns"]["items"] = {"anyOf": [own, named]}
    included = "A file of functions that tasks share, relative to this file; `fns` names those to include."
    schema["properties"]["fns_from"] = {"type": "string", "description": included}


class Task(_Strict):
    """An operator to implement, with the functions to implement it from; see the module.

    The types in its texts are parsed once, on first access, in the order of the specs.
    """

    model_config = ConfigDict(json_schema_extra=_with_includes)

    test_name: str | int | None = None
    global_: GlobalText | None = Field(default=None, alias="global")
    inputs: list[TensorSpec] = Field(min_length=1)
    parameters: list[TensorSpec] = Field(default_factory=list)
    fns: list[FnSpec] = Field(default_factory=list)
    outputs: list[OutputSpec] = Field(min_length=1)
    impl: str | None = None
    license: str | None = Field(
        default=None, description="The licence of the task and of programs for it, as an SPDX expression."
    )
    sizes: SizesText = Field(default_factory=dict)
    original: dict[str, StrictInt] = Field(
        default_factory=dict, description="Sizes of real use, for `verify --sizes original`."
    )
    part_of: str | None = Field(
        default=None, description="The name of the task of which this is a sub-task, for records and people."
    )
    stress: bool = Field(default=False, description="Whether a program that fails on stress inputs fails the task.")
    limits: dict[Figure, LimitText] = Field(
        default_factory=dict, description="The maximum cost of a program, by figure: numbers or polynomials in dims."
    )
    _name: str = PrivateAttr("task")

    @model_validator(mode="before")
    @classmethod
    def _without_empty_keys(cls, content: Any) -> Any:
        """Treats a key without a value, and a blank `impl` to be filled in, as absent."""
        if not isinstance(content, Mapping):
            return content
        blank = [key for key, value in content.items() if value is None or (key == "impl" and not str(value).strip())]
        return {key: value for key, value in content.items() if key not in blank}

    def _problems(self, symbols: Mapping[str, Dim]) -> Iterator[Problem]:
        """Names that stand for something else already."""
        in_code = _TAKEN_IN_CODE | {f"{name}_value": f"the size of {name}" for name in self.symbols()}
        for name in self.sizes:
            taken = {**_TAKEN, **in_code}.get(name)
            if taken is not None:
                yield ("sizes", name), f"duplicate name {name!r}: it is already {taken}"
        seen = dict.fromkeys(self.symbols(), "a dim") | _TAKEN
        for key, field in (("inputs", "name"), ("parameters", "name"), ("fns", "func_name"), ("outputs", "name")):
            for index, spec in enumerate(getattr(self, key)):
                name = getattr(spec, field)
                taken = seen.get(name) or in_code.get(name)
                if taken is not None:
                    yield (key, index, field), f"duplicate name {name!r}: it is already {taken}"
                seen[name] = f"the {field} of {key}[{index}]"

    @property
    def name(self) -> str:
        """The name that reports use: the file's path below the task folder, or its stem elsewhere."""
        return self._name

    def named(self, name: str) -> Task:
        """A copy under another name."""
        copy = self.model_copy()
        copy._name = name
        return copy

    def without_impl(self) -> Task:
        """The part of the task that a proposer may see."""
        return self if self.impl is None else self.model_copy(update={"impl": None})

    def text_with(self, impl: str) -> str:
        """The task as YAML with this solution."""
        return dump_task(self.model_copy(update={"impl": impl}))

    def solved(self) -> SolvedTask | None:
        """The task alone with its `impl`, or None where it has none."""
        return None if self.impl is None else SolvedTask(self.without_impl(), self.impl)

    @cached_property
    def statement(self) -> str:
        """The task as YAML, without `impl` and name: what a proposer is shown, and what workers are sent."""
        return dump_task(self.without_impl())

    @cached_property
    def input_types(self) -> tuple[StreamType, ...]:
        """Element type and dims of each input."""
        return self._stream_types(self.inputs)

    @cached_property
    def parameter_types(self) -> tuple[StreamType, ...]:
        """Element type and dims of each parameter."""
        return self._stream_types(self.parameters)

    @cached_property
    def output_types(self) -> tuple[StreamType, ...]:
        """Element type and dims of each output."""
        return self._stream_types(self.outputs)

    def tensors(self) -> Iterator[tuple[tuple[str, int], TensorSpec, StreamType]]:
        """Inputs, then parameters: the place in the file, the declaration, and the type."""
        for key, specs, types in (
            ("inputs", self.inputs, self.input_types),
            ("parameters", self.parameters, self.parameter_types),
        ):
            for index, (spec, stream) in enumerate(zip(specs, types, strict=True)):
                yield (key, index), spec, stream

    @cached_property
    def fn_types(self) -> tuple[tuple[DType, DType], ...]:
        """Input and output type of each function."""
        symbols = self.symbols()
        pairs = ((spec.input_dtype, spec.output_dtype) for spec in self.fns)
        return tuple((parse_dtype(taken, symbols), parse_dtype(given, symbols)) for taken, given in pairs)

    @cached_property
    def formats(self) -> frozenset[Format]:
        """The number formats of all its types."""
        streams = (*self.input_types, *self.parameter_types, *self.output_types)
        dtypes = (*(stream.dtype for stream in streams), *(dtype for pair in self.fn_types for dtype in pair))
        return frozenset(element.format for dtype in dtypes for element in components_of(dtype))

    @property
    def names_formats(self) -> bool:
        """Whether it names a format other than fp32, so that rounding counts."""
        return not all(format_.wide for format_ in self.formats)

    @cached_property
    def cost_limits(self) -> dict[Figure, Dim]:
        """The highest cost of a program of the task, in the units of the figures."""
        symbols = self.symbols()
        return {figure: parse_limit(limit, symbols) for figure, limit in self.limits.items()}

    def _stream_types(self, specs: Sequence[TensorSpec | OutputSpec]) -> tuple[StreamType, ...]:
        symbols = self.symbols()
        dims = (tuple(parse_dim(dim, symbols) for dim in spec.dims) for spec in specs)
        return tuple(
            StreamType(parse_dtype(spec.dtype, symbols), shape) for spec, shape in zip(specs, dims, strict=True)
        )

    def symbols(self) -> dict[str, Dim]:
        """Every symbol that dims may use: the default five and those that `sizes` declares."""
        return {name: sympy.Symbol(name) for name in (*SYMBOLS, *(k for k in self.sizes if k not in SYMBOLS))}

    @cached_property
    def used_symbols(self) -> frozenset[str]:
        """The symbols that the task's types, its `sizes` or its code use, by name."""
        typed = {symbol.name for dims in declared_shapes(self) for dim in dims for symbol in dim.value.free_symbols}
        references = (text for output in self.outputs for text in output.data_transform)
        generators = (spec.data_gen or "" for _, spec, _ in self.tensors())
        code = "\n".join([self.global_ or "", *(fn.apply for fn in self.fns), *references, *generators])
        words = {word.removesuffix("_value") for word in re.findall(r"\w+", code)}
        return frozenset(name for name in self.symbols() if name in typed | words | self.sizes.keys())

    def size_sets(self) -> list[dict[str, int]]:
        """The sets of sizes to verify at, before `global` runs: lists are zipped, single values hold in all.

        Default sets that differ in nothing that the task uses are one.
        """
        lengths = [len(value) for value in self.sizes.values() if isinstance(value, list)]
        count = max(lengths, default=len(DEFAULT_SIZES))
        sets = []
        for index in range(count):
            own = {name: value[index] if isinstance(value, list) else value for name, value in self.sizes.items()}
            sets.append(DEFAULT_SIZES[index % len(DEFAULT_SIZES)] | own)
        if lengths or any(len({sizes.get(name) for sizes in sets}) > 1 for name in self.used_symbols):
            return sets
        return sets[:1]

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values, without values derived from the old ones."""
        copy = super().model_copy(update=update, deep=deep)
        if update and update.keys() != {"impl"}:
            for name, value in vars(Task).items():
                if isinstance(value, cached_property):
                    vars(copy).pop(name, None)
        return copy

    def __eq__(self, other: object) -> bool:
        """Equality of content; the name does not count."""
        return self is other or (isinstance(other, Task) and self.model_dump() == other.model_dump())

    def __hash__(self) -> int:
        """Agrees with equality."""
        return hash(self.statement)


@dataclass(frozen=True)
class SolvedTask:
    """A task, without `impl`, and the text of a program that implements it."""

    task: Task
    program: str


def dump_task(task: Task) -> str:
    """The task as YAML: keys in the order of the IR, code in literal blocks, dims in flow lists."""
    return yaml_format.dump(task.model_dump(by_alias=True, exclude_defaults=True))


@dataclass(frozen=True)
class WrittenDim:
    """A dim of a tensor that a task declares: its place in the file, the text there, and the parsed dim."""

    location: Location
    text: str
    value: Dim


def declared_shapes(task: Task) -> Iterator[tuple[WrittenDim, ...]]:
    """The dims of every component of the task's inputs, parameters and outputs, and of its functions' types."""
    outputs = zip(task.outputs, task.output_types, strict=True)
    declared: list[tuple[tuple[str, int], TensorSpec | OutputSpec, StreamType]] = [*task.tensors()]
    declared += [(("outputs", index), *output) for index, output in enumerate(outputs)]
    for place, spec, stream in declared:
        texts = enumerate(zip(spec.dims, stream.shape, strict=True))
        outer = [WrittenDim((*place, "dims", at), str(text), dim) for at, (text, dim) in texts]
        for inner in _layouts((*place, "dtype"), spec.dtype, stream.dtype):
            yield (*outer, *inner)
    for index, (fn, (taken, given)) in enumerate(zip(task.fns, task.fn_types, strict=True)):
        yield from _layouts(("fns", index, "input_dtype"), fn.input_dtype, taken)
        yield from _layouts(("fns", index, "output_dtype"), fn.output_dtype, given)


def _layouts(location: Location, text: DTypeText, dtype: DType) -> Iterator[tuple[WrittenDim, ...]]:
    for element in components_of(dtype):
        yield tuple(WrittenDim(location, str(text), dim) for dim in layout(element))
