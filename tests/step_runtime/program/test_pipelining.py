"""Streams that one Accum reads as they are computed need not be stored; all others must."""

import pytest

from step_runtime.language.parser import parse
from step_runtime.program.limits import PART, held, part_size, pipelined
from step_runtime.tasks.scope import static_scope
from tests.support.small_tasks import of_scalars

SCOPE = static_scope(of_scalars({"f": ("input[0]", 1), "g": ("state[0] + input[0]", 0)}, "input_data['E0']"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = step.Map(fn=fn_f).apply(E0)\nreturn step.Accum(fn=fn_g, b=1).apply(a)", {0: 1}),
        ("a = step.Map(fn=fn_f).apply(step.Map(fn=fn_f).apply(E0))\nreturn step.Accum(fn=fn_g, b=1).apply(a)",
         {0: 2, 1: 2}),
        ("a = step.Map(fn=fn_f).apply(E0)\nreturn step.Scan(fn=fn_g, b=1).apply(a)", {}),
        ("a = step.Map(fn=fn_f).apply(E0)\nreturn a, step.Accum(fn=fn_g, b=1).apply(a)", {}),
        ("a, b = step.Copy().apply(step.Map(fn=fn_f).apply(E0))\nreturn a, step.Accum(fn=fn_g, b=1).apply(b)", {}),
    ],
)  # fmt: skip
def test_only_what_nothing_else_reads_is_pipelined(text: str, expected: dict[int, int]) -> None:
    """Through several Maps; not into a Scan, a result or a Copy."""
    program, _ = parse(text, SCOPE)
    assert pipelined(program) == expected


def test_a_part_is_of_bounded_size_where_the_outer_dims_allow() -> None:
    """One place of the largest dim at least."""
    assert part_size(PART, (4, 8)) == 8 and held(PART, (4, 8)) == PART
    assert part_size(16 * PART, (4, 64)) == 4 and held(16 * PART, (4, 64)) == PART
    assert part_size(16 * PART, (1, 2)) == 1 and held(16 * PART, (1, 2)) == 8 * PART
