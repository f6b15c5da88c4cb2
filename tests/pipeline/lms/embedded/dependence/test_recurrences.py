"""Loops have the smallest flows that hold for any number of turns."""

from __future__ import annotations

import ast

from pipeline.lms.embedded.dependence.paths import NOTHING, leaf, product, union
from pipeline.lms.embedded.dependence.recurrences import (
    altered,
    assigned,
    base_of,
    loop_counts,
    rounds_of,
    solved,
    statements_of,
)
from tests.support.beams import VIEW

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


def test_methods_and_calls_change_variables_in_place() -> None:
    """By their names, by `out`, or because it is known of them; what is only assigned to, or copied, is not."""
    code = "x[0].add_(y)\ntorch.mul(x, y, out=z)\ntorch.relu_(v)\nF.batch_norm(u, m, running_var=s)\nw = 1"
    code += "\nc.clone().add_(y)\nd.T.exp_()"
    assert set(altered(statements_of(code))) == {"x", "z", "v", "m", "s", "d"}
    assert {"x", "z", "v", "m", "s", "d", "w"} <= set(assigned(statements_of(code)))


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


def test_a_loop_may_run_up_to_a_name() -> None:
    """Of a number that is set once, or is given; from 1 on it may follow a round."""
    loop = "for _ in range(turns):\n    x = x + 1"
    assert loop_counts(f"turns = 4\n{loop}") == loop_counts(loop, (), {"turns": 4}) == {4}
    assert loop_counts(f"turns = 4\n{loop}\nturns = 5") == loop_counts(loop) == set()
    assert loop_counts("for _ in range(1, 4):\n    x = x + 1") == {3, 4}
    assert loop_counts("for place, s in enumerate((a, b)):\n    x = x + s") == {2}


def test_helpers_of_the_reference_say_how_often_it_does_something() -> None:
    """Not those that a function calls."""
    shared = "turns = 4\ndef solve(x):\n    for _ in range(turns):\n        x = x + 1\n    return x"
    task = VIEW.task.model_copy(update={"global_": shared})
    output = task.outputs[0].model_copy(update={"data_transform": ["solve(input_data['x'])"]})
    task = task.model_copy(update={"outputs": [output]})
    assert rounds_of(task, {}) == (4,)
    own = task.fns[0].model_copy(update={"apply": "return [solve(input[0])]"})
    assert rounds_of(task.model_copy(update={"fns": [own, *task.fns[1:]]}), {}) == ()


def test_statements_that_differ_in_constants_run_as_many_times_as_often() -> None:
    """A loop of three rounds over rows and columns alike does six times the same; other statements do not count."""
    alike = "for _ in range(3):\n    a = a / a.sum(2)\n    a = a / a.sum(1)"
    assert loop_counts(alike) == {3, 6}
    assert loop_counts(alike.replace("a = a / a.sum(1)", "b = a / a.sum(1)")) == {3}
