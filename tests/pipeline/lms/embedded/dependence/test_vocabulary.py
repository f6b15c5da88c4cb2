"""Calls of one meaning have one flow."""

from __future__ import annotations

import pytest

from pipeline.lms.embedded.dependence.paths import LARGEST, NOTHING, SUM, Flow, leaf, tagged, union
from pipeline.lms.embedded.dependence.vocabulary import STATE, Elements, Value, Vocabulary

X, Y = leaf(1), leaf(2)


def call(name: str, *args: Value) -> Value:
    return Vocabulary(leaf(0)).call(name, args)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (call("where", X, Y, 0.0), call("mul", X, Y)),
        (call("gt", X, Y), call("lt", Y, X)),
        (call("matmul", X, Y), call("sum", call("mul", X, Y))),
        (call("pow", X, 0.5), call("pow", call("mul", X, 3), 0.5)),
        (call("masked_fill", X, Y, float("-inf")), union(X, Y)),
        (call("cat", (X, Y)), union(X, Y)),
        (call("div", 1, X), call("pow", X, -1)),
        (call("zeros_like", X), NOTHING),
        (call("max", X, 1)[0], tagged(X, LARGEST)),
        (call("arange", 4), leaf(0)),
    ],
)
def test_calls_of_one_meaning_have_one_flow(one: Flow, other: Flow) -> None:
    """The mark of a mask is that of a factor but for its sign, and so on."""
    assert {path._replace(tags=path.tags & ~3) for path in one} == {
        path._replace(tags=path.tags & ~3) for path in other
    }


@pytest.mark.parametrize(("one", "other"), [("tanh", "sin"), ("sum", "amax"), ("exp", "log"), ("gt", "eq")])
def test_other_calls_have_other_flows(one: str, other: str) -> None:
    """An operation leaves its own mark, also where only its name is known."""
    words = Vocabulary(leaf(0))
    assert words.call(one, [X, Y]) != words.call(other, [X, Y])


def test_what_is_added_to_a_state_is_summed() -> None:
    """A running sum in a function is a sum in the reference."""
    state = leaf(STATE)
    assert Vocabulary(leaf(0)).add(state, X) == union(state, tagged(X, SUM))


def test_indices_select() -> None:
    """The second result of a sort depends on its input only by choice."""
    words = Vocabulary(leaf(0))
    values, indices = words.call("sort", [X])
    assert words.choice(values) == indices


def test_a_sequence_of_unknown_length_has_the_flow_of_its_elements() -> None:
    """As a tuple has that of its parts."""
    words = Vocabulary(leaf(0))
    assert words.flow(Elements((X, 1))) == words.flow((X, "text")) == X
