"""Reads tasks: YAML text to a validated `Task`, none of whose code is run; every problem is reported with its place."""

from __future__ import annotations

import ast
import os
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

import sympy
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from step_runtime.base.errors import Diagnostic, Span, TaskError, describe_value
from step_runtime.base.shapes import DEFAULT_SIZES, SYMBOLS, Dim
from step_runtime.base.syntax import parse_python
from step_runtime.base.units import FIGURES
from step_runtime.tasks import yaml_format
from step_runtime.tasks.generators import EXPECTED, Assumption
from step_runtime.tasks.includes import KEY, TaskSource, read_source
from step_runtime.tasks.task import FnSpec, OutputSpec, Problem, Task, TensorSpec
from step_runtime.tasks.yaml_format import Location

_MODELS: dict[str, type[BaseModel]] = {
    "inputs": TensorSpec,
    "parameters": TensorSpec,
    "fns": FnSpec,
    "outputs": OutputSpec,
}
_TYPE = ("a type such as fp32 or Buffer(fp32, [N]), or a list of these", "a type such as fp32")
_TEXT = "Python code as text"
_ASSUMED = ", ".join(get_args(Assumption))
_WORDS: Mapping[str, tuple[str, ...]] = {
    "dtype": _TYPE,
    "input_dtype": _TYPE,
    "output_dtype": _TYPE,
    "dims": ("a list of dims, innermost first", "a dim: a number, a symbol or a product of these"),
    "data_gen": (EXPECTED,),
    "min": ("a whole number",),
    "max": ("a whole number",),
    "assumes": (f"a list of {_ASSUMED}", f"one of {_ASSUMED}"),
    "apply": (_TEXT,),
    "init": ("a list of numbers, -inf or inf, one per component of output_dtype",),
    "data_transform": (f"{_TEXT}, or a list with a text per component", _TEXT),
    "inputs": ("a list of inputs, one or more",),
    "parameters": ("a list of parameters",),
    "fns": ("a list of functions",),
    "outputs": ("a list of outputs, one or more",),
    "sizes": ("a mapping of symbols to sizes", "a size or a list of sizes, whole numbers"),
    "limits": ("a mapping of figures to limits", "a number or a polynomial in dims"),
    "stress": ("true or false",),
    "global": (_TEXT,),
    "impl": ("a program as text",),
    "license": ("a licence as text",),
}
"""What a key holds, and what each element of its list or mapping is; all others hold a name."""


def read_task(path: str | Path, name: str | None = None) -> Task:
    """Reads a task file.

    Without `name` a file below a folder `tasks` is named by its path there (`gemm/1`), another by its stem.

    Raises:
        TaskError: The file cannot be read, or is not a valid task.
    """
    return task_in(read_task_file(Path(path)), name or task_name(Path(path)))


def read_task_file(path: Path) -> TaskSource:
    """The text of a task file, with the functions that it includes.

    Raises:
        TaskError: The file cannot be read, or is not YAML, or what it includes cannot be read.
    """
    return read_source(task_text(path), str(path), path.parent)


def line_of_snippet(text: str, place: str) -> int:
    """The line in a task's text of a snippet at a place such as `outputs[0].data_transform[1]`."""
    location = [int(part) if part.isdigit() else part for part in re.findall(r"\w+", place)]
    return yaml_format.line_in(text, tuple(location))


def impl_place(text: str, diagnostic: Diagnostic) -> Diagnostic:
    """A finding in a task's `impl`, at its place in the task file's text.

    Of an `impl` that is no literal block the lines are not the file's: the place is then the line of its key, and a
    detail gives the line in the program.
    """
    span = diagnostic.span
    if span is None:
        return diagnostic
    offset = yaml_format.block_offset(text, "impl")
    if offset is not None:
        return diagnostic.moved(*offset)
    line = yaml_format.line_in(text, ("impl",))
    details = (f"it is in line {span.line} of `impl`, column {span.column}", *diagnostic.details)
    return replace(diagnostic, span=Span(line, 1, line, 1 + len("impl")), details=details)


def task_text(path: Path) -> str:
    """The text of a task file.

    Raises:
        TaskError: The file cannot be read.
    """
    try:
        return yaml_format.read_text(path)
    except ValueError as error:
        raise TaskError(f"{path}: {error}") from None
    except OSError as error:
        raise TaskError(f"{path}: cannot read the task file: {error.strerror or error}") from None


def task_name(path: Path) -> str:
    """The name of the task in a file: its path below the nearest folder `tasks` or `tasks-…`, else its stem."""
    parts = Path(os.path.normpath(path.absolute())).with_suffix("").parts
    for index in range(len(parts) - 2, -1, -1):
        if parts[index] == "tasks" or parts[index].startswith("tasks-"):
            return "/".join(parts[index + 1 :])
    return path.stem


