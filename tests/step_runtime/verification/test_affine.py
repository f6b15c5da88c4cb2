"""The affine rule, and the pass that inserts Copy.

Invariants: the rule counts uses of streams, never names; `return` consumes nothing; a program with Copies
inserted keeps the rule and computes what it computed.
"""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from step_runtime.execution.applier import Applier
from step_runtime.language.parser import parse
from step_runtime.primitives import Copy
from step_runtime.program.graph import Program
from step_runtime.program.printer import print_program
from step_runtime.verification.check import check_affine, infer_types, insert_copies, without_copies
from step_runtime.verification.instance import TaskInstance
from step_runtime.verification.simulate import simulate
from tests.support.samples import check, general, general_scope

USES = {
    "an alias": ("a = E0\nb = E0\nreturn step.Map(fn=fn_mul).apply((a, b))", ["E0"]),
    "a name bound again": ("E0 = step.Map(fn=fn_square).apply(E0)\nreturn step.Map(fn=fn_square).apply(E0)", []),
    "a name bound again to another": ("a = E0\nE0 = E3\nb = step.Copy().apply(a)\nreturn step.Copy().apply(E0)", []),
    "zip of one list with itself": ("a = step.Copy().apply(E0)\nreturn [step.Zip().apply(p) for p in zip(a, a)]",
     ["a[0]", "a[1]"]),
    "zip of a stream with itself": ("return step.Zip().apply((E0, E0))", ["E0"]),
    "a comprehension over a list": ("a = step.Copy().apply(E0)\nreturn [step.Map(fn=fn_square).apply(x) for x in a]",
     []),
    "a comprehension over a list, twice": (
        "a = step.Copy().apply(E0)\nb = [step.Map(fn=fn_square).apply(x) for x in a]\n"
        "c = [step.Map(fn=fn_square).apply(x) for x in a]\nreturn b[0]",
        ["a[0]", "a[1]"],
    ),
    "a comprehension that leaves its name alone": (
        "a, b = step.Copy().apply(E0)\nc = [step.Map(fn=fn_square).apply(f) for f in [a, b]]\nreturn c",
        [],
    ),
    "a comprehension's constant stream": ("return [step.Map(fn=f).apply(E0) for f in experts]", ["E0"]),
    "a loop's constant stream": ("a = []\nfor f in experts:\n    a.append(step.Map(fn=f).apply(E0))\nreturn a", ["E0"]),
    "a loop that rebinds": ("a = E0\nfor f in experts:\n    a = step.Map(fn=f).apply(a)\nreturn a", []),
    "a list in two lists": ("a = [E0]\nb = [a, a]\nreturn [step.Map(fn=fn_square).apply(x) for y in b for x in y]",
     ["E0"]),
    "a slice and an index": ("a = step.Copy().apply(E0)\nb = [step.Identity().apply(x) for x in a[:1]]\n"
     "c = step.Identity().apply(a[-2])\nreturn c", ["a[0]"]),
    "a slice and the other index": ("a = step.Copy().apply(E0)\nb = [step.Identity().apply(x) for x in a[:1]]\n"
     "c = step.Identity().apply(a[-1])\nreturn c", []),
    "unpacked and indexed": ("a = step.Copy().apply(E0)\nb, *c = a\nd = step.Zip().apply((b, a[0]))\nreturn d",
     ["a[0]"]),
    "unpacked by halves": ("a = step.Copy().apply(E0)\nb, *c = a\nd = step.Zip().apply((b, c[0]))\nreturn d", []),
    "appended twice": ("a = []\na.append(E0)\na.append(E0)\nreturn [step.Identity().apply(x) for x in a]", ["E0"]),
    "reversed": ("a = step.Copy().apply(E0)\nreturn [step.Zip().apply((x, y)) for x, y in zip(a, reversed(a))]",
     ["a[0]", "a[1]"]),
    "returned and consumed once": ("a, b = step.Copy().apply(E0)\nreturn a, step.Map(fn=fn_square).apply(a)", []),
    "returned and consumed twice": ("return E0, step.Map(fn=fn_mul).apply((E0, E0))", ["E0"]),
    "returned twice": ("return E0, E0", []),
    "an input returned": ("return E3, step.Map(fn=fn_square).apply(E0)", []),
    "an index for Partition and Merge": (
        "a = step.Partition(N=E).apply((E3, E2))\nreturn step.Merge(fn=fn_sum).apply((a, E2))",
        ["E2"],
    ),
    "an index copied": ("i, j = step.Copy().apply(E2)\na = step.Partition(N=E).apply((E3, i))\n"
     "return step.Merge(fn=fn_sum).apply((a, j))", []),
    "data as its own reference": ("a = step.Promote(b=0).apply(E0)\nreturn step.RepeatRef().apply((E0, a))", ["E0"]),
    "one part merged twice": ("i, j = step.Copy().apply(E2)\na = step.Partition(N=E).apply((E3, i))\n"
     "return step.Merge(fn=fn_sum).apply(([a[0], a[1], a[1]], j))", ["a[1]"]),
    "a use in dead code": ("a = step.Identity().apply(E0)\nreturn step.Map(fn=fn_square).apply(E0)", ["E0"]),
    "a parameter of body": ("def body(x, y, m, z):\n    return step.Zip().apply((x, x))", ["x"]),
}  # fmt: skip


