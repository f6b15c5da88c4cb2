"""Fields with the types of a signature, from JSON data: of the journal of an interrupted run, or of a loaded record."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter


def with_types(fields: Mapping[str, Any], annotations: Mapping[str, Any]) -> dict[str, Any]:
    """The fields, each with its annotated type; a value that does not fit its annotation stays as it is."""
    return {name: _typed(value, annotations[name]) if name in annotations else value for name, value in fields.items()}


def signature_types(signature: Any) -> dict[str, Any]:
    """The annotations of a signature's fields, by name; plain texts are omitted."""
    found = {name: field.annotation for name, field in signature.fields.items()}
    return {name: annotation for name, annotation in found.items() if annotation is not str}


def _typed(value: Any, annotation: Any) -> Any:
    try:
        return _adapter(annotation).validate_python(value)
    except Exception:  # a user's class may raise anything
        return value


@functools.lru_cache(maxsize=256)
def _adapter(annotation: Any) -> TypeAdapter[Any]:
    return TypeAdapter(annotation)
