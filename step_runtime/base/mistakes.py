"""The errors of a file's content in the project's words, in place of Pydantic's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from step_runtime.base.errors import describe_value

_EXPECTED = {
    "bool": "true or false",
    "bytes": "text",
    "date": "a date",
    "dict": "a mapping",
    "finite_number": "a finite number",
    "float": "a number",
    "frozen_set": "a list",
    "int": "a whole number",
    "json": "JSON",
    "list": "a list",
    "mapping": "a mapping",
    "model": "a mapping",
    "none_required": "null",
    "set": "a list",
    "string": "text",
    "tuple": "a list",
}
"""By the first words of Pydantic's types of errors."""

_BOUNDS = {"ge": "{} or more", "gt": "more than {}", "le": "{} or less", "lt": "less than {}"}


def mistake(item: ErrorDetails) -> str:
    """One of Pydantic's errors in a line: `expected a whole number, found 'fast'`."""
    kind, limits = item["type"], item.get("ctx", {})
    if kind == "missing":
        return "this key is missing"
    if kind == "extra_forbidden":
        return "unknown key"
    if kind in ("value_error", "assertion_error"):
        return item["msg"].partition(", ")[2]
    return f"expected {_expected(kind, limits, item['msg'])}, found {describe_value(item['input'])}"


def _expected(kind: str, limits: Mapping[str, Any], message: str) -> str:
    bounds = [text.format(limits[name]) for name, text in _BOUNDS.items() if name in limits]
    if bounds:
        return bounds[0]
    if "expected" in limits:
        return str(limits["expected"])
    for name, most in (("max_length", "at most"), ("min_length", "at least")):
        if name in limits:
            return f"{most} {limits[name]} {'characters' if kind.startswith('string') else 'elements'}"
    names = [name for name in _EXPECTED if kind.startswith(name)]
    return _EXPECTED[max(names, key=len)] if names else message.removeprefix("Input should be ").lower()


def first_mistake(error: ValidationError) -> str:
    """The first of Pydantic's errors with its place, in a line: `bytes.fp32: expected 1 or more, found 0`."""
    item = error.errors(include_url=False)[0]
    # Members of a union are no part of a file.
    parts = [str(part) for part in item["loc"] if part not in ("int", "float") and "[" not in str(part)]
    place = ".".join(parts)
    return f"{place}: {mistake(item)}" if place else mistake(item)
