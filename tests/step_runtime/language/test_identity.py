"""Which texts are one program: comments, names and layout aside, the same graph at every set of sizes."""

from __future__ import annotations

import pytest

from step_runtime import loads_task
from step_runtime.language.identity import code_of, graphs, known_scopes, skeleton
from tests.support.identity_pairs import verdict_key
from tests.support.samples import GENERAL, GENERAL_SOLUTION, general

RENAMED = GENERAL_SOLUTION.replace("E6", "total").replace("E7", "squares")


def test_comments_and_empty_lines_are_cut_and_the_lines_left_keep_their_numbers() -> None:
    """A `#` inside quotes may be part of a string, so that such a text stays whole."""
    code = code_of("# why\na = E0  # an alias\n\nreturn a")
    assert (code.text, code.lines) == ("a = E0\nreturn a", (2, 4))
    quoted = "a = '#'\n\nreturn E0"
    assert (code_of(quoted).text, code_of(quoted).lines) == (quoted, (1, 2, 3))


def test_a_skeleton_does_not_depend_on_names_and_layout() -> None:
    """It counts which names are equal, and nothing else of them."""
    assert skeleton("a = E0\nreturn a") == skeleton("b = x  # alias\n\nreturn b")
    assert skeleton("a = E0\nreturn a") != skeleton("a = E0\nreturn E0")


def test_texts_of_one_graph_share_a_verdict_s_key() -> None:
    """Another function, or text that is not a program, has another."""
    key = verdict_key(GENERAL_SOLUTION, general())
    assert key.startswith("graph:") and key == verdict_key(f"# why\n{RENAMED}", general())
    assert key != verdict_key(GENERAL_SOLUTION.replace("fn_square", "fn_a"), general())
    wrong = GENERAL_SOLUTION.replace("E4)", "nothing)")
    assert verdict_key(wrong, general()).startswith("text:")
    assert verdict_key(wrong, general()) != verdict_key(f"# why\n{wrong}", general())


@pytest.mark.parametrize(
    ("code", "known"),
    [
        ("experts = [fn_a, fn_b, fn_c]", True),
        ("ctx[E] = 3", True),
        ("ctx[E] = 3\nE_value = 3", False),
        ("ctx[E] = max(3, 2)", False),
        ("globals()['fn_a'] = 3", False),
        ("experts = [fn_a]\nexperts.append(fn_b)", False),
        ("scale = 2.0", True),
    ],
)
def test_scopes_are_known_where_global_is_literal(code: str, known: bool) -> None:
    """Whatever else could bind a size or a list is only known by running it."""
    task = loads_task(GENERAL.replace("  experts = [fn_a, fn_b, fn_c]", "  " + code.replace("\n", "\n  ")), "x")
    assert (known_scopes(task) is not None) == known


def test_graphs_are_those_of_each_set_of_sizes_or_none() -> None:
    """One set of sizes with a diagnostic is enough to have none; the last set is one beyond the task's own."""
    known = known_scopes(general())
    assert known is not None
    unrolled = graphs("for i in range(M_value):\n    E0 = step.Identity().apply(E0)\nreturn E0", known)
    assert unrolled is not None and [len(program.nodes) for program in unrolled] == [5, 6, 7]
    assert graphs("return E9", known) is None
