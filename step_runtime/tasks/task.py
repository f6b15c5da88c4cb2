"""The structural IR: a task as its author writes it (paper, Section 4.4, Figures 15 and 18).

A task names an operator's inputs, the functions that the hardware offers, and its outputs as PyTorch code.
YAML goes in through `read_task` and `loads_task` and comes out of `dump_task`; `loads(dump(task)) == task`. None of a
task's code is run here; `loading` does that.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import sympy
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    StrictInt,
    ValidationError,
    model_validator,
)

from step_runtime.base.errors import TaskError
from step_runtime.base.shapes import DEFAULT_SIZES, SYMBOLS, Dim
from step_runtime.base.types import DType, StreamType, components_of, layout, parse_dim, parse_dtype
from step_runtime.tasks import yaml_format
from step_runtime.tasks.validation import problems
from step_runtime.tasks.yaml_format import Location

DTypeText: TypeAlias = str | list[str]
DimText: TypeAlias = str | StrictInt


def _number(value: Any) -> float:
    """An initial value; YAML has no plain `-inf`, so that it comes as text."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and value == value
    if not known and value not in ("-inf", "inf"):
        raise ValueError("expected a number, -inf or inf")
    return value if isinstance(value, int) else float(value)


InitValue: TypeAlias = Annotated[int | float, BeforeValidator(_number)]


def _one_or_many(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True, frozen=True)


class TensorSpec(_Strict):
    """An input stream or a parameter; `dims` innermost first.

    A Multihot has `min` to `max` ones in each element, by default 0 and its length, and no `data_gen`.
    """

    name: str
    dtype: DTypeText
    dims: list[DimText]
    data_gen: Literal["torch.rand", "torch.randn", "torch.ones", "binary"] | None = None
    min: StrictInt | None = None
    max: StrictInt | None = None


class FnSpec(_Strict):
    """A function offered to programs as `func_name`; `init` makes it a stateful one (paper, Figure 16)."""

    name: str
    apply: str
    init: list[InitValue] | None = None
    input_dtype: DTypeText
    output_dtype: DTypeText
    func_name: str


class OutputSpec(_Strict):
    """An output and its reference: one PyTorch snippet per tuple component, whose last line is the value."""

    name: str
    dtype: DTypeText
    dims: list[DimText]
    data_transform: Annotated[list[str], BeforeValidator(_one_or_many)]


class Task(_Strict):
    """An operator to implement, with the functions to implement it from; see the module."""

    test_name: str | int | None = None
    global_: str | None = Field(default=None, alias="global")
    inputs: list[TensorSpec] = Field(min_length=1)
    parameters: list[TensorSpec] = Field(default_factory=list)
    fns: list[FnSpec] = Field(default_factory=list)
    outputs: list[OutputSpec] = Field(min_length=1)
    impl: str | None = None
    sizes: dict[str, StrictInt | list[StrictInt]] = Field(default_factory=dict)
    _name: str = PrivateAttr("task")

    @model_validator(mode="before")
    @classmethod
    def _without_empty_keys(cls, content: Any) -> Any:
        """A key with nothing after its colon is as good as absent, and so is a blank `impl` to be filled in."""
        if not isinstance(content, Mapping):
            return content
        blank = [key for key, value in content.items() if value is None or (key == "impl" and not str(value).strip())]
        return {key: value for key, value in content.items() if key not in blank}

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
        """The task alone: what a proposer may see."""
        return self.model_copy(update={"impl": None})

    def symbols(self) -> dict[str, Dim]:
        """Every symbol that dims may use: the default five and those that `sizes` declares."""
        return {name: sympy.Symbol(name) for name in (*SYMBOLS, *(k for k in self.sizes if k not in SYMBOLS))}

    def stream_type(self, spec: TensorSpec | OutputSpec) -> StreamType:
        """Element type and dims of an input, parameter or output."""
        symbols = self.symbols()
        return StreamType(parse_dtype(spec.dtype, symbols), tuple(parse_dim(dim, symbols) for dim in spec.dims))

    def fn_types(self, spec: FnSpec) -> tuple[DType, DType]:
        """Input and output type of a function."""
        symbols = self.symbols()
        return parse_dtype(spec.input_dtype, symbols), parse_dtype(spec.output_dtype, symbols)

    def size_sets(self) -> list[dict[str, int]]:
        """The sets of sizes to verify at, before `global` has its say: lists are zipped, single values hold in all."""
        lengths = [len(value) for value in self.sizes.values() if isinstance(value, list)]
        count = max(lengths, default=len(DEFAULT_SIZES))
        sets = []
        for index in range(count):
            own = {name: value[index] if isinstance(value, list) else value for name, value in self.sizes.items()}
            sets.append(DEFAULT_SIZES[index % len(DEFAULT_SIZES)] | own)
        return sets

    def __eq__(self, other: object) -> bool:
        """Equality of content; the name does not count."""
        return isinstance(other, Task) and self.model_dump() == other.model_dump()

    def __hash__(self) -> int:
        """Agrees with equality."""
        return hash(dump_task(self))


@dataclass(frozen=True)
class WrittenDim:
    """A dim of a tensor that a task declares: its place in the file, the text there, and what it says."""

    location: Location
    text: str
    value: Dim


