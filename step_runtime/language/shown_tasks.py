"""Tasks as LMs are shown them: what others wrote in one is shown by the rule of `comments`, and names stay one name.

A task shown is a task, whose code is never run; names that the LM's program takes from it are changed back.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

from step_runtime.language.comments import harmless_name, harmless_title, printable_code
from step_runtime.tasks.task import Task

_TITLES = ("name", "test_name")
_NAMES = ("inputs", "parameters", "outputs", "sizes")
CHANGED = re.compile(r"\bname_[0-9a-f]{8}\b")
"""What a name looks like that was changed."""


@functools.lru_cache(maxsize=1024)
def shown_task(task: Task) -> Task:
    """The task without `impl`, and without what could steer a reader: in code, names, types, and keys.

    The task itself, if there is nothing of that in it.
    """
    content = task.model_dump(by_alias=True, exclude={"impl"}, exclude_defaults=True)
    shown = _shown(content, "", "")
    if shown == content:
        return task.without_impl()
    return Task.model_validate(shown).named(harmless_title(task.name))


def _shown(value: Any, key: str, place: str) -> Any:
    """What a key of a list or mapping named `place` holds."""
    if isinstance(value, dict):
        names = {name: harmless_name(name) if key == "sizes" else name for name in value}
        return {names[name]: _shown(item, name, key or place) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(item, key, place) for item in value]
    if not isinstance(value, str):
        return value
    if key == "func_name" or (key == "name" and place in _NAMES):
        return harmless_name(value)
    return harmless_title(value) if key in _TITLES else printable_code(value)


def restored(task: Task, program: str) -> str:
    """A program for `shown_task(task)` as one for the task: with the names that this has."""
    if not CHANGED.search(program):
        return program
    names = {shown: name for name in _names(task) if (shown := harmless_name(name)) != name}
    return CHANGED.sub(lambda found: names.get(found[0], found[0]), program)


def _names(task: Task) -> Iterator[str]:
    """The names that a program may take from a task."""
    yield from (spec.name for spec in task.inputs)
    yield from (spec.name for spec in task.parameters)
    yield from (spec.func_name for spec in task.fns)
    yield from task.sizes
    yield from (f"{name}_value" for name in task.sizes)
    yield from re.findall(r"[^\W\d]\w*", task.global_ or "")
