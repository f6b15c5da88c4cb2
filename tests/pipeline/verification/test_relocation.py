"""What is quoted of a program is the program's own text:

- verdicts that programs of one syntax tree share are told of each by its own lines and places;
- nothing is run again for it.
"""

from __future__ import annotations

import dspy
import pytest

from pipeline.verification.metric import Metric
from pipeline.verification.relocation import relocated
from step_runtime import verify
from step_runtime.base.errors import Diagnostic, Span
from step_runtime.language.identity import graphs, known_scopes
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


SCOPES = known_scopes(task())


def test_places_follow() -> None:
    """A finding without a place stays one; one at a place that the graph does not have is not moved."""
    found = [Diagnostic("run", "x", "one", Span(2, 10, 2, 31)), Diagnostic("run", "y", "two")]
    moved = relocated(Verdict(False, "run", tuple(found)), WRONG, RENAMED, SCOPES)
    assert moved is not None
    assert [diagnostic.span for diagnostic in moved.diagnostics] == [Span(4, 8, 4, 31), None]
    nowhere = Verdict(False, "run", (Diagnostic("run", "x", "one", Span(9, 1, 9, 2)),))
    assert relocated(nowhere, WRONG, RENAMED, SCOPES) is None


def test_what_a_program_costs_is_said_at_its_own_place() -> None:
    """At the same primitive, or at the results where no single primitive costs most."""
    for there in (Span(4, 8, 4, 31), None):
        costs = Diagnostic("cost", "cost-memory", "too much", Span(2, 10, 2, 31) if there else None)
        moved = relocated(Verdict(False, "cost", (costs,)), WRONG, RENAMED, SCOPES)
        assert moved is not None and moved.diagnostics[0].span == there


def test_a_place_that_may_be_several_is_not_moved() -> None:
    """One primitive in a comprehension is several elsewhere."""
    one = "E1, E2 = step.Copy().apply(E0)\nE3, E4 = [step.Map(fn=fn_a).apply(x) for x in [E1, E2]]\nreturn E3"
    other = (
        "E1, E2 = step.Copy().apply(E0)\nE3 = step.Map(fn=fn_a).apply(E1)\nE4 = step.Map(fn=fn_a).apply(E2)\nreturn E3"
    )
    given = task().model_copy(
        update={"fns": [task().fns[0].model_copy(update={"func_name": "fn_a", "input_dtype": "fp32"})]}
    )
    known = known_scopes(given)
    assert known is not None
    both = graphs(one, known)
    assert both == graphs(other, known)
    assert both is not None
    span = both[0].nodes[1].span
    assert relocated(Verdict(False, "run", (Diagnostic("run", "x", "m", span),)), one, other, known) is None
    assert relocated(Verdict(True), one, other, known) == Verdict(True)


@pytest.mark.parametrize("text", ["return E0", "(", f"{WRONG}\nreturn E4"])
def test_other_programs_have_verdicts_of_their_own(text: str) -> None:
    """Then the text is judged itself."""
    assert relocated(Verdict(False, "value"), WRONG, text, SCOPES) is None
    assert relocated(Verdict(True), WRONG, text, SCOPES) is None
