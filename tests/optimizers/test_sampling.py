"""Samples of one seed are the same whatever the threads; a failure and a wrong answer are different things."""

import random
import threading
import time
from dataclasses import replace
from typing import Any

import dspy
import pytest
from dspy import lm15
from dspy.utils.exceptions import ContextWindowExceededError, LMInvalidRequestError, LMServerError

from optimizers import Domain, MetricError
from optimizers.attempt import Attempt
from optimizers.call_seeds import derive_seed
from optimizers.completion_batches import BatchMember, CompletionBatches
from optimizers.iteration_counts import NearestMisses
from tests.support.scripted_program import ScriptedEngine, Solver, answer, by_task, learn, some

pytestmark = pytest.mark.usefixtures("no_waiting")


class Seeded(ScriptedEngine):
    """Right or wrong by the request alone, and late by an arbitrary amount."""

    def complete(self, request: Any) -> Any:
        config = request.config
        luck = derive_seed(config.seed, config.temperature, len(request.messages)) % 100
        time.sleep(luck / 50_000)
        response = super().complete(request)
        task = (request.messages[-1].text or "").split()[5]
        odds = {"a": 40, "b": 10}.get(task, len(request.messages))
        text = f"right {task}" if luck < odds else f"wrong {luck}"
        usage = replace(response.usage, output_tokens=len(text))
        return replace(response, message=lm15.Message.assistant(answer(text)), usage=usage)


def timeless(compiled: dspy.Module) -> Any:
    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: strip(item) for k, item in value.items() if "seconds" not in k and k != "threads"}
        return [strip(item) for item in value] if isinstance(value, list) else value

    return strip(compiled.experience.to_dict())


def test_same_seed_same_run_whatever_the_threads_and_another_seed_another():
    options = {"n": 8, "temperatures": (0.4, 1.0)}
    runs = [
        timeless(learn("abcx", some, engine=Seeded(some, 8), threads=threads, seed=seed, **options))
        for threads, seed in [(1, 3), (8, 3), (8, 4)]
    ]
    assert runs[0] == runs[1]
    assert [a["seed"] for a in runs[1]["attempts"]] != [a["seed"] for a in runs[2]["attempts"]]
    assert len(runs[0]["iterations"]) > 1


def test_the_engine_sees_each_samples_temperature_and_seed():
    engine = ScriptedEngine(some, 3)
    compiled = learn("x", some, engine=engine, n=3, temperatures=(0.0, 0.7))
    sent = {(request.config.temperature, request.config.seed) for request in engine.requests}
    assert sent == {(a.temperature, a.seed) for a in compiled.experience.attempts} and len(sent) == 6


def test_failures_within_the_bound_are_not_wrong_answers():
    class Sometimes(ScriptedEngine):
        def complete(self, request: Any) -> Any:
            response = super().complete(request)
            if self.calls == 5:
                raise lm15.InvalidRequestError("no")
            return response

    compiled = learn("a", lambda *_: 4, engine=Sometimes(lambda *_: 8, 8), n=8, threads=1)
    (entry,) = compiled.experience.entries
    assert (entry.successes, entry.samples, entry.rate) == (7, 7, 1.0)
    (failed,) = [a for a in compiled.experience.attempts if not a.scored]
    assert (failed.sample, failed.passed, failed.score) == (4, False, None)
    assert failed.error is not None and failed.error.startswith("LMInvalidRequestError")
    assert compiled.experience.iterations[0].failures == 1


