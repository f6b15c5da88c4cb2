"""What a run learns and reports.

Invariants held here: a budget ends a run with a usable program; a task that is always refused does not end the learning
of the others, also on resumption; demonstrations that do not fit are left out and reported.
"""

from typing import Any

import dspy
import pytest
from dspy import lm15

from optimizers import (
    Attempt,
    Budget,
    Domain,
    MetricError,
    OptimizerError,
    TokenCount,
    UnknownSelectionError,
)
from optimizers.attempt import TaskExample
from optimizers.errors import RunStopped, one_line
from optimizers.sampling import Sampling
from optimizers.sampling_loop import IterationCounts
from tests.support.scripted_program import Heard, Refusing, Solver, by_task, learn, shown_two, some, story

pytestmark = pytest.mark.usefixtures("no_waiting")


def test_a_budget_of_iterations_ends_the_run_with_a_usable_program():
    compiled = learn("abx", some, budget=Budget(iterations=2))
    assert (len(compiled.experience.iterations), compiled.experience.stopped) == (2, "budget")
    assert compiled.experience.message == "budget reached: 2 iterations of 2"
    assert [demo.task for demo in compiled.solve.demos] == ["a"]


def test_a_budget_of_minutes_ends_the_run():
    compiled = learn("x", some, budget=Budget(minutes=0))
    assert (compiled.experience.stopped, compiled.experience.iterations) == ("budget", ())


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


def test_the_story_of_a_run_follows_from_its_iterations():
    assert story(learn("ax", some))[0] == "None: - -> a"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("  no\nadvice for developers"), "ValueError: no"),
        (KeyError("oops"), "KeyError: 'oops'"),
        (ZeroDivisionError(), "ZeroDivisionError: "),
    ],
)
def test_one_line_is_the_class_and_the_first_line_of_the_message(error: Exception, line: str) -> None:
    """What follows in the message is left out."""
    assert one_line(error) == line


def test_every_error_can_be_caught_as_the_package_s() -> None:
    """Unknown names are values that are wrong; the end of a run is not an error."""
    assert all(issubclass(kind, OptimizerError) for kind in (MetricError, UnknownSelectionError))
    assert issubclass(UnknownSelectionError, ValueError)
    assert not issubclass(RunStopped, OptimizerError)


def test_the_end_of_a_run_has_its_reason_message_and_cause() -> None:
    """The cause is None where nothing failed."""
    cause = TimeoutError("late")
    stop = RunStopped("failed", "no answer", cause)
    assert (stop.stopped, str(stop), stop.cause) == ("failed", "no answer", cause)
    assert RunStopped("budget", "reached").cause is None


SAMPLING = Sampling(num_samples=2, temperatures=(0.4, 1.0))

TASKS = [TaskExample(index, key, dspy.Example()) for index, key in enumerate("ab")]


def attempt(task: int, temperature: float, sample: int, score: float | None) -> Attempt:
    tokens = {"solve": TokenCount(calls=1, prompt=10), "check": TokenCount(calls=1, completion=task)}
    return Attempt(0, task, "ab"[task], temperature, sample, 0, score=score, passed=score == 1.0, tokens=tokens,
                   seconds=2.0, metric_seconds=0.5)  # fmt: skip


@pytest.fixture
def counts() -> IterationCounts:
    counts = IterationCounts(SAMPLING)
    for each in (attempt(1, 1.0, 1, 1.0), attempt(0, 0.4, 0, None), attempt(1, 0.4, 1, 0.0), attempt(1, 1.0, 0, 1.0)):
        counts.add(each)
    return counts


def test_places_are_those_of_task_temperature_and_sample(counts: IterationCounts) -> None:
    """Sorted, they are the order of the algorithm."""
    assert list(counts.places) == [7, 0, 5, 6] and counts.samples == 4


def test_a_failure_counts_in_neither_number(counts: IterationCounts) -> None:
    """It is no sample of the rate."""
    assert counts.failures == 1
    assert [(c.task_key, c.temperature, c.successes, c.samples) for c in counts.counts(TASKS[0])] == [
        ("a", 0.4, 0, 0),
        ("a", 1.0, 0, 0),
    ]


def test_the_best_temperature_has_the_highest_rate_and_is_the_first_of_equals(counts: IterationCounts) -> None:
    """A temperature without a scored sample is the worst."""
    best = counts.best(TASKS[1])
    assert (best.temperature, best.successes, best.samples) == (1.0, 2, 2)
    assert counts.best(TASKS[0]).temperature == 0.4


def test_tokens_and_seconds_add_up_per_predictor_and_per_task(counts: IterationCounts) -> None:
    """Failed samples have cost something too."""
    assert counts.tokens == {"solve": TokenCount(calls=4, prompt=40), "check": TokenCount(calls=4, completion=3)}
    assert counts.spent(1) == TokenCount(calls=6, prompt=30, completion=3) and counts.spent(5) == TokenCount()
    assert (counts.seconds, counts.metric_seconds) == (8.0, 2.0)
