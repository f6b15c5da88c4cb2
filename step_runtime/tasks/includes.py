"""`fns_from` in a task file: functions that tasks share, written once in a file of their own.

    fns_from: ../functions/chip.fns.yaml       # relative to the task file, or the name of a file that is shipped
    fns: [fn_relu, "fn_matvec(D, F)"]          # by name, templates with their dims; without `fns`, all functions

The functions are read into the task, so that nothing beyond the reader sees that they were shared: a task that is
saved, sent or hashed holds their text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from step_runtime.base.errors import TaskError, shortened
from step_runtime.tasks import yaml_format
from step_runtime.tasks.templates import Template, parsed_instance, template_of
from step_runtime.tasks.yaml_format import Location

KEY = "fns_from"
"""The key whose value is the path of a functions file."""


@dataclass(frozen=True)
class _Functions:
    """A functions file: its name in errors, its text's nodes, and its functions with their places by `func_name`."""

    file: str
    node: yaml.Node | None
    by_name: Mapping[str, tuple[int, Template]]


@dataclass(frozen=True)
class TaskSource:
    """The text of a task file, with the functions that it includes.

    Attributes:
        file: The file as errors name it.
        text: The file's own text.
        content: What the text holds, with the included functions in the place of their names.
    """

    file: str
    text: str
    content: Any
    _node: yaml.Node | None
    _functions: _Functions | None = None
    _origins: tuple[tuple[int | None, int | None], ...] = ()  # each function's index in its own list, and in the file

    def place(self, location: Location) -> str:
        """Where a location of the content is written: file, line and location, for errors.

        That of an included function is in the functions file.
        """
        own, included = self._origin(location)
        where = f"{self.file}:{yaml_format.line_of(self._node, own)}"
        if included is None or self._functions is None:
            return f"{where}: {yaml_format.format_location(own)}"
        line = yaml_format.line_of(self._functions.node, included)
        return f"{self._functions.file}:{line}: {yaml_format.format_location(included)} (included at {where})"

    def own_line(self, location: Location) -> int:
        """The line of a location in the task file: that of an included function is where it is named."""
        return yaml_format.line_of(self._node, self._origin(location)[0])

    @property
    def inlined(self) -> str:
        """The text with the included functions written out: it needs no other file, and keeps its comments."""
        if self._functions is None or not isinstance(self._node, yaml.MappingNode):
            return self.text
        lines = self.text.split("\n")
        written = yaml_format.dump({"fns": self.content["fns"]}).rstrip("\n").split("\n")
        keys = {key.value: (key, value) for key, value in self._node.value}
        at = "fns" if "fns" in keys else KEY
        # From below upwards, so that the lines above keep their numbers.
        for name in sorted(keys.keys() & {"fns", KEY}, key=lambda name: keys[name][0].start_mark.line, reverse=True):
            first, last = _lines_of(*keys[name], lines)
            lines[first:last] = written if name == at else []
        return "\n".join(lines)

    def _origin(self, location: Location) -> tuple[Location, Location | None]:
        """A location in the task's own text, and in the functions file if it is of an included function."""
        if self._functions is None or location[:1] != ("fns",):
            return location, None
        if len(location) < 2 or not isinstance(location[1], int):
            return location, None
        own, included = self._origins[location[1]]
        if included is None:
            return ("fns", own or 0, *location[2:]), None
        return ((KEY,) if own is None else ("fns", own)), ("fns", included, *location[2:])


def read_source(text: str, file: str, folder: Path | None) -> TaskSource:
    """Reads a task's YAML, and the functions that it includes from a path relative to `folder`.

    Raises:
        TaskError: It is not YAML, or the functions file can't be read, is none, or lacks a function; `folder` is None,
            as the text comes from no file, and it includes functions.
    """
    node, content = yaml_format.load(text, file)
    if not isinstance(content, Mapping) or content.get(KEY) is None:
        return TaskSource(file, text, _without_key(content), node)
    source = TaskSource(file, text, content, node)
    path = content[KEY]
    if not isinstance(path, str) or not path.strip():
        raise TaskError(f"{source.place((KEY,))}: expected the path of a functions file, found {shortened(repr(path))}")
    if folder is None:
        raise TaskError(f"{source.place((KEY,))}: expected the functions in the text, because no file holds the task")
    functions = _functions(path, folder, source)
    entries = content.get("fns")
    origins: list[tuple[int | None, int | None]]
    if entries is None:
        entries = [*functions.by_name]
        found = [_included(entry, functions, source.place((KEY,))) for entry in entries]
        origins = [(None, index) for index, _ in found]
    elif isinstance(entries, list):
        found = [_included(entry, functions, source.place(("fns", index))) for index, entry in enumerate(entries)]
        origins = [(at, index) for at, (index, _) in enumerate(found)]
    else:
        raise TaskError(f"{source.place(('fns',))}: expected a list of functions, found {shortened(repr(entries))}")
    fns = [fn for _, fn in found]
    return TaskSource(file, text, {**_without_key(content), "fns": fns}, node, functions, tuple(origins))


