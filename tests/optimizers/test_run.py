"""What a run learns and reports.

Invariants held here: a budget ends a run with a usable program; a task that is always refused does not end the learning
of the others, also on resumption; demonstrations that do not fit are left out and reported.
"""

from typing import Any

import dspy
import pytest
from dspy import lm15

from optimizers import (
    Budget,
    Domain,
)
from tests.support.scripted_program import Heard, Refusing, Solver, by_task, learn, shown_two, some, story

pytestmark = pytest.mark.usefixtures("no_waiting")


def test_a_budget_of_iterations_ends_the_run_with_a_usable_program():
    compiled = learn("abx", some, budget=Budget(iterations=2))
    assert (len(compiled.experience.iterations), compiled.experience.stopped) == (2, "budget")
    assert compiled.experience.message == "budget reached: 2 iterations of 2"
    assert [demo.task for demo in compiled.solve.demos] == ["a"]


def test_a_task_that_is_always_refused_is_tried_on_and_does_not_end_the_learning_of_the_others(caplog):
    with caplog.at_level("WARNING"):
        compiled = learn("abcxr", shown_two, engine=Refusing(shown_two, 8), n=8)
    record = compiled.experience
    assert story(compiled)[:4] == ["None: - -> abc", "H_1: ab -> -", "HM_1: ab -> -", "HME_1: abc -> x"]
    assert (record.stopped, record.unsolved) == ("exhausted", ("r",))
    assert record.message == "1 task remains unsolved; no scored answers for r"
    assert all(result.unanswered == ("r",) and result.failures == 8 for result in record.iterations)
    warnings = [entry.getMessage() for entry in caplog.records]
    assert len(warnings) == 1 and warnings[0].startswith("r: no sample got an answer")


def test_a_run_with_a_refused_task_ends_on_resumption_as_if_it_was_never_interrupted():
    whole = learn("abcxr", shown_two, engine=Refusing(shown_two, 8), n=8, threads=1).experience
    for cut in (45, 60, 75):
        engine = Refusing(shown_two, 8)
        resumed = learn(
            "abcxr", shown_two, engine=engine, n=8, threads=1, compiling={"resume": whole.attempts[:cut]}
        ).experience
        assert [a.error for a in resumed.attempts] == [a.error for a in whole.attempts]
        assert (resumed.stopped, resumed.message) == (whole.stopped, whole.message)
        assert [r.unanswered for r in resumed.iterations] == [r.unanswered for r in whole.iterations]


def test_prompts_too_long_for_some_task_once_there_are_demonstrations_do_not_end_the_run():
    class Short(Refusing):
        def complete(self, request: Any) -> Any:
            long = len(request.messages) > 2 and "\nx\n" in (request.messages[-1].text or "")
            if long:
                raise lm15.ContextLengthError("too long")
            return super().complete(request)

    record = learn("abcxy", shown_two, engine=Short(shown_two, 8), n=8, threads=1).experience
    assert record.stopped == "exhausted" and not any(result.unanswered for result in record.iterations)
    without = [attempt.left_out for attempt in record.attempts if attempt.task_key == "x" and attempt.iteration == 1]
    assert without == [2] * 8, "asked again without the demonstrations, and answered"
    assert [result.label for result in record.iterations] == ["None", "H_1", "HM_1", "HME_1"]


def test_only_the_chosen_predictors_get_demonstrations_and_of_their_own_calls():
    class Two(Solver):
        def __init__(self) -> None:
            super().__init__()
            self.check = dspy.Predict("task, draft -> answer")
            self.check.demos = [dspy.Example(task="t", draft="d", answer="base prompt")]

        def forward(self, task: str) -> dspy.Prediction:
            answer = self.solve(task=task).answer
            return dspy.Prediction(answer=answer, note="beside the signature")

    only = Domain(task_key=by_task, demo_predictors=("solve",))
    compiled = learn("ab", some, student=Two(), domain=only)
    (demo,) = compiled.solve.demos
    assert isinstance(demo, dspy.Example)
    assert demo.toDict() == {"augmented": True, "task": "a", "answer": "right a"}
    assert [demo.answer for demo in compiled.check.demos] == ["base prompt"]
    named = learn("ab", some, student=Two(), domain=Domain(task_key=by_task, demo_predictors=("check",)))
    assert named.solve.demos == named.check.demos == [], "nothing called it"


def test_demonstrations_beyond_the_context_window_are_left_out_easiest_first_and_reported():
    heard = Heard()
    rates = {"a": 1, "b": 2, "c": 3}
    names = [name * 600 for name in "abcx"]
    compiled = learn(
        names,
        lambda task, demos, visit: rates.get(task[0], 0),
        granularity=1,
        budget=Budget(context=1500),
        observers=[heard],
    )
    assert [[key[0] for key in event.demos] for event in heard.started] == [[], ["a", "b"]]
    assert [key[0] for key in compiled.experience.iterations[1].left_out] == ["c"]
    assert [demo.task[0] for demo in compiled.solve.demos] == ["a", "b"]
