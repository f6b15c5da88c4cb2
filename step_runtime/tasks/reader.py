"""Reads tasks: YAML text to a validated `Task`, none of whose code is run; every problem is reported with its place."""

from __future__ import annotations

import ast
import keyword
import os
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from step_runtime.base.errors import Diagnostic, RuleError, Span, TaskError, describe_value, quantity, shortened
from step_runtime.base.shapes import DEFAULT_SIZES, LARGEST_DIM, Dim
from step_runtime.base.syntax import BUILTINS, parse_python
from step_runtime.base.types import DType, Multihot, components_of, parse_dim, parse_dtype
from step_runtime.tasks import yaml_format
from step_runtime.tasks.generators import EXPECTED, TRUTH, WHOLE, expression, family
from step_runtime.tasks.includes import TaskSource, read_source
from step_runtime.tasks.snippets import NARROW, compile_block, compile_function, compile_value
from step_runtime.tasks.structure import Problem, is_independent, read_structure, task_keys
from step_runtime.tasks.task import FnSpec, OutputSpec, Task, TensorSpec, parse_limit
from step_runtime.tasks.yaml_format import Location

_TAKEN = {"step": "the language", "torch": "PyTorch"}
_TAKEN_IN_CODE = dict.fromkeys(BUILTINS, "a builtin of the language") | {
    "input_data": "the inputs in a snippet",
    "ctx": "the sizes in a snippet",
    "Symbol": "sympy's in a snippet",
}
"""Names that are reserved where a program or a snippet uses the names of functions and dims."""


def problems(task: Task) -> Iterator[Problem]:
    """Every problem: its place in the file, and the expectation."""
    yield from _sizes(task)
    symbols = _sized(task)
    for key, specs in (("inputs", task.inputs), ("parameters", task.parameters)):
        for index, spec in enumerate(specs):
            yield from _tensor((key, index), spec, symbols)
            yield from _data((key, index), spec, symbols)
    for index, output in enumerate(task.outputs):
        yield from _tensor(("outputs", index), output, symbols)
        yield from _reference(("outputs", index), output, symbols)
    for index, fn in enumerate(task.fns):
        yield from _function(("fns", index), fn, symbols)
    for figure, limit in task.limits.items():
        yield from _unreadable(("limits", figure), parse_limit, limit, symbols)
    yield from _duplicates(task)
    if task.global_ is not None:
        yield from _syntax(("global",), task.global_)


