"""The defaults of a domain: a task's name is a digest of its inputs, the same in every run."""

import dspy
import pytest

from optimizers import Domain
from optimizers.domain import input_digest


def example(**fields: object) -> dspy.Example:
    return dspy.Example(**fields).with_inputs("task", "notes")


def test_a_task_is_named_by_its_inputs_whatever_their_order() -> None:
    """Outputs, which are answers, do not count."""
    name = input_digest(example(task="a", notes=[1, 2], answer="x"))
    assert len(name) == 12
    assert name == input_digest(example(notes=[1, 2], task="a", answer="y"))
    assert name != input_digest(example(task="a", notes=[2, 1], answer="x"))


def test_an_input_whose_text_changes_from_run_to_run_is_refused() -> None:
    """Its digest would be another name in every run."""
    with pytest.raises(ValueError, match=r"memory address.*Domain\(task_key=\.\.\.\)"):
        input_digest(example(task=object(), notes=[]))


def test_the_default_groups_by_words_and_prefers_fewer_lines() -> None:
    """White space makes no other answer."""
    domain = Domain()
    assert domain.grouping_key({"answer": "a  b\n"}) == domain.grouping_key({"answer": "a b"})
    assert domain.grouping_key({"answer": "a b"}) != domain.grouping_key({"answer": "ab"})
    assert domain.length({"answer": "one long line"}) < domain.length({"answer": "a\nb"})
    assert (domain.threshold, domain.demo_predictors, domain.traced_demos) == (1.0, None, True)
