"""The classes of the paper's Table 2 are read off the graph."""

from __future__ import annotations

import pytest

from step_runtime.language.parser import parse
from step_runtime.program.classes import program_class
from tests.support.samples import general_scope


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("return step.Map(fn=fn_square).apply(E0)", "A1"),
        ("a, b = step.Copy().apply(E0)\nreturn step.Map(fn=fn_mul).apply((a, b))", "AR"),
        ("return step.Repeat(n=2).apply(step.Map(fn=fn_square).apply(E0))", "S1"),
        ("a, b = step.Copy().apply(E0)\nreturn a, step.Promote(b=0).apply(b)", "SR"),
        ("return E0", "A1"),
    ],
)
def test_shape_and_reuse_decide_the_class(text: str, expected: str) -> None:
    """S where a primitive changes shapes, R where a stream is copied."""
    program, found = parse(text, general_scope())
    assert not found and program_class(program) == expected
