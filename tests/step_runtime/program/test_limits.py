"""Bounds on what a program may ask for before it runs.

Invariants: a program past a limit is refused with the figure and the limit, from symbolic shapes alone.
"""

import pytest

from step_runtime import Limits, Verifier
from step_runtime.language.parser import parse
from step_runtime.program.limits import check_size
from step_runtime.tasks.scope import static_scope
from step_runtime.verification.check import infer_types
from tests.support.samples import general, general_scope
from tests.support.small_tasks import of_scalars


def refused(text: str, limits: Limits) -> list[tuple[str, str]]:
    program, found = parse(text, general_scope())
    assert not found
    types, found = infer_types(program, general_scope())
    assert not found
    return [(d.code, d.message) for d in check_size(program, types, general_scope().sizes, limits, 8)]


def test_bytes_are_those_held_at_a_time_at_the_sizes_given() -> None:
    """Inputs and results count, tuples and buffers in full, eight bytes a number; views hold nothing until the end."""
    inputs = (5 * 7 + 5 * 7 * 16 + 7 * 3 + 7) * 8
    text = "return step.Zip().apply((E0, E1))"
    total = inputs + 5 * 7 * 17 * 8
    assert not refused(text, Limits(bytes=total))
    assert refused(text, Limits(bytes=total - 1))[0][0] == "bytes"


def test_a_routed_stream_counts_as_all_of_its_index() -> None:
    """What only the data decides is bounded by the index's size."""
    inputs = (5 * 7 + 5 * 7 * 16 + 7 * 3 + 7) * 8
    text = "a, b, c = step.Partition(N=E).apply((E3, E2))\nreturn step.Repeat(n=10).apply(a)"
    total = inputs + (7 + 70) * 8
    assert not refused(text, Limits(bytes=total))
    assert refused(text, Limits(bytes=total - 1))


@pytest.mark.parametrize("text", [
    "a, b, c = step.Partition(N=E).apply((E3, E2))\nreturn step.Reshape(L=[0], S=2).apply(a)",
    "a, b, c = step.Partition(N=E).apply((E0, E2))\nreturn step.Flatten(L=[1]).apply(step.Repeat(n=M + 1).apply(a))",
])  # fmt: skip
def test_dims_made_of_routed_ones_are_bounded_too(text: str) -> None:
    """Quotients and products of routed dims have a bound like any other."""
    assert not refused(text, Limits())


def test_figure_and_limit_are_reported() -> None:
    """The message says how much it would be, and how much may be."""
    (quoted,) = refused("return step.Repeat(n=1000000000).apply(E0)", Limits(numbers=2**60))
    message = "the program would hold 267,029 MiB at a time here; the limit is 1,024 MiB (Limits.bytes, --limit-bytes)"
    assert quoted == ("bytes", message)
    (quoted,) = refused("return step.Repeat(n=1000000000).apply(E0)", Limits())
    assert quoted[0] == "numbers" and quoted[1].endswith("4,294,967,296 (Limits.numbers)")
    (quoted,) = refused("for i in range(40):\n    E0 = step.Promote(b=0).apply(E0)\nreturn E0", Limits())
    assert quoted == ("dims", "a stream here has 33 dims; the limit is 32 (Limits.dims)")


def test_a_program_past_a_limit_is_never_run() -> None:
    """Refusal costs no memory: a terabyte is refused at once."""
    verdict = Verifier(general()).verify("a = step.Repeat(n=1000000000000).apply(E0)\nreturn a, a")
    assert verdict.stage == "limits" and verdict.seconds < 10


SCOPE = static_scope(
    of_scalars({"f": ("input[0]", 1), "g": ("state[0] + input[0]", 0), "m": ("input[0] * input[1]", 2)}, "1")
)
E0 = 16 * 7
"""Numbers of the input, [D, N]."""


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
        ("return step.Accum(fn=fn_g, b=1).apply(step.Flatten(L=[1]).apply(step.Repeat(n=5).apply(E0)))", 6 * E0 + 7),
    ],
)  # fmt: skip
def test_what_is_held_at_a_time(text: str, expected: int) -> None:
    """In numbers, at D=16 and N=7."""
    program, found = parse(text, SCOPE)
    types, wrong = infer_types(program, SCOPE)
    assert not found and not wrong
    for limit, refused in ((expected, False), (expected - 1, True)):
        assert bool(check_size(program, types, SCOPE.sizes, Limits(bytes=limit), 1)) == refused