def declared_shapes(task: Task) -> Iterator[tuple[WrittenDim, ...]]:
    """The dims of every component of the task's inputs, parameters and outputs, and of its functions' types."""
    groups: dict[str, Sequence[TensorSpec | OutputSpec]]
    groups = {"inputs": task.inputs, "parameters": task.parameters, "outputs": task.outputs}
    for key, specs in groups.items():
        for index, spec in enumerate(specs):
            stream = task.stream_type(spec)
            texts = enumerate(zip(spec.dims, stream.shape, strict=True))
            outer = [WrittenDim((key, index, "dims", at), str(text), dim) for at, (text, dim) in texts]
            for inner in _layouts((key, index, "dtype"), spec.dtype, stream.dtype):
                yield (*outer, *inner)
    for index, fn in enumerate(task.fns):
        taken, given = task.fn_types(fn)
        yield from _layouts(("fns", index, "input_dtype"), fn.input_dtype, taken)
        yield from _layouts(("fns", index, "output_dtype"), fn.output_dtype, given)


def _layouts(location: Location, text: DTypeText, dtype: DType) -> Iterator[tuple[WrittenDim, ...]]:
    for element in components_of(dtype):
        yield tuple(WrittenDim(location, str(text), dim) for dim in layout(element))


_MODELS: dict[str, type[BaseModel]] = {
    "inputs": TensorSpec,
    "parameters": TensorSpec,
    "fns": FnSpec,
    "outputs": OutputSpec,
}


def read_task(path: str | Path, name: str | None = None) -> Task:
    """Reads a task file.

    Without `name` a file below a folder `tasks` is named by its path there (`gemm/1`), another by its stem.

    Raises:
        TaskError: the file cannot be read, or is no valid task.
    """
    return loads_task(task_text(Path(path)), name or task_name(Path(path)), source=str(path))


def line_of_snippet(text: str, place: str) -> int:
    """The line in a task's text of a snippet at a place such as `outputs[0].data_transform[1]`."""
    location = [int(part) if part.isdigit() else part for part in re.findall(r"\w+", place)]
    return yaml_format.line_in(text, tuple(location))


def task_text(path: Path) -> str:
    """The text of a task file.

    Raises:
        TaskError: the file cannot be read.
    """
    most = yaml_format.MAX_CHARACTERS
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(most + 1)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise TaskError(f"{path}: cannot read the task file: {reason}") from None
    if len(text) > most:
        raise TaskError(f"{path}: more than {most:,} characters, the limit of a task file")
    return text


def task_name(path: Path) -> str:
    """The name of the task in a file: its path below the nearest folder `tasks` or `tasks-…`, else its stem."""
    parts = Path(os.path.normpath(path.absolute())).with_suffix("").parts
    for index in range(len(parts) - 2, -1, -1):
        if parts[index] == "tasks" or parts[index].startswith("tasks-"):
            return "/".join(parts[index + 1 :])
    return path.stem


def loads_task(text: str, name: str | None = None, *, source: str | None = None) -> Task:
    """Reads a task from YAML text, without running any of its code; `source` names the text in errors.

    Without `name` it goes by its `test_name`.

    Raises:
        TaskError: the text is no valid task; the message names source, line, place and what was expected.
    """
    source = source or name or "task"
    node, content = yaml_format.load(text, source)
    return task_of(content, name, lambda loc: f"{source}:{yaml_format.line_of(node, loc)}")


def task_of(content: Any, name: str | None, where: Any) -> Task:
    """Validates what a YAML text held; `where(location)` names a place in it, and `name` is as for `loads_task`.

    Raises:
        TaskError: it is no valid task.
    """
    if not isinstance(content, Mapping):
        raise TaskError(f"{where(())}: expected a mapping with the keys {', '.join(_keys(Task))}")
    try:
        task = Task.model_validate(dict(content))
        found = list(problems(task))
    except ValidationError as error:
        found = [(_visible(item["loc"]), _told(item)) for item in error.errors()]
    if found:
        order = [str(key) for key in content]
        found.sort(key=lambda problem: order.index(str(problem[0][0])) if problem[0] and problem[0][0] in order else -1)
        lines = [f"{where(loc)}: {yaml_format.format_location(loc)}: {message}" for loc, message in found]
        raise TaskError("\n".join(dict.fromkeys(lines)))
    return task.named(name or ("task" if task.test_name is None else str(task.test_name)))


def dump_task(task: Task) -> str:
    """The task as YAML: keys in the order of the IR, code in literal blocks, dims in flow lists."""
    return yaml_format.dump(task.model_dump(by_alias=True, exclude_defaults=True))


def _keys(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _visible(loc: Location) -> Location:
    """A Pydantic location without the names of union members, which a task file does not have."""
    return tuple(part for part in loc if isinstance(part, int) or not (set("[(") & set(part) or part in _TYPES))


_TYPES = ("str", "int", "float")


def _told(item: Any) -> str:
    loc = item["loc"]
    if item["type"] == "extra_forbidden":
        model = _MODELS.get(str(loc[0]), Task) if len(loc) > 1 else Task
        return f"unknown key; expected one of {', '.join(_keys(model))}"
    if item["type"] == "missing":
        return "this key is missing"
    message = item["msg"].removeprefix("Value error, ")
    return f"{message[0].lower()}{message[1:]}, found {item['input']!r}"
