"""A value conforms to a type as deep as the type says; what can't be resolved is not checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest

from pipeline.verification.isolation.field_types import conforms, wrong_field
from step_runtime.base.errors import Span
from step_runtime.verification.verify import Verdict

CASES: list[tuple[Any, list[Any], list[Any]]] = [
    (bool, [True], [1, "yes", None]),
    (int, [1], [True, 1.0, "1"]),
    (float, [1, 0.5], [True, "1"]),
    (str | None, ["x", None], [1]),
    (Literal["run", "value"], ["run"], ["other", None]),
    (tuple[int, ...], [(), (1, 2)], [[1], ("x",)]),
    (tuple[int, str], [(1, "x")], [(1,), ("x", 1)]),
    (Mapping[str, float], [{}, {"a": 1}], [[], {1: 1}, {"a": "b"}]),
    (Sequence[str], [[], ("a",)], ["text", [1]]),
    (Span | None, [Span(1, 2, 3, 4), None], [(1, 2, 3, 4)]),
    (Any, [1, None, "x"], []),
]


@pytest.mark.parametrize(("hint", "right", "wrong"), CASES)
def test_values_of_a_type(hint: Any, right: list[Any], wrong: list[Any]) -> None:
    """Those of it, and those of none."""
    assert [value for value in right if not conforms(value, hint)] == []
    assert [value for value in wrong if conforms(value, hint)] == []


def test_the_first_wrong_field_is_named() -> None:
    """And none of an object whose fields are as declared."""
    assert wrong_field(Verdict(True)) is None
    found = object.__new__(Verdict)
    for name, value in (("passed", "no"), ("stage", None), ("diagnostics", ()), ("seconds", 0.0)):
        object.__setattr__(found, name, value)
    assert wrong_field(found) == "passed"
