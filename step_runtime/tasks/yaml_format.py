"""YAML in and out: the safe loader with bounds and places, and a dumper that keeps code readable."""

from __future__ import annotations

import math
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from step_runtime.base.errors import TaskError
from step_runtime.base.syntax import HUGE_INT

Location: TypeAlias = tuple[str | int, ...]
"""A place in a task, such as `("inputs", 0, "dtype")`."""

MAX_CHARACTERS = 200_000
MAX_NODES = 20_000
MAX_ALIASES = 100
MAX_DEPTH = 50
_FLOW_KEYS = {"dims", "dtype", "input_dtype", "output_dtype", "init"}
_CODE_KEYS = {"global", "apply", "data_transform", "impl", "desc", "input_impl", "output_impl", "explanation"}


_UNQUOTED = re.compile(r"[\[,]\s*(Buffer|Multihot)\(")
"""A type in a list of YAML, at whose commas and brackets YAML divides it."""


def read_text(path: Path) -> str:
    """The text of a regular file, whose size is looked at before it is read.

    Raises:
        OSError: It can't be read, or is not a regular file.
        ValueError: It is too long, or not UTF-8 text.
    """
    # Opened without waiting, as a FIFO would keep it waiting for a writer.
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(number, "rb") as file:
        found = os.fstat(number)
        if stat.S_ISDIR(found.st_mode):
            raise OSError("it is a folder")
        if not stat.S_ISREG(found.st_mode):
            raise OSError("it is not a regular file")
        data = file.read(4 * MAX_CHARACTERS + 1) if found.st_size <= 4 * MAX_CHARACTERS else None
    try:
        text = None if data is None or len(data) > 4 * MAX_CHARACTERS else data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text") from None
    if text is None or len(text) > MAX_CHARACTERS:
        raise ValueError(f"more than {MAX_CHARACTERS:,} characters, the limit of a task file")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def load(text: str, source: str) -> tuple[yaml.Node | None, Any]:
    """The text's node tree (for places) and its content.

    Raises:
        TaskError: It is not YAML, repeats a key, or exceeds the bounds with aliases expanded.
    """
    if len(text) > MAX_CHARACTERS:
        raise TaskError(f"{source}: {len(text):,} characters; the limit is {MAX_CHARACTERS:,}")
    try:
        _check_events(text, source)
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            _check_nodes(node, source, {}, [])
            return node, None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
        line = text.splitlines()[mark.line] if mark and mark.line < len(text.splitlines()) else ""
        quotes = """; in a list, a type needs quotes: [fp32, "Buffer(fp32, [D])"]""" if _UNQUOTED.search(line) else ""
        raise TaskError(f"{place}: expected YAML: {getattr(error, 'problem', None) or error}{quotes}") from None
    except (ValueError, RecursionError) as error:
        reason = HUGE_INT if "set_int_max_str_digits" in str(error) else error
        raise TaskError(f"{source}: expected YAML: {reason}") from None


def _check_events(text: str, source: str) -> None:
    """Checks a text against the limits before anything is built from it."""
    depth = aliases = values = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        aliases += isinstance(event, yaml.AliasEvent)
        values += isinstance(event, yaml.NodeEvent)
        bounds = ((depth, MAX_DEPTH, "levels"), (aliases, MAX_ALIASES, "aliases"), (values, MAX_NODES, "values"))
        for figure, limit, what in bounds:
            if figure > limit:
                line = event.start_mark.line + 1 if event.start_mark else 1
                raise TaskError(f"{source}:{line}: {figure:,} {what} up to here; the limit is {limit:,}")


