"""An answer without its fields is a wrong one, whatever code it breaks; other failures of that code stay failures."""

from typing import Any

import dspy
import pytest

from optimizers import MetricError
from optimizers.missing_fields import lacks_fields, last_answer
from tests.support.scripted_program import ScriptedEngine, Solver, is_right, learn, some


class Sometimes(dspy.Module):
    """Leaves the answer out where it is wrong: as None, or without the field."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.solve, self.how = dspy.Predict("task -> answer"), how

    def forward(self, task: str) -> dspy.Prediction:
        answer = self.solve(task=task).answer
        if answer.startswith("right"):
            return dspy.Prediction(answer=answer)
        return dspy.Prediction(answer=None) if self.how == "None" else dspy.Prediction(other="?")


@pytest.mark.parametrize("how", ["None", "absent"])
def test_a_metric_that_fails_for_want_of_a_field_says_wrong(how: str) -> None:
    """However many of the answers there are; each has its reason on record."""

    def metric(example: Any, prediction: Any) -> bool:
        return is_right(example, dspy.Prediction(answer=prediction.answer.strip()))

    record = learn("abx", some, n=13, student=Sometimes(how), metric=metric).experience
    assert record.solved == ("a", "b") and record.stopped == "exhausted"
    wrong = [attempt for attempt in record.attempts if not attempt.passed]
    assert all(attempt.score == 0.0 and not attempt.failed for attempt in wrong)
    assert all(str(attempt.error).startswith("metric: AttributeError") for attempt in wrong)


def test_a_program_that_fails_for_want_of_a_field_is_wrong() -> None:
    """The adapter gives None for what the LM leaves out."""

    class Strict(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.solve = dspy.Predict("task -> answer, depth: int | None")

        def forward(self, task: str) -> dspy.Prediction:
            solved = self.solve(task=task)
            return dspy.Prediction(answer=solved.answer, depth=solved.depth + 1)

    def say(request: Any, task: str, right: bool) -> str:
        depth = 1 if right else "null"
        return f"[[ ## answer ## ]]\nright {task}\n\n[[ ## depth ## ]]\n{depth}\n\n[[ ## completed ## ]]"

    record = learn("abx", some, n=13, student=Strict(), engine=ScriptedEngine(some, 13, say)).experience
    assert record.solved == ("a", "b")
    assert {attempt.error for attempt in record.attempts if not attempt.passed} == {
        "TypeError: unsupported operand type(s) for +: 'NoneType' and 'int'"
    }


def test_a_misspelt_field_of_the_metric_is_no_wrong_answer() -> None:
    """No predictor has it: the run ends, as every answer would fail."""
    with pytest.raises(MetricError, match="no attribute 'anwser'"):
        learn("a", some, metric=lambda example, prediction: prediction.anwser == "right a")


def test_what_lacks_fields() -> None:
    """The error has to be about the field, or about None."""
    program, given = Solver(), dspy.Prediction(other=1)
    calls = [(program.solve, {}, dspy.Prediction(answer=None))]
    assert lacks_fields(KeyError("answer"), program, [], given)
    assert not lacks_fields(KeyError("answer"), program, [], dspy.Prediction(answer="a"))
    assert not lacks_fields(KeyError(), program, [], given) and not lacks_fields(AttributeError(), program, [], given)
    assert lacks_fields(TypeError("object of type 'NoneType' has no len()"), program, calls)
    assert not lacks_fields(TypeError("object of type 'NoneType' has no len()"), program, [])
    assert not lacks_fields(ValueError("NoneType"), program, calls)
    assert (last_answer(calls), last_answer([])) == ("{'answer': None}", "")