def _without_key(content: Any) -> Any:
    return {key: value for key, value in content.items() if key != KEY} if isinstance(content, Mapping) else content


def _included(entry: Any, functions: _Functions, place: str) -> tuple[int | None, Any]:
    """The function that an entry of `fns` stands for, with its index in the functions file; its own has none."""
    if not isinstance(entry, str):
        return None, entry
    try:
        name, arguments = parsed_instance(entry) if "(" in entry else (entry, [])
        if name in functions.by_name:
            index, template = functions.by_name[name]
            return index, template.instance(arguments)
    except ValueError as error:
        raise TaskError(f"{place}: {error}") from None
    near = get_close_matches(name, functions.by_name, 1)
    known = f"did you mean {near[0]}?" if near else f"it has {shortened(', '.join(functions.by_name))}"
    raise TaskError(f"{place}: {functions.file} has no function {shortened(repr(name))}; {known}")


_SHIPPED = Path(__file__).resolve().parents[2]


def catalogue(path: Path) -> dict[str, Template]:
    """The functions of a file, by name.

    Raises:
        TaskError: It can't be read, or is no functions file.
    """
    return {name: template for name, (_, template) in _read_functions(path, str(path)).by_name.items()}


def _shipped(name: str) -> Path:
    """The file of a catalogue that comes with the project, in a checkout or where it is installed."""
    places = [_SHIPPED / "data", _SHIPPED / "pipeline" / "data"]
    return next((place for place in places if place.is_dir()), places[0]) / f"{name}.fns.yaml"


def _functions(path: str, folder: Path, source: TaskSource) -> _Functions:
    return _read_functions(_shipped(path) if path.isidentifier() else folder / path, source.place((KEY,)))


def _read_functions(full: Path, here: str) -> _Functions:
    try:
        text = yaml_format.read_text(full)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise TaskError(f"{here}: cannot read the functions file {shortened(str(full))}: {reason}") from None
    file = str(full)
    node, content = yaml_format.load(text, file)
    known = {"fns", "dims", "numbers"}
    if not isinstance(content, Mapping) or not {"fns"} <= content.keys() <= known or not _are_lists(content):
        expected = "a mapping with the list `fns`, and lists of the names of open `dims` and `numbers`"
        raise TaskError(f"{file}:1: expected a functions file, {expected}; see {here}")
    dims, numbers = content.get("dims", []), content.get("numbers", [])
    by_name: dict[str, tuple[int, Template]] = {}
    for index, fn in enumerate(content["fns"]):
        location = ("fns", index)
        place = f"{file}:{yaml_format.line_of(node, location)}: {yaml_format.format_location(location)}"
        name = fn.get("func_name") if isinstance(fn, Mapping) else None
        if not isinstance(name, str):
            raise TaskError(f"{place}: expected a function with a func_name, found {shortened(repr(fn))}")
        if name in by_name:
            raise TaskError(f"{place}: duplicate name {name!r}: it is already that of fns[{by_name[name][0]}]")
        by_name[name] = (index, template_of(fn, dims, numbers))
    return _Functions(file, node, by_name)


def _are_lists(content: Mapping[Any, Any]) -> bool:
    return all(isinstance(each, list) for each in content.values())


def _lines_of(key: yaml.Node, value: yaml.Node, lines: list[str]) -> tuple[int, int]:
    """The lines of a top-level key and its value, without blank lines and comments that follow."""
    first, last = key.start_mark.line, max(value.end_mark.line, key.start_mark.line + 1)
    if value.end_mark.column:
        last = value.end_mark.line + 1
    while last > first + 1 and (not lines[last - 1].strip() or lines[last - 1].startswith("#")):
        last -= 1
    return first, min(last, len(lines))
