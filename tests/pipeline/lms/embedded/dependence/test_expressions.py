"""Expressions in which data or Python decide have the flows of the same expressions in PyTorch's calls."""

from __future__ import annotations

import pytest

from pipeline.lms.embedded.dependence.paths import Flow, leaf, leaves
from pipeline.lms.embedded.dependence.reader import FlowReader
from pipeline.lms.embedded.dependence.vocabulary import Vocabulary

DATA = {"x": leaf(1), "y": leaf(2)}


def read(code: str) -> Flow:
    reader = FlowReader(Vocabulary(leaf(0)), DATA, {})
    return reader.words.flow(reader.run(f"x, y = input_data['x'], input_data['y']\n{code}", {}))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("max(x, y)", "torch.maximum(x, y)"),
        ("sorted(x)", "x.sort(-1)[0]"),
        ("[a * y for a in x]", "x * y"),
        ("f = lambda a: a.exp()\nf(x)", "torch.exp(x)"),
    ],
)
def test_an_expression_of_python_has_the_flows_of_the_call(one: str, other: str) -> None:
    """All of them."""
    assert read(one) == read(other) != frozenset()


def test_what_decides_is_met() -> None:
    """A condition and a filter are among what a value depends on."""
    assert leaves(read("x if y > 0 else 0 * x")) == leaves(read("[a for a in x if y > 0]")) == leaves(read("x * y"))


def test_numbers_are_computed() -> None:
    """What has no value, or none that a float holds, leaves no trace."""
    assert read("(1 - 0.1) * x") == read("x / (1 / 0.9)") != read("x")
    for beyond in ("1 / 0", f"{'9' * 400} / 3", f"{'9' * 400} * 0.5"):
        assert read(f"({beyond}) * x") == read("x")
