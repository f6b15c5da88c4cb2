"""What methods of Python's lists, dictionaries and texts do, also where data decide which element is meant."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Any

import numpy as np

from pipeline.lms.embedded.influence.arrays import Array, Unread
from pipeline.lms.embedded.influence.branches import any_of

_PLAIN: dict[type, frozenset[str]] = {
    list: frozenset(
        ["append", "extend", "insert", "pop", "reverse", "remove", "index", "count", "copy", "clear", "sort"]
    ),
    tuple: frozenset(("index", "count")),
    dict: frozenset(["get", "items", "keys", "values", "pop", "setdefault", "update", "copy", "clear"]),
    set: frozenset(["add", "discard", "remove", "union", "copy", "update"]),
    str: frozenset(
        [
            "split",
            "join",
            "replace",
            "strip",
            "startswith",
            "endswith",
            "upper",
            "lower",
            "index",
            "count",
            "find",
        ]
    ),
}
_LONGEST = 1000
_MOST_WITHIN = 20_000
CHANGING = frozenset(
    ["append", "extend", "insert", "pop", "reverse", "remove", "clear", "sort", "setdefault", "update", "add",
    "discard"]
)  # fmt: skip
"""The methods that change what they are called on."""


def of_data(value: Any) -> bool:
    """Whether a value, or an element of a sequence, depends on data."""
    if isinstance(value, Array):
        return bool(np.isnan(value.values).any())
    return isinstance(value, list | tuple) and any(map(of_data, value))


def items_within(value: Any) -> int:
    """The number of items of a sequence, of those within these, and so on: each as often as it is met.

    Raises:
        Unread: There are too many, as of a list that holds another one many times, or itself.
    """
    count, left = 0, [value]
    while left:
        one = left.pop()
        if not isinstance(one, Sized) or isinstance(one, Array):
            continue
        count += len(one)
        if count > _MOST_WITHIN:
            raise Unread("a sequence of too many items")
        if isinstance(one, dict):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple | set):
            left += one
    return count


def plain(value: Any) -> Any:
    """A constant of no dims as a number; other values as they are."""
    if isinstance(value, Array) and not value.ndim and not np.isnan(value.values):
        number = float(value.values)
        return int(number) if number.is_integer() else number
    return value


def called_on(owner: Any, name: str, args: Sequence[Any], named: dict[str, Any]) -> Any:
    """The result of a method of a list, a tuple, a dictionary, a set or a text.

    Raises:
        Unread: Nothing is known of it.
    """
    if name not in _PLAIN.get(type(owner), ()) or len(str(named)) > 80:
        raise Unread(f"the method {name}")
    if name in ("extend", "join"):
        _bounded(owner, args)
    if isinstance(owner, list) and name in ("insert", "pop", "index", "remove", "count", "sort"):
        return _searched(owner, name, list(args), named)
    if isinstance(owner, dict):
        args = [plain(args[0]), *args[1:]] if args else []
        if name in ("items", "keys", "values"):
            return list(getattr(owner, name)())
    return getattr(owner, name)(*args, **named)


def _bounded(owner: Any, args: Sequence[Any]) -> None:
    """Checks that a result stays short.

    Raises:
        Unread: It may be long.
    """
    longest = sum(len(one) for one in (owner, *args) if isinstance(one, list | tuple | str | range))
    if longest > _LONGEST:
        raise Unread("a sequence that is too long")


def _searched(owner: list[Any], name: str, args: list[Any], named: dict[str, Any]) -> Any:
    """A method that finds its element by a place or by equality."""
    found = args[:1] if name in ("insert", "pop") else [*owner, *args[:1]]
    if not any(map(of_data, found)):
        if name == "sort" and named.get("key") is not None:
            raise Unread("an order by a function")
        if not all(isinstance(plain(one), int | float | str) for one in found):
            raise Unread("a comparison of tensors")
        if name in ("index", "remove", "count", "sort"):
            owner[:] = map(plain, owner)
        return getattr(owner, name)(*map(plain, args[:1]), *args[1:], **named)
    if name in ("index", "count"):
        return any_of([_sources(found)])
    if name == "insert":
        owner.append(args[1])
    whole = any_of(owner, *found)
    owner[:] = [whole] * (len(owner) - (name in ("pop", "remove")))
    return whole if name == "pop" else None


def _sources(found: Sequence[Any]) -> Array:
    """A number of which no more is known than what it depends on."""
    number: Array = any_of([0.0], *found)
    return number


def item_of(owner: Any, index: Any) -> Any:
    """An element of a sequence or a dictionary."""
    if isinstance(index, Array) and of_data(index):
        return any_of(list(owner.values()) if isinstance(owner, dict) else list(owner), index)
    if isinstance(index, tuple):
        return owner[tuple(map(plain, index))]
    return owner[plain(index)]


def set_item(owner: Any, index: Any, part: Any) -> None:
    """Replaces an element of a list or a dictionary.

    Raises:
        Unread: It is none of these.
    """
    if not isinstance(owner, list | dict):
        raise Unread("a part of something that is not known")
    if not (isinstance(index, Array) and of_data(index)):
        place: Any = tuple(map(plain, index)) if isinstance(index, tuple) else plain(index)
        owner[place] = part
        return
    places: list[Any] = list(owner) if isinstance(owner, dict) else list(range(len(owner)))
    for place in places:
        owner[place] = any_of([owner[place], part], index)
