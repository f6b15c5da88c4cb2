"""Values as JSON can hold them, for whatever a module's fields may carry."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence, Set
from typing import Any


def plain(value: Any) -> Any:
    """`value` in terms of dict, list, str, int, float, bool and None.

    Pydantic models and dataclasses become dicts, a DSPy example or prediction the dict of its fields; what is
    none of these becomes its `str`, as a record that lacks a detail is better than a run that ends over it.
    """
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "toDict"):
        return plain(value.toDict())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Set):
        return sorted(map(plain, value), key=str)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [plain(item) for item in value]
    return str(value)
