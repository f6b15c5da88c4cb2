"""Answers of worker processes as data: nothing that a worker sends is executed by whoever reads it.

An answer is JSON. A value that JSON has no word for is an array that begins with a tag: a tuple, a dict, a sum of dims,
or an object of one of this project's own frozen classes, which is its class's name and its fields, of the types that
the class declares. An exception is its
class's name and its message, and becomes one of Python's or of this project's own exceptions, or a `RuntimeError`.
"""

from __future__ import annotations

import builtins
import collections.abc
import dataclasses
import functools
import importlib
import json
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union, get_args, get_origin

LONGEST = 2**24
"""Bytes of an answer."""

_LONGEST_MESSAGE = 100_000
_LARGEST_POWER = 64
"""The product of the powers in a dim, one within another."""
_MOST_PARTS = 1000
"""Numbers, names and operations of a dim: sympy computes while it builds one."""
_LARGEST_NUMBER = 2**64
_RETURNED, _RAISED = b"+", b"-"
_PACKAGES = ("step_runtime.", "signatures.", "optimizers.", "pipeline.")
"""The packages whose classes an answer may name."""
_RAISING = "step_runtime."
"""The package whose exceptions an answer may name; those of the pipeline end a command with their message."""
_LARGEST_KEY = 2**60
"""Larger integers could all have one hash, and a set of them would take for ever."""
_LARGEST_FLOAT = 1e300
"""No time or cost is beyond; what is no number at all, or infinite, is no value of JSON either."""
_SHOWN = (type(None), bool, int, float, str)


def returned(value: Any) -> bytes:
    """The result of a function, as an answer.

    Raises:
        TypeError: The value is not data.
    """
    return _RETURNED + json.dumps(_Encoder().encoded(value), separators=(",", ":")).encode()


def raised(error: BaseException) -> bytes:
    """An exception, as an answer."""
    kind = type(error)
    message = error.args[0] if len(error.args) == 1 and isinstance(error.args[0], str) else str(error)
    return _RAISED + json.dumps([f"{kind.__module__}:{kind.__qualname__}", message[:_LONGEST_MESSAGE]]).encode()


def read(answer: bytes) -> tuple[bool, Any]:
    """Whether a function returned, and its result or exception.

    Raises:
        ValueError: It is not an answer.
    """
    try:
        content = json.loads(answer[1:])
        if answer[:1] == _RETURNED:
            return True, _Decoder().decoded(content)
        kind, message = content
        if answer[:1] == _RAISED and isinstance(kind, str) and isinstance(message, str):
            return False, _exception(kind, message)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, ImportError) as error:
        raise ValueError(f"gave something that is not an answer: {str(error).partition(chr(10))[0]}") from error
    raise ValueError("gave something that is not an answer")


def _exception(name: str, message: str) -> Exception:
    module, _, own = name.partition(":")
    found = getattr(builtins, own, None) if module == "builtins" else None
    if module.startswith(_RAISING):
        found = _named(name)
    if isinstance(found, type) and issubclass(found, Exception):
        try:
            return found(message)
        except TypeError:  # such as UnicodeDecodeError, which takes more
            pass
    return RuntimeError(f"{own.rpartition('.')[2]}: {message}")