def _sized(task: Task) -> dict[str, Dim]:
    """The symbols that have a size, or that `global` may give one."""
    sized = {*DEFAULT_SIZES[0], *task.sizes}
    try:
        tree = parse_python(textwrap.dedent(task.global_ or ""))
    except (SyntaxError, ValueError, RecursionError):
        return task.symbols()
    sized |= {node.id.removesuffix("_value") for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return {name: symbol for name, symbol in task.symbols().items() if name in sized}


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _sizes(task: Task) -> Iterator[Problem]:
    lengths = {name: len(value) for name, value in task.sizes.items() if isinstance(value, list)}
    for name, value in task.sizes.items():
        if not _is_name(name):
            yield ("sizes", name), "expected a symbol's name"
        many = value if isinstance(value, list) else [value]
        if not many or not all(1 <= size <= LARGEST_DIM for size in many):
            yield ("sizes", name), f"expected sizes of 1 or more, and less than 2**63, found {describe_value(value)}"
    if len(set(lengths.values())) > 1:
        yield ("sizes",), f"lists must be of one length, as they are zipped; found {lengths}"
    if 1 in lengths.values():
        yield ("sizes",), "a list gives one size per set, two or more; write a single number for all sets"


def _tensor(loc: Location, spec: TensorSpec | OutputSpec, symbols: Mapping[str, Dim]) -> Iterator[Problem]:
    if not _is_name(spec.name):
        yield (*loc, "name"), f"expected a Python name, found {spec.name!r}"
    if not spec.dims:
        yield (*loc, "dims"), "expected at least one dim"
    for index, dim in enumerate(spec.dims):
        yield from _unreadable((*loc, "dims", index), parse_dim, dim, symbols)
    yield from _unreadable((*loc, "dtype"), parse_dtype, spec.dtype, symbols)


def _data(loc: Location, spec: TensorSpec, symbols: Mapping[str, Dim]) -> Iterator[Problem]:
    if _unreadable(loc, parse_dtype, spec.dtype, symbols):
        if spec.data_gen is not None:
            yield from _unreadable((*loc, "data_gen"), expression, spec.data_gen, symbols)
        return
    if not isinstance(parse_dtype(spec.dtype, symbols), Multihot):
        if spec.data_gen is None:
            yield (*loc, "data_gen"), f"this key is missing; expected {EXPECTED}"
        else:
            yield from _unreadable((*loc, "data_gen"), expression, spec.data_gen, symbols)
            yield from _whole((*loc, "data_gen"), spec, symbols)
        if spec.min is not None or spec.max is not None:
            yield loc, "min and max are for Multihot inputs"
        return
    least, most = spec.min or 0, spec.max
    if least < 0 or (most is not None and most < least):
        found = f"min {least} and max {most}" if most is not None else f"min {least}"
        yield (*loc, "max" if spec.min is None else "min"), f"expected 0 <= min <= max, found {found}"


def _whole(loc: Location, spec: TensorSpec, symbols: Mapping[str, Dim]) -> Iterator[Problem]:
    """The generators whose numbers a format of integers or truth values does not hold."""
    formats = {component.format for component in components_of(parse_dtype(spec.dtype, symbols))}
    for format_ in formats:
        allowed = {"int": WHOLE, "bool": TRUTH}.get(format_.kind)
        try:
            found = family(spec.data_gen or "")
        except ValueError:  # not a generator; validation reports it
            return
        if allowed is not None and found not in (*allowed, "expression"):
            expected = f"expected {', '.join(allowed[:-1])} or {allowed[-1]}, or a Python expression with `shape`"
            yield loc, f"{expected}, as {format_.name} holds {format_.range}; found {spec.data_gen!r}"


def _reference(loc: Location, spec: OutputSpec, symbols: Mapping[str, Dim]) -> Iterator[Problem]:
    if not _unreadable(loc, parse_dtype, spec.dtype, symbols):
        count = len(components_of(parse_dtype(spec.dtype, symbols)))
        if len(spec.data_transform) != count:
            expected = f"expected {quantity(count, 'snippet')}, one per component"
            yield (*loc, "data_transform"), f"{expected}, found {len(spec.data_transform)}"
    for index, snippet in enumerate(spec.data_transform):
        yield from _syntax((*loc, "data_transform", index), snippet, value=True)


def _function(loc: Location, fn: FnSpec, symbols: Mapping[str, Dim]) -> Iterator[Problem]:
    if not _is_name(fn.func_name):
        yield (*loc, "func_name"), f"expected a Python name, found {fn.func_name!r}"
    for key, text in (("input_dtype", fn.input_dtype), ("output_dtype", fn.output_dtype)):
        problems_of_type = _unreadable((*loc, key), parse_dtype, text, symbols)
        yield from problems_of_type
        if not problems_of_type and key == "output_dtype" and fn.init is not None:
            state: DType = parse_dtype(text, symbols)
            count = len(components_of(state))
            if len(fn.init) != count:
                expected = f"expected {quantity(count, 'value')}, one per component of {state}"
                yield (*loc, "init"), f"{expected}, found {len(fn.init)}"
            for index, (value, part) in enumerate(zip(fn.init, components_of(state), strict=False)):
                if not part.format.holds(value):
                    yield (*loc, "init", index), f"{part.format.name} holds {part.format.range}; found {value}"
    yield from _syntax((*loc, "apply"), fn.apply)


def _unreadable(loc: Location, read: Callable[..., object], text: object, symbols: Mapping[str, Dim]) -> list[Problem]:
    """The problem with a text that `read` rejects."""
    try:
        read(text, symbols)
    except (ValueError, RuleError, RecursionError) as error:
        return [(loc, shortened(str(error)))]
    return []


def _duplicates(task: Task) -> Iterator[Problem]:
    symbols = task.symbols()
    in_code = _TAKEN_IN_CODE | {f"{name}_value": f"the size of {name}" for name in symbols}
    for name in task.sizes:
        taken = {**_TAKEN, **in_code}.get(name)
        if taken is not None:
            yield ("sizes", name), f"duplicate name {name!r}: it is already {taken}"
    seen = dict.fromkeys(symbols, "a dim") | _TAKEN
    for key, field in (("inputs", "name"), ("parameters", "name"), ("fns", "func_name"), ("outputs", "name")):
        for index, spec in enumerate(getattr(task, key)):
            name = getattr(spec, field)
            taken = seen.get(name) or (in_code.get(name) if key == "fns" else None)
            if taken is not None:
                yield (key, index, field), f"duplicate name {name!r}: it is already {taken}"
            seen[name] = f"the {field} of {key}[{index}]"


def _syntax(loc: Location, code: str, *, value: bool = False) -> Iterator[Problem]:
    """Python code that compiles: a function's body, or statements; of a reference the last one is the value."""
    try:
        if loc[-1] == "apply":
            compile_function(code, ("state", "input"), "apply", widen=NARROW)
        elif value:
            compile_value(code, "data_transform", "value", widen=NARROW)
        else:
            compile_block(code, "global", widen=NARROW)
    except (SyntaxError, ValueError, RecursionError) as error:
        line = f" in its line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        yield loc, f"expected Python code: {error.args[0] if error.args else error}{line}"


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
    return _validated(source.content, name, lambda location: str(source.place(location)), source.own_line)


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
        raise TaskError(f"{where(())}: expected a mapping with the keys {', '.join(task_keys())}")
    try:
        task, found, replaced = read_structure(content)
        if task is not None:
            found += [problem for problem in problems(task) if is_independent(problem[0], replaced)]
    except RecursionError:
        raise TaskError(f"{where(())}: a part of it nests too deep") from None
    if task is None or found:
        found.sort(key=lambda problem: line(problem[0]))
        raise TaskError("\n".join(dict.fromkeys(f"{where(loc)}: {message}" for loc, message in found)))
    return task.named(name or ("task" if task.test_name is None else str(task.test_name)))
