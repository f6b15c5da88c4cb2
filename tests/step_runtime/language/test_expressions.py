"""Expressions are static values: sizes unroll a program, and every walk is bounded."""

from step_runtime import Limits
from step_runtime.language.parser import parse
from step_runtime.verification.instance import TaskInstance
from tests.support import samples
from tests.support.samples import general_scope


def test_every_bound_of_the_walk_is_reported_with_figure_and_limit() -> None:
    """Source length, nesting, steps and primitives are refused with what was found and what may be."""
    limits = Limits(characters=500, depth=12, steps=200, primitives=20)
    texts = {
        "the program has 1,200 characters; the limit is 500": "E0\n" * 400,
        "the program's syntax nests 15 deep; the limit is 12": "x = " + "[" * 12 + "]" * 12,
        "the program takes 1,003 steps or more to unroll; the limit is 200": "x = range(1000)",
        "21 primitives or more; the limit is 20": "for i in range(30):\n    E0 = step.Identity().apply(E0)",
        "50 streams of one Partition or more; the limit is 20": "x = step.Partition(N=50).apply((E3, E2))",
    }
    for message, text in texts.items():
        found = parse(text, general_scope(), limits)[1]
        ((stage, full),) = [(d.stage, d.message) for d in found]
        assert stage == "limits" and full.startswith(f"{message} (Limits.") and ", --limit-" in full


def test_a_program_is_parsed_in_the_scope_of_each_set_of_sizes() -> None:
    """`M_value` is the size at hand: one text unrolls to other graphs at other sizes."""
    text = "for i in range(M_value):\n    E0 = step.Identity().apply(E0)\nreturn E0"
    scopes = [TaskInstance(samples.general(), sizes).scope for sizes in samples.general().size_sets()]
    assert [len(parse(text, scope)[0].nodes) for scope in scopes] == [5, 6]
