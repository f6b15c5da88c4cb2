"""Whether the fields of an object that another process describes have the types that its class declares.

Checked to the depth that the types say: a tuple's elements, a mapping's keys and values, the words of a `Literal`. What
can't be resolved here, such as a name that a module imports for its annotations only, is not checked.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import sys
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin

_PAIR = 2


def wrong_field(value: Any) -> str | None:
    """The first field of a frozen object of ours whose value is not of the type declared, or None."""
    kind: Any = type(value)
    hints = _hints(kind)
    return next((name for name, hint in hints.items() if not conforms(getattr(value, name), hint)), None)


@functools.cache
def _hints(kind: Any) -> Mapping[str, Any]:
    """The types of a dataclass's fields; `Any` for one that can't be resolved."""
    found: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        space, declared = vars(sys.modules[base.__module__]), vars(base).get("__annotations__", {})
        for name in declared.keys() & {field.name for field in dataclasses.fields(kind)}:
            one = types.SimpleNamespace(__annotations__={name: declared[name]})
            try:
                found[name] = typing.get_type_hints(one, space)[name]
            except (NameError, AttributeError, TypeError):
                found[name] = Any
    return found


def conforms(value: Any, hint: Any) -> bool:
    """Whether a value is of a type, as far as this can be known here; an int is a float, too."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is typing.Annotated:
        return conforms(value, parts[0])
    if origin in (Union, types.UnionType):
        return any(conforms(value, part) for part in parts)
    if origin is Literal:
        return any(type(value) is type(part) and value == part for part in parts)
    if hint is None or hint is type(None):
        return value is None
    if hint is float:
        return type(value) in (int, float)
    if hint in (bool, int, str):
        return type(value) is hint
    if isinstance(origin, type):
        return isinstance(value, origin) and _parts_conform(value, origin, parts)
    # What remains is a class, or what has no instances to look for: Any, a type variable, a type's name alone.
    return isinstance(value, hint) if _is_class(hint) else True


def _parts_conform(value: Any, origin: type, parts: tuple[Any, ...]) -> bool:
    if origin is tuple and (len(parts) != _PAIR or parts[1] is not Ellipsis):
        return len(value) == len(parts) and all(map(conforms, value, parts))
    if issubclass(origin, collections.abc.Mapping) and len(parts) == _PAIR:
        return all(conforms(key, parts[0]) and conforms(item, parts[1]) for key, item in value.items())
    if issubclass(origin, collections.abc.Collection) and parts:
        return not isinstance(value, str) and all(conforms(item, parts[0]) for item in value)
    return True


def _is_class(hint: Any) -> bool:
    return isinstance(hint, type) and not getattr(hint, "_is_protocol", False) and hint is not Any
