"""The checks on the graph: types and shapes, the outputs, the affine rule; and the pass that inserts Copy.

Invariants: a rule that breaks is one finding with both sides; what follows from it is none; dims are compared as
expressions, never as sizes. The affine rule counts uses of streams, never names, and `return` consumes nothing; a
program with Copies inserted keeps the rule and computes what it computed.
"""

import pytest

from step_runtime import verify
from step_runtime.language.parser import parse
from step_runtime.verification.check import check_affine, insert_copies, without_copies
from step_runtime.verification.explain import explain
from tests.support.samples import GENERAL_SOLUTION, Mistake, assert_reported, check, general, general_scope

MISTAKES = [
    Mistake("wrong b", "E4 = step.Accum(fn=fn_sum, b=2).apply(E0)\nreturn E4, E0", "1:6", "accum-rank",
     "Accum needs 0 < b <= rank", "to fold all dims, Promote(b=2) first: it adds an outermost 1"),
    Mistake("scalar function on buffers", "E4 = step.Map(fn=fn_square).apply(E1)\nreturn E4", "1:6", "fn-input",
     "Map: the function's input type differs from the stream's ele",
     "Streamify() turns a Buffer's dims into stream dims"),
    Mistake("zip in the wrong order",
     "E4 = step.Zip().apply((E1, E0))\nE5 = step.Map(fn=fn_scale).apply(E4)\nreturn E5", "2:6", "fn-input",
     "Map: the function's input type differs from the stream's ele",
     "zip the streams in the order of [fp32, Buffer(fp32, [D])]"),
    Mistake("zip of unequal shapes", "E4 = step.Zip().apply((E0, E3))\nreturn E4", "1:6", "zip-shape",
     "the two streams differ in shape", "Zip pairs elements one to one; make both shapes equal first,"),
    Mistake("stream used twice",
     "E4 = step.Map(fn=fn_square).apply(E0)\nE5 = step.Map(fn=fn_mul).apply((E0, E4))\nreturn E5", "2:6", "affine",
     "stream E0 is consumed 2 times; a stream may be consumed once",
     "a Copy gives each use a stream of its own: E0_0, E0_1 = step"),
    Mistake("one output of two", "return step.Accum(fn=fn_sum, b=1).apply(E0)", "1:8", "output-count",
     "the program returns 1 stream; the task has 2 outputs",
     "return them as one tuple, in the order of the task's outputs"),
    Mistake("stateless function in accum", "return step.Accum(fn=fn_square, b=1).apply(E0)", "1:8", "fn-state",
     "Accum takes a function with an initial state", "fn_square belongs in Map"),
    Mistake("merge arguments swapped",
     "a, b, c = step.Partition(N=E).apply((E3, E2))\nE5 = step.Merge(fn=fn_sum).apply((E2, [a, b, c]))\nreturn E5",
     "2:6", "apply-argument", "Merge takes a list of streams and an index stream: ([E0, E1]",
     "write step.Merge(fn=…).apply(([E0, E1], E2))"),
    Mistake("merge of too few streams", "x, y = step.Copy().apply(E2)\n"
     "a, b, c = step.Partition(N=E).apply((E3, x))\n" "E5 = step.Merge(fn=fn_sum).apply(([a, b], y))\n" "return E5",
     "3:6", "index-length", "Merge: the number of streams must equal the length of the in",
     "there is one stream to each bit: 3"),
    Mistake("partition arguments swapped", "E4 = step.Partition(N=E).apply((E2, E3))\nreturn E4", "1:6", "index-dtype",
     "Partition: N: the index must be a stream of Multihots",
     "the index comes last; a function of the task may make Multih"),
    Mistake("b as a dim", "E4 = step.Accum(fn=fn_sum, b=N).apply(E0)\nreturn E4", "1:6", "config",
     "Accum: b must be an int, found N", ""),
    Mistake("flatten of dim 0", "E4 = step.Flatten(L=[0]).apply(E0)\nreturn E4", "1:6", "flatten-rank",
     "Flatten takes dim indices from 1 to the rank", "dim i is merged into dim i - 1; dim 0 is the innermost"),
    Mistake("streamify of scalars", "E4 = step.Streamify().apply(E0)\nreturn E4", "1:6", "streamify-dtype",
     "Streamify takes a stream of Buffers", "its elements are in the stream already; leave Streamify out"),
    Mistake("bufferize on rank 0", "E4 = step.Bufferize(a=1).apply(E3)\nreturn E4", "1:6", "bufferize-rank",
     "Bufferize needs 0 < a <= rank", "the outermost dim stays; Promote(b=1) first adds an outermos"),
    Mistake("bufferize of tuples", "E4 = step.Zip().apply((E0, E1))\nreturn step.Bufferize(a=1).apply(E4)", "2:8",
     "bufferize-tuple", "Bufferize takes no tuples", "Bufferize the components before they are zipped, or Map a fu"),
    Mistake("repeatref arguments swapped", "E4 = step.RepeatRef().apply((E0, E3))\nreturn E4", "1:6",
     "repeatref-shape", "RepeatRef needs the reference's shape without its innermost ",
     "the order is (data, reference): the reference has one more i"),
    Mistake("repeat 0 times", "E4 = step.Repeat(n=0).apply(E0)\nreturn E4", "1:6", "dim-value",
     "dim 0 must be a positive int at every set of sizes", ""),
    Mistake("promote beyond the rank", "E4 = step.Promote(b=3).apply(E0)\nreturn E4", "1:6", "promote-rank",
     "Promote needs 0 <= b <= rank + 1", "b is the index of the new 1, counted from the innermost dim:"),
    Mistake("copies not unpacked", "E4 = step.Copy().apply(E0)\nE5 = step.Accum(fn=fn_sum, b=1).apply(E4)\nreturn E5",
     "2:6", "apply-argument", "Accum takes one stream", "it is a list: take one by index, or write [step.Accum(fn=…,"),
    Mistake("division with a rest", "E4 = step.Repeat(n=M//2).apply(E0)\nreturn E4", "1:20", "dim-value",
     "dim M//2 must be a positive int at every set of sizes", ""),
]  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_a_broken_rule_is_reported_with_place_both_sides_and_hint(mistake: Mistake) -> None:
    """Every rule on types, shapes, uses and outputs is reported once, where it breaks, with a hint."""
    assert_reported(mistake)


