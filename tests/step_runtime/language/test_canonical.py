"""Keys of programs that count as the same.

Invariants: names of variables, comments and layout never matter; anything that could change the program does.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from step_runtime.language.canonical import canonical_key, describe
from step_runtime.language.parser import parse
from tests.support.samples import GENERAL_SOLUTION, general_scope

SAME = {
    "other names": GENERAL_SOLUTION.replace("E4", "left").replace("E5", "right").replace("E6", "E4"),
    "comments": GENERAL_SOLUTION.replace("\n", "  # text\n"),
    "a docstring": f'"""Text."""\n{GENERAL_SOLUTION}',
    "blank lines and spaces": GENERAL_SOLUTION.replace("\n", "\n\n").replace("(", "( ").replace("=", " = "),
    "brackets": GENERAL_SOLUTION.replace("E4, E5 =", "(E4, E5) ="),
    "a statement over several lines": GENERAL_SOLUTION.replace("(E0)", "(\n  # why\n  E0\n)"),
    "statements of one line": GENERAL_SOLUTION.replace("\n", "; ", 1),
    "a continued line": GENERAL_SOLUTION.replace("= step", "= \\\n step"),
    "indentation": "".join(f"    {line}\n" for line in GENERAL_SOLUTION.splitlines()),
    "a fence": f"```python\n{GENERAL_SOLUTION}```",
    "CRLF": GENERAL_SOLUTION.replace("\n", "\r\n"),
    "def body": "def body(E0, E1, E2, E3):\n" + "".join(f"  {line}\n" for line in GENERAL_SOLUTION.splitlines()),
    "def body with other names": "def body(x, y, m, z):\n"
    + "".join(f"  {line}\n" for line in GENERAL_SOLUTION.replace("E0", "x").splitlines()),
}
OTHER = {
    "another input": GENERAL_SOLUTION.replace("apply(E0)", "apply(E3)"),
    "another function": GENERAL_SOLUTION.replace("fn_square", "fn_a"),
    "another order": GENERAL_SOLUTION.replace("return E6, E7", "return E7, E6"),
    "another number": GENERAL_SOLUTION.replace("b=1", "b=2"),
    "another primitive": GENERAL_SOLUTION.replace("Accum", "Scan"),
    "copies swapped": GENERAL_SOLUTION.replace("apply(E4)", "apply(EE)")
    .replace("apply(E5)", "apply(E4)")
    .replace("EE", "E5"),
    "a line less": GENERAL_SOLUTION.replace("return E6, E7", "return E6"),
    "body's inputs swapped": "def body(E1, E0, E2, E3):\n"
    + "".join(f"  {line}\n" for line in GENERAL_SOLUTION.splitlines()),
}


@pytest.mark.parametrize("name", SAME)
def test_renaming_comments_and_layout_do_not_count(name: str) -> None:
    """Texts with isomorphic syntax trees have one key."""
    inputs = tuple(general_scope().inputs)
    assert canonical_key(SAME[name], inputs) == canonical_key(GENERAL_SOLUTION, inputs)


@pytest.mark.parametrize("name", OTHER)
def test_whatever_could_matter_counts(name: str) -> None:
    """Texts that differ in more than names have different keys."""
    inputs = tuple(general_scope().inputs)
    assert canonical_key(OTHER[name], inputs) != canonical_key(GENERAL_SOLUTION, inputs)


def test_renaming_follows_bindings_not_spellings() -> None:
    """A name bound again is another variable; a comprehension's names end with it."""
    assert canonical_key("x = E0\nx = x\nreturn x") == canonical_key("a = E0\nb = a\nreturn b")
    assert canonical_key("x = E0\ny = E1\nreturn x") != canonical_key("x = E0\nx = E1\nreturn x")
    shadowed = canonical_key("x = E0\ny = [x for x in [E1]]\nreturn x, y")
    assert shadowed == canonical_key("a = E0\nb = [c for c in [E1]]\nreturn a, b")
    assert shadowed != canonical_key("a = E0\nb = [a for c in [E1]]\nreturn a, b")
    assert canonical_key("for x in [E0]:\n    y = x\nreturn y") == canonical_key("for a in [E0]:\n    b = a\nreturn b")


@given(st.text(max_size=50))
def test_any_text_has_a_key(text: str) -> None:
    """Text that does not parse is keyed by its own characters, whatever it is."""
    assert canonical_key(text) == canonical_key(text)
    assert canonical_key(f"= {text}") != canonical_key(f"= {text}\n")


def _key(text: str) -> str:
    program, found = parse(text, general_scope())
    assert not found
    return describe(program).key()


