"""A metric is called as it asks to be, its failures are its attempts', and what it asks of LMs is recorded apart."""

import asyncio
import functools
from typing import Any

import dspy
import pytest
from dspy import lm15

from optimizers import Budget, Domain, MetricError, TokenCount
from optimizers.attempt import JUDGE, checked_metric, read_verdict, resolved
from tests.support.scripted_lm import respond
from tests.support.scripted_program import ScriptedEngine, answer, by_task, is_right, learn, some

EXAMPLE, PREDICTION, TRACE = dspy.Example(task="a"), dspy.Prediction(answer="right a"), ["the calls"]


def two(example: Any, prediction: Any) -> Any:
    return example, prediction


def three(example: Any, prediction: Any, trace: Any) -> Any:
    return example, prediction, trace


def optional(example: Any, prediction: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None) -> Any:
    return example, prediction, trace, pred_name, pred_trace


def five(gold: Any, pred: Any, trace: Any, pred_name: Any, pred_trace: Any) -> Any:
    return gold, pred, trace, pred_name, pred_trace


async def later(example: Any, prediction: Any) -> Any:
    await asyncio.sleep(0)
    return example, prediction


class Judge(dspy.Module):
    def forward(self, example: Any, pred: Any, trace: Any = None) -> Any:
        return example, pred, trace


@pytest.mark.parametrize(
    ("metric", "handed"),
    [
        (two, ()), (lambda *arguments: arguments, ()), (three, (TRACE,)), (optional, (TRACE, None, None)),
        (five, (TRACE, None, None)), (later, ()), (functools.partial(three, trace="own"), ()), (Judge(), (TRACE,)),
        (lambda example, prediction, weight=None: (example, prediction, weight), (None,)),
    ],
)  # fmt: skip
def test_a_metric_is_handed_what_it_requires_and_a_trace(metric: Any, handed: tuple[Any, ...]) -> None:
    """In all the forms that DSPy's optimizers accept; by an optional trace it knows that it selects demonstrations."""
    found = checked_metric(metric)(EXAMPLE, PREDICTION, TRACE)
    assert found[:2] == (EXAMPLE, PREDICTION)
    assert tuple(found[2:]) == (handed if not isinstance(metric, functools.partial) else ("own",))


@pytest.mark.parametrize(
    ("metric", "names"),
    [
        (lambda prediction: True, "(prediction)"),
        (lambda a, b, c, d, e, f: True, "(a, b, c, d, e, f)"),
        (lambda example, prediction, *, strict: True, "(example, prediction, strict)"),
    ],
)
def test_what_cannot_be_a_metric_is_refused_with_its_parameters(metric: Any, names: str) -> None:
    """Before anything is sampled."""
    engine = ScriptedEngine(some, 4)
    with pytest.raises(TypeError) as raised:
        learn("a", some, engine=engine, metric=metric)
    expected = "metric: expected a function of an example and a prediction"
    assert (str(raised.value), engine.calls) == (f"{expected}, found one of {names}", 0)


def test_coroutines_are_awaited_within_a_running_loop_too() -> None:
    """As in a notebook, where `compile` is called in one."""

    async def notebook() -> Any:
        return resolved(later(1, 2))

    assert asyncio.run(notebook()) == (1, 2)
    compiled = learn("a", some, metric=lambda *pair: asyncio.sleep(0, is_right(*pair)))
    assert compiled.experience.solved == ("a",)


@pytest.mark.parametrize("verdict", ["1.0", dspy.Prediction(), dspy.Prediction(feedback="x"), {}, (1.0, "why")])
def test_a_verdict_without_a_score_ends_the_run_at_once(verdict: Any) -> None:
    """It is a mistake in the metric, which more answers would only make dearer."""
    engine = ScriptedEngine(some, 64)
    with pytest.raises(MetricError, match=r"the metric failed on task a, .*it gave .*, expected a number") as raised:
        learn("a", some, n=64, engine=engine, metric=lambda *_: verdict, threads=1)
    assert engine.calls <= 2
    assert raised.value.fatal and len(raised.value.experience.attempts) == engine.calls


def graded(example: Any, prediction: Any, trace: Any = None) -> Any:
    """As DSPy's `SemanticF1`: how good an answer is, or, when demonstrations are selected, whether it is right."""
    score = 0.8 if is_right(example, prediction) else 0.3
    return dspy.Prediction(score=score if trace is None else score >= 0.66)


def test_a_metric_that_grades_selects_demonstrations_by_its_own_threshold() -> None:
    """Unless the user gives one, which is then about its grades."""
    assert learn("a", some, metric=graded).experience.solved == ("a",)
    assert learn("a", some, metric=graded, metric_threshold=0.9).experience.solved == ()
    grades = {attempt.score for attempt in learn("a", some, metric=graded, metric_threshold=0.5).experience.attempts}
    assert grades == {0.8, 0.3}


def test_no_verdict_is_a_wrong_answer(caplog: pytest.LogCaptureFixture) -> None:
    """As to DSPy's optimizers, for which None is false; said once, as a `return` may be missing."""
    record = learn("ab", some, metric=lambda *pair: is_right(*pair) or None).experience
    assert record.solved == ("a", "b") and not any(attempt.failed for attempt in record.attempts)
    assert caplog.text.count("the metric gave None") == 1


@pytest.mark.parametrize("verdict", [dspy.Prediction(score=1.0, feedback="well"), {"score": True, "feedback": "well"}])
def test_a_verdict_may_carry_feedback(verdict: Any) -> None:
    """GEPA's form, and a dict of the same fields."""
    assert read_verdict(verdict) == (1.0, {"feedback": "well"})


