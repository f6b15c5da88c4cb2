"""What is quoted of a program is the program's own text:

- verdicts that programs of one syntax tree share are told of each by its own lines and places;
- nothing is run again for it.
"""

from __future__ import annotations

import dspy
import pytest

from pipeline.verification.metric import Metric
from pipeline.verification.relocation import requoted
from step_runtime import verify
from step_runtime.base.errors import Diagnostic, Span
from step_runtime.verification.verify import Verdict
from tests.pipeline.verification.test_metric import Counting
from tests.support.scripted_answers import WRONG, task

RENAMED = "# mine\nleft, right = step.Copy().apply(E0)\n\na, b = step.Copy().apply(left)  # again\nreturn a"
WRAPPED = "def body(x):\n    E1, E2 = step.Copy().apply(x)\n    E3, E4 = step.Copy().apply(E1)\n    return E3"


@pytest.mark.parametrize("text", [RENAMED, WRAPPED, WRONG])
def test_feedback_is_what_the_text_alone_would_get(text: str) -> None:
    """Whichever of the texts was judged first, and without a second run."""
    executor = Counting()
    metric = Metric(executor)
    example = dspy.Example(task=task())
    metric(example, dspy.Prediction(impl=WRONG))
    reward = metric(example, dspy.Prediction(impl=text))
    assert reward.feedback == verify(task(), text).render(text, "square/0")
    assert text.split("\n")[-1].strip() in reward.feedback
    assert executor.count == 1


def test_places_follow() -> None:
    """A finding without a place stays one; one at a place that the tree has not is not retold."""
    found = [Diagnostic("run", "x", "one", Span(3, 8, 3, 10)), Diagnostic("run", "y", "two")]
    told = requoted(Verdict(False, "run", tuple(found)), WRONG, RENAMED)
    assert told is not None
    assert [diagnostic.span for diagnostic in told.diagnostics] == [Span(5, 8, 5, 9), None]
    nowhere = Verdict(False, "run", (Diagnostic("run", "x", "one", Span(9, 1, 9, 2)),))
    assert requoted(nowhere, WRONG, RENAMED) is None


@pytest.mark.parametrize("text", ["return E0", "(", f"{WRONG}\nreturn E4"])
def test_other_trees_are_not_retold(text: str) -> None:
    """Then the text is judged itself."""
    assert requoted(Verdict(False, "value"), WRONG, text) is None
