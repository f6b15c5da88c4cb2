"""A run is described in sentences."""

from __future__ import annotations

from optimizers import Budget, Experience
from pipeline.record.metrics import describe
from tests.support.scripted_runs import learn


def test_a_run_is_described_in_sentences() -> None:
    """Singular and plural differ, and an empty part is left out."""
    many, one = learn([]), learn([], budget=Budget(iterations=1))
    assert describe(many).startswith("**2 of 3 tasks solved** in 4 iterations. 1 task stays unsolved.\n")
    assert describe(many).endswith("\n\nUnsolved: no/0.")
    assert describe(one).startswith("**1 of 3 tasks solved** in 1 iteration. Budget reached: 1 iteration of 1.\n")
    nothing = Experience(("a",), stopped="exhausted", message="1 task stays unsolved")
    assert describe(nothing) == "**0 of 1 task solved** in 0 iterations. 1 task stays unsolved.\n\nUnsolved: a."