def test_graphs_are_the_same_whatever_their_copies_and_order() -> None:
    """Order of independent primitives, Copies, Identities and dead code do not count on the graph."""
    copied = _key(GENERAL_SOLUTION)
    assert copied == _key("a = step.Map(fn=fn_square).apply(E0)\nb = step.Accum(fn=fn_sum, b=1).apply(E0)\nreturn b, a")
    assert copied == _key(f"x = step.Identity().apply(E3)\n{GENERAL_SOLUTION}")
    assert copied == _key(f"x = step.Map(fn=fn_square).apply(E3)\n{GENERAL_SOLUTION}")
    assert copied != _key(GENERAL_SOLUTION.replace("E6, E7", "E7, E6"))
    assert copied != _key(GENERAL_SOLUTION.replace("fn_square", "fn_a"))


def test_a_merge_counts_even_where_it_is_not_used() -> None:
    """A Merge may fail on its data, so that a program with one is not the same as without."""
    merge = "a = step.Partition(N=E).apply((E3, E2))\nb = step.Merge(fn=fn_sum).apply(([a[0], a[0], a[2]], E2))\n"
    assert _key(f"{merge}return E0") != _key("return E0")


def test_a_whole_graph_counts_what_no_result_depends_on() -> None:
    """All of a program runs; Copies and order still do not count."""

    def whole(text: str) -> str:
        program, found = parse(text, general_scope())
        assert not found
        return describe(program).key(whole=True)

    dead = "x = step.Map(fn=fn_square).apply(E3)\n"
    assert whole(f"{dead}{GENERAL_SOLUTION}") != whole(GENERAL_SOLUTION)
    assert whole(f"{dead}{GENERAL_SOLUTION}") == whole(GENERAL_SOLUTION.replace("return", f"{dead}return"))
    assert whole(f"x = step.Identity().apply(E3)\n{GENERAL_SOLUTION}") == whole(GENERAL_SOLUTION)


LOOP = "n = E0\nm = E0\nfor f in [fn_a, fn_b]:\n    m = step.Map(fn=f).apply(n)\n    n = m\nreturn n"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (LOOP, LOOP.replace("    n = m", "    k = m")),
        (LOOP, LOOP.replace("return n", "return m").replace("    n = m", "    k = m")),
        (LOOP, LOOP.replace("    m = ", "    k = ").replace("n = m\nr", "n = k\nr").replace("return n", "return m")),
        ("for x in range(D_value):\n  y = x\nreturn y", "for x in range(D_value):\n  M = x\nreturn M"),
        ("x = E0\nreturn x", "x = E0\n  return x"),
        ("return E0", "1\nreturn E0"),
        ("return E0", "...\nreturn E0"),
        ("def body(a, b):\n return E0", "def body(E0, b):\n return E0"),
        ("def body(a, b):\n return a", "def body(a, a):\n return a"),
        ("def body(a, b):\n return a", "def body(a, b, c):\n return a"),
        (
            "y = E0\nz = [a for x in [E1] for a in [y]]\nreturn z",
            "y = E0\nz = [y for x in [E1] for y in [y]]\nreturn z",
        ),
        ("x = [E0]\nx += [E1]\nreturn x", "x = [E0]\ny += [E1]\nreturn x"),
        ("return E0", "return E0\nyield E0"),
        ("x = [1]", "x = [True]"),
        ("x = [1]", "x = [1.0]"),
        ("x = ['1']", "x = [1]"),
        ("for a in [E0]:\n  x = a", "for a in [E0]:\n  x = a\nelse:\n  x = E1"),
        ("x = [a for a in [E0]]", "x = [a async for a in [E0]]"),
        ("A = '''\nB = 1\n'''\nreturn B", "A = ''\nB = 1\nreturn B"),
    ],
)
def test_what_computes_something_else_has_another_key(one: str, other: str) -> None:
    """Whichever way a binding is read; also where one of them is refused."""
    assert canonical_key(one, ["E0", "E1"]) != canonical_key(other, ["E0", "E1"])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (LOOP, "a = E0\nb = E0\nfor c in [fn_a, fn_b]:\n  b = step.Map(fn=c).apply(a)\n  a = b\nreturn a"),
        ("a = [[y for y in x] for x in z]\nreturn a", "b = [[x for x in y] for y in z]\nreturn b"),
    ],
)
def test_a_consistent_renaming_makes_no_other_key(one: str, other: str) -> None:
    """In loops and nested comprehensions too."""
    assert canonical_key(one) == canonical_key(other)