def _check_nodes(node: yaml.Node | None, source: str, sizes: dict[int, int], path: list[int]) -> int:
    """The number of nodes below, aliases expanded."""
    if node is None or isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) in path:
        raise TaskError(f"{source}:{node.start_mark.line + 1}: an alias inside its own anchor")
    if id(node) not in sizes:
        path.append(id(node))
        children = node.value
        if isinstance(node, yaml.MappingNode):
            _check_keys(node, source)
            children = [child for pair in node.value for child in pair]
        sizes[id(node)] = 1 + sum(_check_nodes(child, source, sizes, path) for child in children)
        path.pop()
        if sizes[id(node)] > MAX_NODES:
            raise TaskError(f"{source}: more than {MAX_NODES:,} values once its aliases are expanded")
    return sizes[id(node)]


def _check_keys(node: yaml.MappingNode, source: str) -> None:
    seen: dict[str, int] = {}
    for key, _ in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise TaskError(f"{source}:{line}: expected a name as key, found a {key.id}")
        if key.value in seen:
            raise TaskError(f"{source}:{line}: duplicate key {key.value!r}; line {seen[key.value]} has it already")
        seen[key.value] = line


def line_in(text: str, location: Location) -> int:
    """As `line_of`, for a loaded text."""
    return line_of(yaml.SafeLoader(text).get_single_node(), location)


def line_of(node: yaml.Node | None, location: Location) -> int:
    """The line, from 1, of a place, or of the nearest node around it."""
    for part in location:
        child = _child(node, part)
        if child is None:
            break
        node = child
    return node.start_mark.line + 1 if node is not None else 1


def _child(node: yaml.Node | None, part: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        child: yaml.Node = node.value[part]
        return child
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == part:
                # A block's own mark is its first line; the key's line is more useful.
                return value if not isinstance(value, yaml.ScalarNode) else key  # type: ignore[no-any-return]
    return None


def block_offset(text: str, key: str) -> tuple[int, int] | None:
    """Where a top-level literal block (`key: |`) begins: the lines above and the columns left of its first character.

    None where the value is no such block, so that its lines are not the file's.
    """
    node = yaml.SafeLoader(text).get_single_node()
    value = _value(node, key)
    if not isinstance(value, yaml.ScalarNode) or value.style != "|":
        return None
    above = value.start_mark.line + 1
    below = text.split("\n")[above:]
    content = value.value.split("\n")
    first = next((number for number, line in enumerate(content) if line.strip()), None)
    if first is None or first >= len(below):
        return None
    left = len(below[first]) - len(content[first])
    return (above, left) if below[first][left:] == content[first] else None


def _value(node: yaml.Node | None, key: str) -> yaml.Node | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value for name, value in pairs if name.value == key), None)


def format_location(location: Location) -> str:
    """A place as `inputs[0].dtype`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.lstrip(".") or "the task"


class _Flow(list[Any]):
    """A list to be written on one line."""


class LiteralText(str):
    """A string that `dump` writes as a literal block."""


class _Dumper(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indents lists below their key."""
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        """Writes equal values out, without aliases."""
        return True


_Dumper.add_representer(_Flow, lambda d, v: d.represent_sequence("tag:yaml.org,2002:seq", v, flow_style=True))
_Dumper.add_representer(LiteralText, lambda d, v: d.represent_scalar("tag:yaml.org,2002:str", v, style="|"))


def dump(content: Any) -> str:
    """YAML with code in literal blocks, dims and types in flow lists, keys in their own order."""
    return yaml.dump(_styled(content), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)


def _styled(value: Any, key: str = "") -> Any:
    if isinstance(value, Mapping):
        return {k: _Flow(v) if key == "sizes" and isinstance(v, list) else _styled(v, str(k)) for k, v in value.items()}
    if isinstance(value, float) and math.isinf(value):
        return str(value)  # `-inf`, as task files write it; YAML's own form is `-.inf`
    if isinstance(value, list | tuple):
        flow = key in _FLOW_KEYS
        items = [_styled(item, "" if flow else key) for item in value]
        return _Flow(items) if flow else items
    if isinstance(value, str) and key in _CODE_KEYS:
        return LiteralText(value)
    return value