def test_an_exception_of_the_metric_costs_its_attempt_alone() -> None:
    """It is no wrong answer, and its tokens count."""

    def metric(example: Any, prediction: Any) -> bool:
        if prediction.answer == "wrong":
            raise ZeroDivisionError("nothing to divide by")
        return is_right(example, prediction)

    experience = learn("ab", lambda *_: 14, n=16, metric=metric).experience
    failed = [attempt for attempt in experience.attempts if attempt.failed]
    assert {attempt.error for attempt in failed} == {"metric: ZeroDivisionError: nothing to divide by"}
    assert len(failed) == 4 == experience.iterations[0].failures
    assert all(attempt.score is None and attempt.outputs and attempt.tokens["solve"].calls == 1 for attempt in failed)
    assert [(entry.successes, entry.samples) for entry in experience.entries] == [(14, 14)] * 2


def test_a_run_that_ends_by_its_metric_hands_out_what_it_learned() -> None:
    """As a compiled program where something was scored, else with the error."""

    def metric(example: Any, prediction: Any) -> bool:
        if example.task == "b":
            raise ConnectionError
        return is_right(example, prediction)

    experience = learn("ab", lambda *_: 4, metric=metric, threads=1).experience
    assert (experience.stopped, experience.solved) == ("failed", ("a",))
    assert "samples got no verdict, the last: the metric failed on task b" in experience.message

    def never(example: Any, prediction: Any) -> bool:
        raise ZeroDivisionError("never")

    with pytest.raises(MetricError, match="ZeroDivisionError: never") as raised:
        learn("ab", lambda *_: 4, metric=never)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert raised.value.experience.stopped == "failed" and raised.value.experience.attempts


class Judging(ScriptedEngine):
    """A judge's own engine, which reports what it was paid."""

    def complete(self, request: lm15.Request) -> lm15.Response:
        with self.lock:
            self.calls += 1
            self.prompt += 7
            self.completion += 3
        return respond(request, answer("yes"), lm15.Usage(input_tokens=7, output_tokens=3))


def judged_by(how: str, lm: dspy.LM) -> Any:
    """A metric with a judge that reaches its LM in one of the ways there are."""
    judge = dspy.Predict("question -> answer")
    judge.lm = lm if how == "own" else None

    def metric(example: Any, prediction: Any) -> bool:
        if how == "bare":
            lm("is it right?")
        elif how == "context":
            with dspy.context(lm=lm):
                judge(question="is it right?")
        elif how == "own":
            judge(question="is it right?")
        else:
            dspy.Predict("task -> answer")(task=example.task)
        return is_right(example, prediction)

    return metric


@pytest.mark.parametrize("how", ["default", "own", "context", "bare"])
def test_an_lm_judge_is_recorded_apart_from_the_program(how: str) -> None:
    """Whichever LM it asks, and however."""
    engine, judging = ScriptedEngine(lambda *_: 12, 4), Judging(some, 4)
    metric = judged_by(how, dspy.LM("judge", engine=judging, cache=False))
    experience = learn("ab", some, engine=engine, metric=metric, threads=1).experience
    samples = len(experience.attempts)
    judged, own = experience.tokens[JUDGE], experience.tokens["solve"]
    assert (judged.calls, own.calls) == (samples, samples) and samples == 8
    if how == "default":
        assert judged.total + own.total == engine.prompt + engine.completion
    else:
        assert (judged.prompt, judged.completion) == (judging.prompt, judging.completion) == (7 * samples, 3 * samples)
        assert own.prompt == engine.prompt
    assert experience.iterations[-1].tokens_prompt_per_task == own.prompt / 2, "the learning curve is the program's"


def test_a_judge_has_a_budget_of_its_own() -> None:
    """Its tokens are not the program's, whose limit they leave alone."""
    lm = dspy.LM("judge", engine=Judging(some, 4), cache=False)

    def metric(example: Any, prediction: Any) -> bool:
        lm("is it right?")
        return is_right(example, prediction)

    limited = learn("ax", some, metric=metric, threads=1, budget=Budget(judge_tokens=25)).experience
    assert (limited.stopped, len(limited.attempts)) == ("budget", 3)
    assert limited.message == "budget reached: 30 tokens of the LM judge of 25"
    spent = TokenCount.sum(count for name, count in limited.tokens.items() if name != JUDGE)
    free = learn("ax", some, metric=metric, threads=1, budget=Budget(tokens=spent.total + 1)).experience
    assert len(free.attempts) == 4


def test_a_score_that_never_reaches_the_threshold_is_named() -> None:
    """A metric of similarity seldom gives 1."""
    experience = learn("ab", some, metric=lambda example, prediction: 0.83).experience
    hint = "no score reached the threshold 1, the highest is 0.83; metric_threshold sets it"
    assert (experience.stopped, experience.message) == ("exhausted", f"2 tasks remain unsolved; {hint}")
    assert learn("ab", some, metric=lambda *_: 0.83, metric_threshold=0.8).experience.stopped == "solved"
    assert "threshold" not in learn("ab", lambda *_: 0).experience.message
    assert learn("ab", some, metric=lambda *_: 0.5, domain=Domain(task_key=by_task, threshold=0.5)).experience.solved


def test_unscored_verdicts_enter_no_rate_and_are_no_failures() -> None:
    """pass@k counts what was judged; a run with many such answers goes on."""

    def metric(example: Any, prediction: Any) -> dspy.Prediction:
        return dspy.Prediction(score=0.0, unscored=True)

    experience = learn("a", some, metric=metric, threads=1).experience
    assert experience.stopped == "exhausted" and experience.attempts
    assert all(attempt.unknown for attempt in experience.attempts)
    assert all(result.failures == 0 for result in experience.iterations)
    assert sum(result.unknown for result in experience.iterations) == len(experience.attempts)
    assert all(count.samples == 0 for result in experience.iterations for count in result.counts)
