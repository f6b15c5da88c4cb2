"""Values as JSON can hold them, for whatever a module's fields may carry."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any


def plain(value: Any, other: Callable[[Any], Any] = str) -> Any:
    """`value` in terms of dict, list, str, int, float, bool and None.

    Pydantic models and dataclasses become dicts, a DSPy example or prediction the dict of its fields; what is none of
    these becomes what `other` makes of it, by default its `str`, as a record that lacks a detail is better than a run
    that ends over it.
    """
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if hasattr(value, "model_dump"):
        try:
            return value.model_dump(mode="json")
        except ValueError:  # it holds what JSON cannot
            return other(value)
    if hasattr(value, "toDict"):
        return plain(value.toDict(), other)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name), other) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item, other) for key, item in value.items()}
    if isinstance(value, Set):
        return sorted((plain(item, other) for item in value), key=str)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [plain(item, other) for item in value]
    return other(value)