def loads_task(text: str, name: str | None = None, *, source: str | None = None) -> Task:
    """Reads a task from YAML text, without running any of its code; `source` names the text in errors.

    The text includes no functions from another file: `TaskSource.inlined` is the text of a file that does. Without
    `name` it is named by its `test_name`.

    Raises:
        TaskError: The text is not a valid task; the message names source, line, place and what was expected.
    """
    return task_in(read_source(text, source or name or "task", None), name)


def task_in(source: TaskSource, name: str | None) -> Task:
    """The task that a text holds, under a name as for `loads_task`.

    Raises:
        TaskError: It is not a valid task.
    """
    return _validated(source.content, name, source.place, source.own_line)


def task_of(content: Any, name: str | None, where: Callable[[Location], str]) -> Task:
    """Validates what a YAML text held; `where(location)` names a place in it, and `name` is as for `loads_task`.

    Raises:
        TaskError: It is not a valid task.
    """
    return _validated(content, name, lambda location: f"{where(location)}: {yaml_format.format_location(location)}")


def _validated(
    content: Any, name: str | None, where: Callable[[Location], str], line: Callable[[Location], int] = lambda _: 0
) -> Task:
    """The task, under a name; else all problems in the order of their lines."""
    if not isinstance(content, Mapping):
        raise TaskError(f"{where(())}: expected a mapping with the keys {', '.join(_task_keys())}")
    try:
        task = Task.model_validate(dict(content), context=_symbols(content))
    except ValidationError as error:
        found = sorted(_problems(error.errors()), key=lambda problem: line(problem[0]))
        raise TaskError("\n".join(dict.fromkeys(f"{where(place)}: {message}" for place, message in found))) from None
    except RecursionError:
        raise TaskError(f"{where(())}: a part of it nests too deep") from None
    return task.named(name or ("task" if task.test_name is None else str(task.test_name)))


def _symbols(content: Mapping[Any, Any]) -> dict[str, Dim] | None:
    """The symbols that have a size, or that `global` may give one; None if these keys are not what they should be."""
    sizes, code = content.get("sizes") or {}, content.get("global") or ""
    if not isinstance(sizes, Mapping) or not isinstance(code, str):
        return None
    known = {name: sympy.Symbol(name) for name in (*SYMBOLS, *sizes) if isinstance(name, str)}
    try:
        tree = parse_python(textwrap.dedent(code))
    except (SyntaxError, ValueError, RecursionError):
        return known
    named = {node.id.removesuffix("_value") for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return {name: symbol for name, symbol in known.items() if name in {*DEFAULT_SIZES[0], *sizes, *named}}


def _problems(errors: Sequence[ErrorDetails]) -> Iterator[Problem]:
    """The errors by their visible place, one for each; without those of a value that has one further in."""
    by_place: dict[Location, ErrorDetails] = {}
    for item in errors:
        # Without the names of union members and validators, which a task file does not have.
        hidden = {part for part in item["loc"] if set("[(") & set(str(part))} | {"str", "int", "float"}
        place = tuple(part for part in item["loc"] if part not in hidden)
        by_place.setdefault(place, item)
    outer = {place[:length] for place in by_place for length in range(len(place))}
    for place, item in by_place.items():
        if item["type"] == "refused":
            yield from (((*place, *inner), message) for inner, message in item["ctx"]["problems"])
        elif place not in outer:
            yield place, _message(place, item)


def _message(place: Location, item: ErrorDetails) -> str:
    """What is wrong at a place, in the words of the task format."""
    if item["type"] == "extra_forbidden":
        keys = _keys(_MODELS[str(place[0])]) if len(place) > 1 else _task_keys()
        near = get_close_matches(str(place[-1]), keys, 1)
        return f"unknown key; {f'did you mean {near[0]}? ' if near else ''}expected one of {', '.join(keys)}"
    if item["type"] == "missing":
        return f"this key is missing; expected {_expected(place)}"
    if item["type"] == "model_type" and place[0] == "fns" and isinstance(item["input"], str):
        return f"expected a function; a function's name, {item['input']!r}, needs {KEY}, the file that has it"
    expected = f"expected {_expected(place)}"
    if item["type"] == "value_error":
        expected = item["msg"].removeprefix("Value error, ")
    return f"{expected}, found {describe_value(item['input'])}"


def _expected(place: Location) -> str:
    """What belongs at a place, in words."""
    if not all(isinstance(part, str) for part in place[:1]):
        return "a name as key"
    if len(place) == 2 and place[0] in _MODELS:
        return f"a mapping with the keys {', '.join(_keys(_MODELS[str(place[0])]))}"
    if place[0] == "limits" and len(place) > 1 and place[1] not in FIGURES:
        return f"one of {', '.join(FIGURES)}"
    if len(place) == 2 and not isinstance(place[1], str):
        return "a symbol's name"
    at = 2 if place[0] in _MODELS and len(place) > 2 else 0
    words = _WORDS.get(str(place[at]), ("a name",))
    return words[-1] if len(place) > at + 1 else words[0]


def _task_keys() -> list[str]:
    return [*_keys(Task), KEY]


def _keys(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]