def test_types_are_reported_in_stream_order_with_both_sides() -> None:
    """A rule of two streams shows both by name, element type and dims innermost first."""
    _, (finding,) = check(
        "a = step.RepeatRef().apply((E3, E0))\nb = step.Zip().apply((a, E1))\nc = step.Zip().apply((b, E2))\nreturn c"
    )
    sides = "b: [fp32, Buffer(fp32, [D])] [M, N]; E2: Multihot(fp32, E) [N]"
    assert finding.details == (sides,)


def test_a_broken_stream_breaks_nothing_else() -> None:
    """What follows from a broken rule is not reported, what is independent of it is."""
    program = (
        "a = step.Accum(fn=fn_sum, b=2).apply(E0)\nb = step.Map(fn=fn_scale).apply((a, E1))\n"
        "c = step.Bufferize(a=1).apply(E3)\nreturn b, c"
    )
    assert [d.code for d in check(program)[1]] == ["accum-rank", "bufferize-rank"]


def test_outputs_are_held_to_number_type_and_dims() -> None:
    """What is returned must have the task's number, element types and symbolic dims; equal sizes are not enough."""
    ok = GENERAL_SOLUTION
    assert verify(general(), ok).passed
    wrong = {
        ok.replace("return E6, E7", "return E6"): "output-count",
        ok.replace("return E6, E7", "return E7, E6"): "output-type",
        ok.replace("return E6, E7", "return E6, step.Promote(b=0).apply(E7)"): "output-type",
        "a, b = step.Copy().apply(E0)\nc = step.Accum(fn=fn_sum, b=1).apply(a)\n"
        "d = step.Bufferize(a=1).apply(step.Map(fn=fn_square).apply(b))\nreturn c, d": "output-type",
    }
    for text, code in wrong.items():
        verdict = verify(general(), text)
        assert verdict.stage == "shape" and {d.code for d in verdict.diagnostics} == {code}
        assert all(d.hint for d in verdict.diagnostics), verdict.render(text)


def test_a_size_is_not_its_symbol() -> None:
    """A stream repeated `M_value` times never has the dim `M`, at no sizes."""
    text = "a = step.Repeat(n=M_value).apply(E3)\nb = step.Repeat(n=M).apply(E3)\nreturn step.Zip().apply((a, b))"
    codes = [d.code for d in check(text)[1]]
    assert codes == ["zip-shape", "affine"]


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("E1 = step.Map(fn=fn_square).apply(E0)\nreturn step.Map(fn=fn_scale).apply((E0, E1))", "E1|input"),
        ("fn_sum = E0\nreturn step.Accum(fn=fn_sum, b=1).apply(E0)", "fn_sum|function"),
        ("M = E0\nreturn step.Repeat(n=M).apply(E0)", "M|dim"),
        ("def body(a, b, c, d):\n    b = a\n    return b, step.Zip().apply((a, b, c))", "b|input"),
    ],
)
def test_a_finding_about_a_name_that_hides_the_tasks_own_says_so(text: str, hidden: str) -> None:
    """With the line that binds it anew; findings in other lines say nothing of it."""
    name, kind = hidden.split("|")
    line = 2 if text.startswith("def") else 1
    first, *_ = verify(general(), text).diagnostics
    note = f"line {line} binds {name} anew, which hides the task's {kind} of that name: choose a new name"
    assert note in first.details
    (elsewhere,) = verify(general(), "E1 = E0\nreturn step.Accum(fn=fn_sum, b=9).apply(E3)").diagnostics
    assert "anew" not in " ".join(elsewhere.details)


def test_every_stream_has_its_type_what_makes_it_and_the_line() -> None:
    """Inputs come first, results last, columns aligned."""
    table = explain("x = step.Accum(fn=fn_sum, b=1).apply(E0)\nreturn x, E3", general_scope()).table()
    lines = [line.split() for line in table.split("\n")]
    assert [line[0] for line in lines] == ["E0", "E1", "E2", "E3", "x", "returns"]
    assert lines[0] == ["E0", "fp32", "[M,", "N]", "input"]
    assert " ".join(lines[4]) == "x fp32 [N] Accum(fn=fn_sum, b=1) of E0 (line 1)"
    assert table.endswith("returns x, E3")
    assert len({line.index("input") for line in table.split("\n")[:4]}) == 1


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