class _Encoder:
    """Writes one value; a declared function, which is itself and no other, once."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}

    def encoded(self, value: Any) -> Any:
        kind: Any = type(value)
        if kind in _SHOWN:
            return value
        if kind is tuple or kind is list or kind is frozenset:
            return [kind.__name__, *map(self.encoded, value)]
        if isinstance(value, Mapping):
            return ["dict", *([self.encoded(key), self.encoded(item)] for key, item in value.items())]
        fields = _fields(kind)
        if fields is not None:
            return [_name(kind), *[self.encoded(getattr(value, field)) for field in fields]]
        return self._other(value, kind)

    def _other(self, value: Any, kind: type) -> Any:
        if hasattr(kind, "model_validate"):
            return ["model", _name(kind), value.model_dump(mode="json")]
        if kind.__module__ == "step_runtime.base.functions" and kind.__name__ == "DeclaredFn":
            if id(value) in self._seen:
                return ["same", self._seen[id(value)]]
            self._seen[id(value)] = len(self._seen)
            parts = (value.func_name, value.name, (value.input, value.output), value.stateful)
            return ["function", *map(self.encoded, parts)]
        if kind.__module__.startswith("sympy."):
            return ["dim", _of_dim(value)]
        raise TypeError(f"a {kind.__qualname__} is not data")


class _Decoder:
    """Reads one value."""

    def __init__(self) -> None:
        self._functions: list[Any] = []

    def decoded(self, value: Any) -> Any:
        if type(value) is not list:
            if type(value) in _SHOWN:
                return value
            raise ValueError("an object without a tag")
        tag, *parts = value
        read = _COLLECTIONS.get(tag)
        if read is not None:
            return read(map(self.decoded, parts))
        if ":" in tag:
            return self._object(tag, parts)
        return self._other(tag, parts)

    def _object(self, name: str, parts: list[Any]) -> Any:
        kind = _named(name)
        fields = _fields(kind)
        if fields is None or len(fields) != len(parts):
            raise ValueError(f"{name} has other fields")
        found = object.__new__(kind)
        for field, part in zip(fields, parts, strict=True):
            object.__setattr__(found, field, self.decoded(part))
        if wrong := wrong_field(found):
            raise ValueError(f"{name} has a {wrong} of another type")
        return found

    def _other(self, tag: str, parts: list[Any]) -> Any:
        match tag, parts:
            case "dict", _:
                return {_key(self.decoded(key)): self.decoded(item) for key, item in parts}
            case "model", [str(name), dict(content)]:
                return _named(name).model_validate(content)
            case "same", [int(number)]:
                return self._functions[number]
            case "function", _:
                from step_runtime.base.functions import DeclaredFn

                label, name, types, stateful = map(self.decoded, parts)
                self._functions.append(DeclaredFn(label, name, types, stateful=stateful))
                return self._functions[-1]
            case "dim", [content]:
                if _parts(content, _LARGEST_POWER) > _MOST_PARTS:
                    raise ValueError("a dim of too many parts")
                return _built(content)
        raise ValueError(f"no {tag!r}")


def _key(value: Any) -> Any:
    """A value that is to be found by its hash; raises `ValueError` for a number that is too large."""
    if isinstance(value, int) and abs(value) >= _LARGEST_KEY:
        raise ValueError("a key of an unsupported type")
    if isinstance(value, tuple | frozenset):
        for part in value:
            _key(part)
    return value


_COLLECTIONS: dict[Any, Callable[[Any], Any]] = {
    "tuple": tuple,
    "list": list,
    "frozenset": lambda parts: frozenset(map(_key, parts)),
}


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


@functools.cache
def _fields(kind: Any) -> tuple[str, ...] | None:
    """The fields of a frozen class of ours; None for any other class."""
    if not dataclasses.is_dataclass(kind) or not kind.__module__.startswith(_PACKAGES):
        return None
    return tuple(field.name for field in dataclasses.fields(kind))


@functools.cache
def _named(name: str) -> Any:
    """A class of ours; raises `ValueError` for any other."""
    module, _, own = name.partition(":")
    found = getattr(importlib.import_module(module), own, None) if module.startswith(_PACKAGES) else None
    if not isinstance(found, type) or _name(found) != name:
        raise ValueError(f"{name!r} is none of this project's classes")
    return found


def _of_dim(dim: Any) -> Any:
    """A dim: its name, its value, or its operation and what that is of."""
    if dim.is_Symbol:
        return dim.name
    if dim.is_Rational:
        return [int(dim.p), int(dim.q)]
    return [type(dim).__name__, *map(_of_dim, dim.args)]


def _parts(content: Any, power: int) -> int:
    """The number of a dim's parts.

    Args:
        content: The dim as it is sent.
        power: The largest power that it may be raised to, those around it included.

    Raises:
        ValueError: It is not a dim, or its numbers are too large to compute with.
    """
    match content:
        case str():
            return 1
        case [int(over), int(under)] if under and max(abs(over), abs(under)) < _LARGEST_NUMBER:
            return 1
        case ["Pow", base, [int(own), 1]] if 0 < abs(own) <= power:
            return 1 + _parts(base, power // abs(own))
        case ["Add" | "Mul", *parts]:
            return 1 + sum(_parts(part, power) for part in parts)
    raise ValueError("not a dim")


def _built(content: Any) -> Any:
    import sympy

    match content:
        case str(name):
            return sympy.Symbol(name)
        case [int(over), int(under)]:
            return sympy.Rational(over, under)
        case ["Pow", base, [int(power), _]]:
            return sympy.Pow(_built(base), power)
    kind, *parts = content
    return getattr(sympy, kind)(*map(_built, parts))


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


@functools.lru_cache(maxsize=256)
def result_type(function: Callable[..., Any]) -> Any:
    """What a function says that it returns; `Any` where that can't be known here."""
    declared = types.SimpleNamespace(
        __annotations__={"return": getattr(function, "__annotations__", {}).get("return", Any)}
    )
    try:
        return typing.get_type_hints(declared, vars(sys.modules[function.__module__]))["return"]
    except (NameError, AttributeError, TypeError):
        return Any


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
        return type(value) in (int, float) and abs(value) < _LARGEST_FLOAT
    if hint in (bool, int, str):
        return type(value) is hint
    if isinstance(origin, type):
        return isinstance(value, origin) and _parts_conform(value, origin, parts)
    # What remains is a class, or what has no instances to look for: Any, a type variable, a type's name alone.
    is_class = isinstance(hint, type) and not getattr(hint, "_is_protocol", False) and hint is not Any
    return isinstance(value, hint) if is_class else True


def _parts_conform(value: Any, origin: type, parts: tuple[Any, ...]) -> bool:
    if origin is tuple and (len(parts) != _PAIR or parts[1] is not Ellipsis):
        return len(value) == len(parts) and all(map(conforms, value, parts))
    if issubclass(origin, collections.abc.Mapping) and len(parts) == _PAIR:
        return all(conforms(key, parts[0]) and conforms(item, parts[1]) for key, item in value.items())
    if issubclass(origin, collections.abc.Collection) and parts:
        return not isinstance(value, str) and all(conforms(item, parts[0]) for item in value)
    return True