def test_a_program_that_crashes_is_a_failure_and_its_error_the_reason():
    class Broken(Solver):
        def forward(self, task: str) -> dspy.Prediction:
            raise KeyError("oops")

    with pytest.raises(KeyError, match="oops"):
        learn("ab", some, student=Broken())


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (lambda solved: solved.answer, lambda result: result),
        (lambda solved: [solved], lambda result: result[0].answer),
        (lambda solved: {"answer": solved.answer}, lambda result: result["answer"]),
    ],
)
def test_a_program_may_give_any_value_that_its_metric_takes(given: Any, read: Any) -> None:
    """As with DSPy's own optimizers; None is a forgotten return."""

    class Plain(Solver):
        def forward(self, task: str) -> Any:
            return given(self.solve(task=task))

    def metric(example: Any, result: Any) -> bool:
        return bool(read(result) == f"right {example.task}")

    compiled = learn("abx", some, student=Plain(), metric=metric)
    assert compiled.experience.solved == ("a", "b") and compiled.solve.demos
    given = print
    with pytest.raises(TypeError, match=r"gave None, expected a dspy\.Prediction"):
        learn("a", some, student=Plain(), metric=metric)


def test_a_run_that_is_resumed_keeps_what_its_iterations_were_built_on():
    """A sample without an answer in a whole iteration stays one; in the interrupted iteration it is tried again."""

    class Sometimes(ScriptedEngine):
        def complete(self, request: Any) -> Any:
            response = super().complete(request)
            if self.calls == 2:
                raise lm15.InvalidRequestError("no")
            return response

    whole = learn("ax", some, engine=Sometimes(some, 8), n=8, threads=1).experience
    assert [result.failures for result in whole.iterations] == [1, 0]
    engine = ScriptedEngine(some, 8)
    resumed = learn("ax", some, engine=engine, n=8, threads=1, compiling={"resume": whole.attempts[:18]}).experience
    assert engine.calls == 24 - 18
    assert [(a.iteration, a.seed, a.outputs, a.score) for a in resumed.attempts] == [
        (a.iteration, a.seed, a.outputs, a.score) for a in whole.attempts
    ]
    assert resumed.entries == whole.entries
    unscored = replace(whole.attempts[17], score=None)
    resumed = learn("ax", some, engine=engine, n=8, compiling={"resume": [*whole.attempts[:17], unscored]}).experience
    assert all(attempt.scored for attempt in resumed.attempts[16:])


def test_a_metric_that_raises_ends_the_run_naming_the_sample():
    def metric(example: dspy.Example, prediction: dspy.Prediction) -> bool:
        raise ZeroDivisionError("boom")

    with pytest.raises(MetricError, match=r"task a, temperature 0\.7, sample \d+: ZeroDivisionError: boom"):
        learn("a", some, metric=metric)


def test_a_metric_without_a_score_is_refused():
    with pytest.raises(MetricError, match=r"task a.*it gave 'yes', expected a number"):
        learn("a", some, metric=lambda example, prediction: "yes")


def test_what_a_metric_returns_beside_the_score_is_recorded():
    def metric(example: dspy.Example, prediction: dspy.Prediction) -> dspy.Prediction:
        return dspy.Prediction(score=0.5, stage="type", diagnostics=["E1"])

    compiled = learn("a", some, metric=metric, domain=Domain(task_key=by_task, threshold=0.5))
    attempt = compiled.experience.attempts[0]
    assert (attempt.score, attempt.passed) == (0.5, True)
    assert attempt.feedback == {"stage": "type", "diagnostics": ["E1"]}


def test_the_metric_runs_in_the_worker_right_after_the_sample():
    threads = set()

    def metric(example: dspy.Example, prediction: dspy.Prediction) -> float:
        threads.add(threading.get_ident())
        return 0.0

    learn("ab", some, metric=metric, threads=4)
    assert threading.get_ident() not in threads and threads


ALONE = ["alone"]


class Server:
    """Answers a request for `n` with as many completions, or raises."""

    def __init__(self, *given: str, error: Exception | None = None) -> None:
        self.given, self.error, self.asked = given, error, []  # type: ignore[var-annotated]

    def __call__(self, **settings: Any) -> list[str]:
        self.asked.append(settings.get("n"))
        if not settings:
            return ALONE
        if self.error is not None:
            raise self.error
        return list(self.given)


def members(batches: CompletionBatches, places: tuple[int, ...] = (0, 1, 2)) -> list[BatchMember]:
    joined = [batches.join("key", places, place, {"n": len(places)}) for place in places]
    return [member for member in joined if member is not None]


