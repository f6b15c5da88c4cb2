"""A task as a YAML mapping, for languages that have no form of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from step_runtime.base.errors import TaskError, describe_value
from step_runtime.tasks import yaml_format


@dataclass(frozen=True)
class TextTask:
    """An operator as the YAML that its author wrote; see `language.Task`.

    Attributes:
        name: It identifies the task across runs.
        statement: YAML, without `impl`.
        impl: The author's solution, None for none.
    """

    name: str
    statement: str
    impl: str | None = None

    @cached_property
    def content(self) -> Mapping[str, Any]:
        """The mapping that the statement holds."""
        found: Mapping[str, Any] = yaml_format.load(self.statement, self.name)[1]
        return found

    def without_impl(self) -> TextTask:
        """The task alone."""
        return replace(self, impl=None)

    def text_with(self, impl: str) -> str:
        """The text of a task file with this solution."""
        return self.statement + yaml_format.dump({"impl": impl})


def read_text_task(text: str, name: str, source: str, keys: Mapping[str, type | tuple[type, ...]]) -> TextTask:
    """Reads a task that is a YAML mapping with these keys, each of a type, and perhaps `impl`.

    A key whose types include `type(None)` may be absent.

    Raises:
        TaskError: The text is none; the message names the source, the line and what was expected.
    """
    node, content = yaml_format.load(text, source)
    if not isinstance(content, Mapping):
        raise TaskError(f"{source}:1: expected a mapping with the keys {', '.join(keys)}")
    allowed = dict(keys) | {"impl": (str, type(None))}
    for key in content:
        if key not in allowed:
            line = yaml_format.line_of(node, (str(key),))
            raise TaskError(f"{source}:{line}: {key}: unknown key; expected one of {', '.join(allowed)}")
    for key, kind in allowed.items():
        if not isinstance(content.get(key), kind):
            _refuse(source, key, content, kind, yaml_format.line_of(node, (key,)) if key in content else 1)
    return TextTask(name, _without_impl(text, node, content), content.get("impl"))


def _without_impl(text: str, node: Any, content: Mapping[str, Any]) -> str:
    """The author's own text, without the lines of `impl`."""
    if node.flow_style:
        return yaml_format.dump({key: value for key, value in content.items() if key != "impl"})
    lines = text.splitlines(keepends=True)
    for key, value in node.value:
        if key.value == "impl":
            end = value.end_mark.line + (value.end_mark.column > 0)
            lines[key.start_mark.line : end] = []
    return "".join(lines).strip("\n") + "\n"


def _refuse(source: str, key: str, content: Mapping[str, Any], kind: type | tuple[type, ...], line: int) -> None:
    kinds: Sequence[type] = kind if isinstance(kind, tuple) else (kind,)
    expected = " or ".join(each.__name__ for each in kinds if each is not type(None))
    found = f"found {describe_value(content[key])}" if key in content else "this key is missing"
    raise TaskError(f"{source}:{line}: {key}: expected {expected}, {found}")