@pytest.mark.parametrize("name", USES)
def test_the_affine_rule_sees_through_every_alias(name: str) -> None:
    """A stream is reported if and only if two primitives consume it, by the name the text gives it."""
    program, reused = USES[name]
    graph, parsed = parse(program, general_scope())
    assert not parsed and graph.results
    found = check_affine(graph)
    assert [d.message.split()[1] for d in found] == reused, [d.render(program) for d in found]
    assert all(
        d.stage == "affine" and d.hint and f"step.Copy().apply({n})" in d.hint
        for d, n in zip(found, reused, strict=True)
    )


@pytest.mark.parametrize("name", USES)
def test_inserted_copies_repair_every_reuse(name: str) -> None:
    """With Copies inserted no stream is used twice; `k` uses cost `k - 1` Copies, and none are wasted."""
    graph, _ = parse(USES[name][0], general_scope())
    fixed = insert_copies(graph)
    assert not check_affine(fixed)
    added = sum(len(nodes) - 1 for nodes in graph.consumers().values())
    assert len(fixed.nodes) == len(graph.nodes) + added
    assert insert_copies(fixed) == fixed
    assert without_copies(fixed) == without_copies(graph)
    if not added:
        assert fixed == graph


def test_the_second_use_is_where_the_rule_breaks() -> None:
    """The finding stands at the second consumer and names the lines of all of them."""
    _, (finding,) = check(
        "a = step.Identity().apply(E0)\nb = step.Identity().apply(E0)\nc = step.Identity().apply(E0)\nreturn a"
    )
    assert finding.span is not None and finding.span.line == 2
    assert finding.details == ("it is consumed in lines 1, 2, 3",)
    assert finding.hint is not None and "2 Copies" in finding.hint


UNARY = ["step.Map(fn=fn_square).apply({})", "step.Identity().apply({})", "step.Scan(fn=fn_sum, b=1).apply({})",
         "step.Map(fn=fn_a).apply({})"]  # fmt: skip


@st.composite
def reusing_programs(draw: st.DrawFn) -> str:
    """Programs over streams of one type, whose streams are used any number of times."""
    names, lines = ["E0"], []
    for number in range(draw(st.integers(1, 8))):
        pick = st.sampled_from(names)
        form = draw(st.sampled_from([*UNARY, "step.Map(fn=fn_mul).apply(({}, {}))", "copy"]))
        if form == "copy":
            lines.append(f"c{number}, d{number} = step.Copy().apply({draw(pick)})")
            names += [f"c{number}", f"d{number}"]
        else:
            lines.append(f"x{number} = {form.format(draw(pick), draw(pick))}")
            names.append(f"x{number}")
    results = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))
    return "\n".join([*lines, f"return {', '.join(results)}"])


@settings(max_examples=40)
@given(reusing_programs())
def test_inserted_copies_change_no_result(text: str) -> None:
    """Random programs with reuse compute the same with Copies inserted, which print, parse and keep the rule."""
    program, _ = parse(text, _INSTANCE.scope)
    fixed = insert_copies(program)
    assert not check_affine(fixed)
    assert parse(print_program(fixed), _INSTANCE.scope) == (fixed, [])
    kept, before = ([node.op for node in p.nodes if not isinstance(node.op, Copy)] for p in (fixed, program))
    assert kept == before
    for one, other in zip(_run(program), _run(fixed), strict=True):
        assert torch.equal(one, other)


def _run(program: Program) -> list[torch.Tensor]:
    types, found = infer_types(program, _INSTANCE.scope)
    assert not found
    results = simulate(program, types, _INSTANCE.sample_inputs(0), _INSTANCE.sizes, _APPLIER)
    return [part for result in results for part in result]


_INSTANCE = TaskInstance(general(), {"M": 2, "N": 3, "K": 2, "D": 2, "E": 3})
_APPLIER = Applier(torch.float64)
