"""Reads tasks: YAML text to a validated `Task`, none of whose code is run."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from step_runtime.base.errors import Diagnostic, Span, TaskError
from step_runtime.tasks import yaml_format
from step_runtime.tasks.task import FnSpec, OutputSpec, Task, TensorSpec
from step_runtime.tasks.validation import problems
from step_runtime.tasks.yaml_format import Location

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
        TaskError: The file cannot be read, or is not a valid task.
    """
    return loads_task(task_text(Path(path)), name or task_name(Path(path)), source=str(path))


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
    except yaml_format.TooLong as error:
        raise TaskError(f"{path}: {error}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise TaskError(f"{path}: cannot read the task file: {reason}") from None


def task_name(path: Path) -> str:
    """The name of the task in a file: its path below the nearest folder `tasks` or `tasks-…`, else its stem."""
    parts = Path(os.path.normpath(path.absolute())).with_suffix("").parts
    for index in range(len(parts) - 2, -1, -1):
        if parts[index] == "tasks" or parts[index].startswith("tasks-"):
            return "/".join(parts[index + 1 :])
    return path.stem


def loads_task(text: str, name: str | None = None, *, source: str | None = None) -> Task:
    """Reads a task from YAML text, without running any of its code; `source` names the text in errors.

    Without `name` it is named by its `test_name`.

    Raises:
        TaskError: The text is not a valid task; the message names source, line, place and what was expected.
    """
    source = source or name or "task"
    node, content = yaml_format.load(text, source)
    return task_of(content, name, lambda loc: f"{source}:{yaml_format.line_of(node, loc)}")


def task_of(content: Any, name: str | None, where: Callable[[Location], str]) -> Task:
    """Validates what a YAML text held; `where(location)` names a place in it, and `name` is as for `loads_task`.

    Raises:
        TaskError: It is not a valid task.
    """
    if not isinstance(content, Mapping):
        raise TaskError(f"{where(())}: expected a mapping with the keys {', '.join(_keys(Task))}")
    try:
        task = Task.model_validate(dict(content))
        found = list(problems(task))
    except RecursionError:
        raise TaskError(f"{where(())}: a part of it nests too deep") from None
    except ValidationError as error:
        found = [(_visible(item["loc"]), _message(item)) for item in error.errors()]
    if found:
        order = [str(key) for key in content]
        found.sort(key=lambda problem: order.index(str(problem[0][0])) if problem[0] and problem[0][0] in order else -1)
        lines = [f"{where(loc)}: {yaml_format.format_location(loc)}: {message}" for loc, message in found]
        raise TaskError("\n".join(dict.fromkeys(lines)))
    return task.named(name or ("task" if task.test_name is None else str(task.test_name)))


def _keys(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _visible(loc: Location) -> Location:
    """A Pydantic location without the names of union members, which a task file does not have."""
    return tuple(part for part in loc if isinstance(part, int) or not (set("[(") & set(part) or part in _TYPES))


_TYPES = ("str", "int", "float")


def _message(item: ErrorDetails) -> str:
    loc = item["loc"]
    if item["type"] == "extra_forbidden":
        model = _MODELS.get(str(loc[0]), Task) if len(loc) > 1 else Task
        return f"unknown key; expected one of {', '.join(_keys(model))}"
    if item["type"] == "missing":
        return "this key is missing"
    message = item["msg"].removeprefix("Value error, ")
    return f"{message[0].lower()}{message[1:]}, found {item['input']!r}"
