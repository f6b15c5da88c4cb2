"""Loops have the smallest flows that hold for any number of turns."""

from __future__ import annotations

import ast

from pipeline.lms.embedded.dependence.paths import NOTHING, leaf, product, union
from pipeline.lms.embedded.dependence.recurrences import assigned, base_of, loop_counts, solved, statements_of

POSITION, X, STATE, OTHER = leaf(0), leaf(1), leaf(300), leaf(301)


def test_a_recurrence_reaches_all_that_it_adds() -> None:
    """A state that is multiplied by another one depends on what that one depends on."""
    found = solved({300: union(STATE, X), 301: product(OTHER, STATE)}, {300: NOTHING, 301: leaf(2)}, POSITION)
    assert found[300] == X
    assert {path.leaf for path in found[301]} == {1, 2}


def test_a_state_that_depends_on_itself_alone_counts() -> None:
    """It is a position; one that is set to a constant is nothing."""
    assert solved({300: STATE, 301: NOTHING}, {300: NOTHING, 301: NOTHING}, POSITION) == {300: POSITION, 301: NOTHING}


def test_elements_and_appended_values_change_a_variable() -> None:
    """Not only assignments to its name do."""
    code = "a = 1\nb[:, i] = 2\nc.append(3)\nfor d in e:\n    f += 1"
    assert set(assigned(statements_of(code))) == {"a", "b", "c", "d", "f"}
    node = ast.parse("b.x[0][1]", mode="eval").body
    assert base_of(node) == "b"


def test_what_is_not_python_has_no_statements() -> None:
    """Nothing is read from it, and nothing raised."""
    assert statements_of("return (") == ()


def test_a_loop_over_constants_says_how_often_it_runs() -> None:
    """A loop up to a size does not."""
    assert loop_counts("for _ in range(3):\n    x = x + 1\nfor s in (a, b):\n    x = x + s") == {2, 3}
    assert loop_counts("for t in range(T_value):\n    x = x + 1") == set()
    code = "q, k = (x @ input_data[name] for name in ('Wq', 'Wk'))"
    assert loop_counts(code) == {2}
    assert loop_counts(code, {"Wq", "Wk"}) == set()


def test_statements_that_differ_in_constants_run_as_many_times_as_often() -> None:
    """A loop of three rounds over rows and columns alike does six times the same; other statements do not count."""
    alike = "for _ in range(3):\n    a = a / a.sum(2)\n    a = a / a.sum(1)"
    assert loop_counts(alike) == {3, 6}
    assert loop_counts(alike.replace("a = a / a.sum(1)", "b = a / a.sum(1)")) == {3}
