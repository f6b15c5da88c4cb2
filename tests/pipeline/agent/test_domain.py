"""Answers are grouped by what they compute as text, and the shorter one is preferred."""

from __future__ import annotations

import dspy
import pytest

from pipeline.agent.domain import code_length, step_domain
from tests.support.scripted_runs import tasks


def test_names_and_comments_make_no_other_answer() -> None:
    """Another function does."""
    key = step_domain().grouping_key
    one = key({"impl": "E1 = step.Map(fn=fn_a).apply(E0)\nreturn E1"})
    assert one == key({"impl": "# why\nx = step.Map(fn=fn_a).apply(E0)\nreturn x"})
    assert one != key({"impl": "E1 = step.Map(fn=fn_b).apply(E0)\nreturn E1"})


@pytest.mark.parametrize(
    ("text", "length"),
    [("return E0", (1, 9)), ("  a = E0  # an alias\n\n# alone\nreturn a\n", (2, 14)), ("", (0, 0)), ("# x", (0, 0))],
)
def test_a_length_counts_lines_of_code_then_their_characters(text: str, length: tuple[int, int]) -> None:
    """Comments, empty lines and indentation are free."""
    assert code_length(text) == length and step_domain().length({"impl": text}) == length


def test_tasks_are_known_by_name_and_shown_with_their_programs() -> None:
    """Not with the turns that it took to write them."""
    domain = step_domain()
    assert domain.task_key(dspy.Example(task=tasks()[0])) == "easy/0"
    assert not domain.traced_demos
