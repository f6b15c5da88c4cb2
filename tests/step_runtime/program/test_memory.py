"""The bytes that a program holds at a time: views hold nothing, streams are held until their last use.

A simulator that runs the program holds no more than about that (see test_pipelines).
"""

from __future__ import annotations

import pytest

from step_runtime.language.parser import parse
from step_runtime.program.limits import peak_bytes
from step_runtime.tasks.scope import static_scope
from step_runtime.verification.check import infer_types
from tests.support.small_tasks import of_scalars

SCOPE = static_scope(
    of_scalars({"f": ("input[0]", 1), "g": ("state[0] + input[0]", 0), "m": ("input[0] * input[1]", 2)}, "1")
)
E0 = 16 * 7
"""Numbers of the input, [D, N]."""


def numbers(text: str) -> int:
    program, found = parse(text, SCOPE)
    types, wrong = infer_types(program, SCOPE)
    assert not found and not wrong
    return peak_bytes(program, types, SCOPE.sizes, 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("return E0", E0),
        ("return step.Flatten(L=[1]).apply(step.Promote(b=2).apply(E0))", E0 + E0),
        # The result of a Map, and the input until the end.
        ("return step.Map(fn=fn_f).apply(E0)", 2 * E0),
        # The first Map's result is dropped when the second has used it.
        ("a = step.Map(fn=fn_f).apply(E0)\na = step.Map(fn=fn_f).apply(a)\nreturn step.Map(fn=fn_f).apply(a)", 3 * E0),
        # A view keeps what it is a view of.
        ("a = step.Map(fn=fn_f).apply(E0)\na, b = step.Copy().apply(a)\nb = step.Map(fn=fn_f).apply(b)\n"
         "return step.Map(fn=fn_m).apply((a, b))", 4 * E0),
        # A repeated stream holds nothing, nor does a small one that an Accum reads hold more than a part.
        ("return step.Accum(fn=fn_g, b=1).apply(step.Repeat(n=1000).apply(E0))", 2 * E0),
        # But a result is complete at the end, and merged dims that are repeated are copied.
        ("return step.Repeat(n=1000).apply(E0)", E0 + 1000 * E0),
        ("return step.Accum(fn=fn_g, b=1).apply(step.Flatten(L=[1]).apply(step.Repeat(n=M).apply(E0)))", 6 * E0 + 7),
    ],
)  # fmt: skip
def test_what_is_held_at_a_time(text: str, expected: int) -> None:
    """In numbers, at D=16, N=7 and M=5."""
    assert numbers(text) == expected
