"""Calls of one meaning have one flow."""

from __future__ import annotations

import pytest

from pipeline.lms.embedded.dependence.paths import LARGEST, NOTHING, SUM, TIMES, Flow, leaf, tagged, union
from pipeline.lms.embedded.dependence.vocabulary import STATE, Elements, Value, Vocabulary

X, Y, Z = leaf(1), leaf(2), leaf(3)


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
    """The second result of a sort depends on its input only by choice, as that of an `argsort`."""
    words = Vocabulary(leaf(0))
    values, indices = words.call("sort", [X])
    assert words.choice(X) == indices == words.call("argsort", [X])
    assert words.selected(X, indices) == values


def test_a_gather_is_a_contraction_with_zeros_and_ones() -> None:
    """Which is how a function of streams writes it."""
    words = Vocabulary(leaf(0))
    chosen = words.choice(Y)
    assert words.call("gather", [X, 1, chosen]) == words.call("matmul", [X, chosen])


def test_a_tiny_bound_only_guards() -> None:
    """Another one is a bound."""
    words = Vocabulary(leaf(0))
    assert words.call("clamp", [X, 1e-6]) == X != words.call("clamp", [X, 0])
    assert words.call("maximum", [X, 1e-9]) == X != words.call("maximum", [X, 1.0])


def test_what_one_way_adds_is_multiplied_by_the_decision() -> None:
    """What both ways have is not; without data, a decision is nothing."""
    words = Vocabulary(leaf(0))
    assert words.either(Z, union(X, Y), X) == union(X, words.call("mul", [Y, Z]))
    assert words.either(Z, (X, Y), (X, NOTHING)) == (X, words.call("mul", [Y, Z]))
    assert words.either(leaf(0), X, Y) == union(X, Y)
    assert words.either(Z, 3, 3) == 3
    assert {path.leaf for path in words.either(Z, 1, 0)} == {3}


def test_a_sequence_of_unknown_length_has_the_flow_of_its_elements() -> None:
    """As a tuple has that of its parts."""
    words = Vocabulary(leaf(0))
    assert words.flow(Elements((X, 1))) == words.flow((X, "text")) == X


def test_a_state_that_something_is_added_to_is_a_sum() -> None:
    """Also where what is added depends on another state; two states that are added are none."""
    words, own, other = Vocabulary(leaf(0)), leaf(STATE), leaf(STATE + 1)
    weighted = words.call("mul", [other, X])
    assert words.add(own, weighted) == union(own, tagged(weighted, SUM)) == words.add(weighted, own)
    assert words.add(own, X) == union(own, tagged(X, SUM))
    assert words.add(own, other) == union(own, other)


def test_a_product_of_elements_is_no_sum() -> None:
    """A fold that multiplies a state by each element has the same operations."""
    assert all(not path.tags & SUM for path in call("prod", X, 0))


def test_a_choice_by_the_values_themselves_is_no_product() -> None:
    """An activation by cases bounds its value; the larger of two is that, also where a comparison chooses it."""
    words = Vocabulary(leaf(0))
    bend = words.call("where", [words.call("gt", [X, 0]), X, words.call("mul", [0.2, X])])
    assert bend == words.call("clamp", [X, 0]) == words.call("maximum", [X, words.call("zeros_like", [X])])
    assert words.call("where", [words.call("gt", [X, Y]), X, Y]) == words.call("maximum", [X, Y])
    masked = words.call("where", [words.call("gt", [Y, 0]), X, 0.0])
    assert all(path.tags & TIMES for path in masked)
    routed = words.call("where", [words.call("gt", [X, 0]), X, words.call("median", [X])])
    assert any(path.tags & TIMES for path in routed)


def test_a_large_constant_masks() -> None:
    """What is masked with -1e9 depends on its mask as with minus infinity."""
    words = Vocabulary(leaf(0))
    assert words.call("masked_fill", [X, Y, -1e9]) == words.call("masked_fill", [X, Y, float("-inf")])
    assert words.call("masked_fill", [X, Y, -10]) != words.call("masked_fill", [X, Y, float("-inf")])


def test_elements_are_taken_by_an_index_in_either_place() -> None:
    """`take_along_dim` has its index before the dim, `gather` behind it."""
    words = Vocabulary(leaf(0))
    index = words.call("argsort", [Y])
    assert words.call("take_along_dim", [X, index, 1]) == words.call("gather", [X, 1, index])
    assert {path.leaf for path in words.call("take", [X, index])} == {1, 2}


def test_constant_factors_are_told_apart() -> None:
    """Whether one multiplies or divides; whole numbers leave no trace."""
    words = Vocabulary(leaf(0))
    assert words.call("mul", [0.9, X]) == words.call("div", [X, 1 / 0.9]) != words.call("mul", [0.99, X])
    assert words.call("mul", [0.5, X]) == words.call("div", [X, 3]) == words.call("mul", [-1.0, X]) == X
    assert words.call("add", [X, Y, 0.9]) == words.call("add", [X, words.call("mul", [Y, 0.9])])
