"""The statements of the language, and what each means on the graph.

Invariants: a form that is accepted gives the graph that its plain spelling gives; nothing of a program is
executed; a form that the language lacks is one finding with place, text and hint.
"""

import pytest

from step_runtime import Limits
from step_runtime.language.parser import parse
from step_runtime.verification.instance import TaskInstance
from tests.support import samples
from tests.support.samples import Mistake, assert_reported, check, general_scope

SQUARE = "E4 = step.Map(fn=fn_square).apply(E0)\nreturn E4"

EXPERTS = """a, b, c = step.Partition(N=3).apply((E3, E2))
d = step.Map(fn=fn_a).apply(a)
e = step.Map(fn=fn_b).apply(b)
f = step.Map(fn=fn_c).apply(c)
return d, e, f"""

REPEAT = "return step.Repeat(n=N).apply(E0)"

SAME = {
    "an alias": ("a = E0\nb = a\nreturn step.Map(fn=fn_square).apply(b)", SQUARE),
    "a name bound again": ("E0 = step.Map(fn=fn_square).apply(E0)\nreturn E0", SQUARE),
    "a chain of targets": ("a = b = step.Map(fn=fn_square).apply(E0)\nreturn b", SQUARE),
    "a function under another name": ("f = fn_square\nreturn step.Map(fn=f).apply(E0)", SQUARE),
    "a positional configuration": ("return step.Map(fn_square).apply(E0)", SQUARE),
    "a returned list": ("return [step.Map(fn=fn_square).apply(E0)]", SQUARE),
    "a returned tuple": ("return (step.Map(fn=fn_square).apply(E0),)", SQUARE),
    "several lines in brackets": ("E4 = (\n  step.Map(\n fn=fn_square,\n).apply(\nE0,)\n)\nreturn E4", SQUARE),
    "statements on one line": ("E4 = step.Map(fn=fn_square).apply(E0); return E4", SQUARE),
    "a docstring and comments": (f'"""Squares \\d."""\n# so\n{SQUARE}  # E4: fp32 [M, N]\n', SQUARE),
    "a docstring after the return": (f"{SQUARE}\n'That was it.'", SQUARE),
    "an index": ("a = [E3, E0]\nreturn step.Map(fn=fn_square).apply(a[1])", SQUARE),
    "a negative index": ("a = (E3, E0)\nreturn step.Map(fn=fn_square).apply(a[-1])", SQUARE),
    "a computed index": ("a = (E3, E0)\nreturn step.Map(fn=fn_square).apply(a[len(a) - E_value + 2])", SQUARE),
    "a slice": ("a = [E3, E0, E1][1:-1]\nreturn [step.Map(fn=fn_square).apply(x) for x in a]", SQUARE),
    "a slice backwards": ("a = [E3, E0][::-1]\nreturn step.Map(fn=fn_square).apply(a[0])", SQUARE),
    "unpacking in unpacking": ("(a, [b, c]), d = (E3, [E0, E1]), E2\nreturn step.Map(fn=fn_square).apply(b)", SQUARE),
    "a starred target": ("a, *b = [E3, E1, E0]\nreturn step.Map(fn=fn_square).apply(b[1])", SQUARE),
    "a starred target in the middle": ("a, *b, c = E3, E0, E1\nreturn [step.Map(fn=fn_square).apply(x) for x in b]",
     SQUARE),
    "an empty starred target": ("a, *b = [E0]\nreturn [step.Map(fn=fn_square).apply(x) for x in [*b, a]]", SQUARE),
    "a loop that appends": ("a = []\nfor x in [E0]:\n    a.append(step.Map(fn=fn_square).apply(x))\nreturn a", SQUARE),
    "a loop that rebinds": ("x = E0\nfor f in [fn_square]:\n    x = step.Map(fn=f).apply(x)\nreturn x", SQUARE),
    "an empty loop": ("for x in []:\n    y = x\nreturn step.Map(fn=fn_square).apply(E0)", SQUARE),
    "a return in a loop": ("for x in [E0, E3]:\n    return step.Map(fn=fn_square).apply(x)", SQUARE),
    "a comprehension's own names": ("x = E0\ny = [x for x in [E3]]\nreturn step.Map(fn=fn_square).apply(x)", SQUARE),
    "a shared list": ("a = []\nb = a\nb.append(E0)\nreturn step.Map(fn=fn_square).apply(a[0])", SQUARE),
    "a copied list": ("a = [E0]\nb = list(a)\nb.append(E3)\nreturn [step.Map(fn=fn_square).apply(x) for x in a]",
     SQUARE),
    "enumerate and reversed": (
        "a = [x for i, x in enumerate(reversed([E0, E3]))]\nreturn step.Map(fn=fn_square).apply(a[1])",
        SQUARE,
    ),
    "def body": ("def body(E0, E1, E2, E3):\n    E4 = step.Map(fn=fn_square).apply(E0)\n    return E4", SQUARE),
    "def body with annotations and names of its own": (
        'def body(x: step.Stream, y, m: "the index", z) -> step.Stream:\n    """Squares x."""\n'
        "    return step.Map(fn=fn_square).apply(x)",
        SQUARE,
    ),
    "a docstring before def body": (
        '"""Squares."""\n# a comment\ndef body(E0, E1, E2, E3):\n    return step.Map(fn=fn_square).apply(E0)',
        SQUARE,
    ),
    "an input's name in full width": ("return step.Map(fn=fn_square).apply(\uff250)", SQUARE),
    "zip over a list that global binds": (
        "a = step.Partition(N=E_value).apply((E3, E2))\nreturn [step.Map(fn=f).apply(s) for f, s in zip(experts, a)]",
        EXPERTS.replace("N=3", "N=E_value"),
    ),
    "range over indices": (
        "a = step.Partition(N=3).apply((E3, E2))\nreturn [step.Map(fn=experts[i]).apply(a[i]) for i in range(E_value)]",
        EXPERTS,
    ),
    "two generators": ("a = step.Partition(N=3).apply((E3, E2))\n"
     "return [step.Map(fn=f).apply(a[i]) for j in range(1) for i, f in enumerate(experts)]", EXPERTS),
    "a loop with zip": ("a = step.Partition(N=3).apply((E3, E2))\nr = []\nfor f, s in zip(experts, a):\n"
     "    t = step.Map(fn=f).apply(s)\n    r.append(t)\nreturn tuple(r)", EXPERTS),
    "comprehensions in comprehensions": ("a = step.Partition(N=3).apply((E3, E2))\n"
     "b = [[step.Map(fn=f).apply(s)] for f, s in zip(experts, a)]\nreturn [x for y in b for x in y]", EXPERTS),
    "a dim": ("n = N\nreturn step.Repeat(n=n).apply(E0)", REPEAT),
    "dims that cancel": ("return step.Repeat(n=M * N // M).apply(E0)", REPEAT),
    "dims added and taken away": ("return step.Repeat(n=N + 2*M - M - M).apply(E0)", REPEAT),
    "RepeatLast": ("return step.RepeatLast(n=N).apply(E0)", REPEAT),
    "ints": ("return step.Repeat(n=2 * 3 - 7 // 2).apply(E0)", "return step.Repeat(n=3).apply(E0)"),
    "a negative division": ("return step.Repeat(n=4 + -2 // 7).apply(E0)", "return step.Repeat(n=3).apply(E0)"),
    "a dim that is an int after all": ("return step.Repeat(n=[4, 5][M // M]).apply(E0)",
     "return step.Repeat(n=5).apply(E0)"),
    "a range of dims": ("return step.Flatten(L=list(range(1, 2))).apply(E0)", "return step.Flatten(L=[1]).apply(E0)"),
    "a negative step": ("return step.Flatten(L=[len(range(5, 0, -5))]).apply(E0)",
     "return step.Flatten(L=(1,)).apply(E0)"),
    "a map over a tuple": ("return step.Map(fn=fn_mul).apply((E0, E0))", "return step.Map(fn=fn_mul).apply([E0, E0])"),
    "a copy's list": ("a = step.Copy().apply(E0)\nreturn a[1], a[0]", "a, b = step.Copy().apply(E0)\nreturn b, a"),
}  # fmt: skip