def test_each_sample_takes_the_completion_of_its_place_from_one_request() -> None:
    """Whatever the others' order; only its first request is shared."""
    server, (first, second, third) = Server("x", "y", "z"), members(CompletionBatches(3))
    assert [first(server, "p", {}), third(server, "p", {}), second(server, "p", {})] == [["x"], ["z"], ["y"]]
    assert server.asked == [3]
    assert first(server, "p", {}) == ALONE and server.asked == [3, None]


def test_a_sample_whose_request_differs_asks_alone() -> None:
    """And so does one whose completion the server left out."""
    server, (first, second, third) = Server("x", "y"), members(CompletionBatches(3))
    assert first(server, "p", {}) == ["x"]
    assert second(server, "other", {}) == ALONE and third(server, "p", {}) == ALONE
    assert server.asked == [3, None, None]


def test_a_refusal_ends_batching_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Everybody asks alone, and nobody joins a batch any more."""
    batches = CompletionBatches(3)
    server = Server(error=LMInvalidRequestError(model="m", message="only 1"))
    assert [member(server, "p", {}) for member in members(batches)] == [ALONE] * 3
    assert batches.join("key", (0, 1), 0, {"n": 2}) is None
    batches.refuse(ValueError())
    assert len(caplog.records) == 1 and "does not accept n=3" in caplog.text


@pytest.mark.parametrize("kind", [LMServerError, ContextWindowExceededError])
def test_a_failure_of_the_one_request_is_that_of_every_member(kind: Any) -> None:
    """It says nothing about batches, so that later ones are made."""
    batches = CompletionBatches(2)
    server = Server(error=kind(model="m", message="down"))
    for member in members(batches, (0, 1)):
        with pytest.raises(kind):
            member(server, "p", {})
    assert server.asked == [2] and batches.join("next", (0, 1), 0, {"n": 2}) is not None


def test_a_leader_that_makes_no_request_leaves_the_others_to_ask_alone() -> None:
    """A batch whose members are all done is dropped."""
    batches, server = CompletionBatches(2), Server("x", "y")
    first, second = members(batches, (0, 1))
    first.leave()
    assert second(server, "p", {}) == ALONE
    second.leave()
    assert batches._batches == {}


def test_a_single_sample_is_not_batched() -> None:
    """There is nobody to share with."""
    assert CompletionBatches(4).join("key", (3,), 3, {"n": 1}) is None


def attempt(task: str, score: float | None, answer: str = "", **fields: Any) -> Attempt:
    place = {"iteration": 0, "task": 0, "task_key": task, "temperature": 0.4, "sample": 0, "seed": 0}
    outputs = {"answer": answer} if answer else {}
    return Attempt(**place | {"outputs": outputs, "score": score, "passed": score == 1.0} | fields)


def closeness(attempt: Attempt) -> float:
    return attempt.score or 0.0


FIRST = [
    attempt("a", 0.25, "far"),
    attempt("a", 0.5, "near", sample=3),
    attempt("a", 0.5, "near, later", sample=4),
    attempt("a", 0.5, "near, hotter", temperature=1.0),
    attempt("a", 1.0, "right"),
    attempt("a", None),
    attempt("b", 0.0),
]


def test_the_closest_wrong_answer_represents_a_task() -> None:
    """An attempt without an answer counts for nothing."""
    for seed in range(5):
        misses = NearestMisses(closeness)
        for each in random.Random(seed).sample(FIRST, len(FIRST)):
            misses.add(each)
        assert misses.fields == {}, "nothing changes within an iteration"
        misses.finish_iteration()
        assert misses.fields == {"a": {"answer": "near"}}


def test_a_later_miss_replaces_one_that_is_not_closer() -> None:
    misses = NearestMisses(closeness)
    for score, text, expected in ((0.5, "one", "one"), (0.5, "two", "two"), (0.4, "three", "two")):
        misses.add(attempt("a", score, text))
        misses.finish_iteration()
        assert misses.fields["a"] == {"answer": expected}
