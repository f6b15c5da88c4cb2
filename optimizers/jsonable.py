"""Conversion of any field value of a module to JSON data.

Hand-written where `pydantic_core.to_jsonable_python` exists, since tasks are named by a digest of this text: here sets
are sorted, whose order there differs between processes, and DSPy's examples are supported.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any


def _text(value: Any) -> Any:
    return to_jsonable(value.value) if isinstance(value, enum.Enum) else str(value)


def to_jsonable(value: Any, other: Callable[[Any], Any] = _text) -> Any:
    """`value` as dict, list, str, int, float, bool and None.

    Pydantic models and dataclasses become dicts, a DSPy example or prediction becomes the dict of its fields, an array
    becomes a list, and an object with `__jsonable__` what that gives. Anything else becomes what `other` returns for
    it, by default its `str`, or an Enum's value: a record that lacks a detail is better than a run that ends over it.
    """
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if (own := getattr(value, "__jsonable__", None)) is not None and not isinstance(value, type):
        return own()
    if hasattr(value, "model_dump"):
        try:
            return value.model_dump(mode="json")
        except ValueError:  # it contains values outside JSON
            return other(value)
    if hasattr(value, "toDict"):
        return to_jsonable(value.toDict(), other)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_jsonable(getattr(value, field.name), other) for field in dataclasses.fields(value)}
    return _elements(value, other)


def _elements(value: Any, other: Callable[[Any], Any]) -> Any:
    """A container, or anything else."""
    if hasattr(value, "tolist"):  # arrays, whose text omits the middle of long ones, and their numbers
        return to_jsonable(value.tolist(), other)
    if isinstance(value, Mapping):
        return {str(key): to_jsonable(item, other) for key, item in value.items()}
    if isinstance(value, Set):
        return sorted((to_jsonable(item, other) for item in value), key=str)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [to_jsonable(item, other) for item in value]
    return other(value)