@pytest.mark.parametrize(("program", "plain"), SAME.values(), ids=SAME)
def test_a_form_gives_the_graph_of_its_plain_spelling(program: str, plain: str) -> None:
    """Every form of the language is accepted and means what Python would mean by it."""
    graph, found = check(program)
    expected, _ = check(plain)
    assert all(d.stage == "affine" for d in found), [d.render(program) for d in found]
    assert graph == expected and graph.results


def test_sizes_and_dims_differ() -> None:
    """`M_value` is an int, `M` a symbol: they are never one dim."""
    by_dim, _ = check("return step.Repeat(n=M).apply(E0)")
    by_size, _ = check("return step.Repeat(n=M_value).apply(E0)")
    assert by_dim != by_size


def test_streams_are_called_as_the_text_calls_them() -> None:
    """Reports use the first name a stream got, the parameter of `def body`, or the primitive and its line."""
    graph, _ = check("a = E0\nb, c = step.Copy().apply(a)\nd = b\nreturn step.Map(fn=fn_square).apply(d), c")
    assert [graph.name(stream) for stream in (0, 4, 5, 6)] == ["E0", "b", "c", "the Map of line 4"]
    graph, _ = check("def body(x, y, m, z):\n    return x")
    assert graph.name(0) == "x"


MISTAKES = [
    Mistake("forgot return", "E4 = step.Accum(fn=fn_sum, b=1).apply(E0)", "1:1", "return",
     "the program returns nothing", "end with the outputs, e.g. `return E4`"),
    Mistake("class", "class Foo(step.Fn):\n    def apply(self, input):\n        return input\nreturn E0", "1:1",
     "statement", "a program defines no classes", "use the task's functions, which are in scope as fn_…"),
    Mistake("function", "def helper(x):\n    return step.Map(fn=fn_square).apply(x)\nE4 = helper(E0)\nreturn E4",
     "1:1", "statement", "a program defines no functions",
     "use the task's functions; only one `def body(…)` may stand a"),
    Mistake("import", "import torch\nreturn E0", "1:1", "statement", "imports are not part of the language",
     "leave it out; step, the functions and the dims are in scope"),
    Mistake("nested lists returned", "E4 = step.Partition(N=E).apply((E3, E2))\nreturn E0, E4", "2:8", "return",
     "a program returns streams, found a list of 3 values",
     "return a stream, or a flat tuple or list of streams in the o"),
    Mistake("for over a stream", "for x in E0:\n    y = step.Map(fn=fn_square).apply(x)\nreturn E0", "1:10",
     "sequence", "expected a list or tuple, found a stream",
     "Map, Accum and Scan run over a stream's elements; loops run"),
    Mistake("if", "if E0:\n    E0 = E1\nreturn E0", "1:1", "statement", "`if` is not part of the language",
     "use Partition and Merge, or one of the task's functions, for"),
    Mistake("augmented assignment", "E4 = []\nE4 += [E0]\nreturn E4", "2:1", "statement",
     "augmented assignment is not part of the language", "bind a new name, or append to a list"),
    Mistake("copy into three", "a, b, c = step.Copy().apply(E0)\nreturn a", "1:1", "unpack",
     "2 values cannot be unpacked into 3 names", "write 2 names, one per value"),
    Mistake("one stream unpacked", "a, b = step.Map(fn=fn_square).apply(E0)\nreturn a", "1:1", "unpack",
     "a stream cannot be unpacked into 2 names", "step.Copy().apply(E0) gives two streams and step.Partition a"),
    Mistake("list element assigned", "E4 = [E0]\nE4[0] = E3\nreturn E4", "2:1", "assign",
     "a list's element cannot be assigned", "build the list with [] and append, or with a comprehension"),
    Mistake("print", "print(E0)\nreturn E0", "1:1", "statement", "print(…) is not a statement of the language",
     "a program only binds names to step.NAME(config).apply(stream"),
    Mistake("bare expression", "E0\nreturn E0", "1:1", "statement", "this expression does nothing",
     "bind it to a name, `return` it, or leave the line out"),
    Mistake("unused apply", "step.Map(fn=fn_square).apply(E0)\nreturn E0", "1:1", "statement",
     "the result of apply is not used", "bind it to a name, or leave the line out"),
    Mistake("int returned", "return 3", "1:8", "return", "a program returns streams, found the int 3",
     "return a stream, or a flat tuple or list of streams in the o"),
    Mistake("while", "while True:\n    E4 = E0\nreturn E4", "1:1", "statement", "`while` is not part of the language",
     "loop with `for` over a list, zip, enumerate or range"),
    Mistake("with", "with E0 as x:\n    pass\nreturn E0", "1:1", "statement", "with is not part of the language",
     "a program only binds names to step.NAME(config).apply(stream"),
    Mistake("try", "try:\n    E4 = E0\nexcept Exception:\n    pass\nreturn E0", "1:1", "statement",
     "try is not part of the language", "a program only binds names to step.NAME(config).apply(stream"),
    Mistake("annotation", "E4: step.Stream = step.Map(fn=fn_square).apply(E0)\nreturn E4", "1:1", "statement",
     "annotations are not part of the language", "leave the annotation out, or write it as a comment"),
    Mistake("import in disguise", '__import__("os").system("true")\nreturn E0', "1:1", "statement",
     "__import__('os').system(…) is not a statement of the language",
     "a program only binds names to step.NAME(config).apply(stream"),
    Mistake("body with one parameter", "def body(E0):\n    return E0", "1:10", "body",
     "`def body` has 1 parameter; the task has 4 inputs", "write def body(E0, E1, E2, E3):"),
    Mistake("body with a star", "def body(a, b, c, *d):\n    return a", "1:1", "body",
     "`def body` takes the inputs as plain parameters, without decorators, defaults or stars",
     "write def body(E0, E1):"),
    Mistake("input by a name that body does not have", "def body(a, b, c, d):\n    return E0", "2:12", "name",
     "E0 is not defined", "the streams here are a, b, c, d"),
    Mistake("return of nothing", "return", "1:1", "statement", "`return` gives no stream",
     "return the output streams, in the order of the task's output"),
]  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_a_mistake_is_reported_with_place_text_and_hint(mistake: Mistake) -> None:
    """Every statement that the language lacks is reported once, where it stands, with a hint."""
    assert_reported(mistake)


def test_a_list_may_hold_itself() -> None:
    """It is looked into once: for what is unknown, and for what it is."""
    assert [finding.code for finding in check("a = [E0]\na.append(a)\nreturn a")[1]] == ["return"]
    assert [finding.code for finding in check("a = [E9]\na.append(a)\nreturn a")[1]] == ["name"]


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
        assert stage == "limits" and full.startswith(f"{message} (Limits.")


def test_a_program_is_parsed_in_the_scope_of_each_set_of_sizes() -> None:
    """`M_value` is the size at hand: one text unrolls to other graphs at other sizes."""
    text = "for i in range(M_value):\n    E0 = step.Identity().apply(E0)\nreturn E0"
    scopes = [TaskInstance(samples.general(), sizes).scope for sizes in samples.general().size_sets()]
    assert [len(parse(text, scope)[0].nodes) for scope in scopes] == [5, 6]
