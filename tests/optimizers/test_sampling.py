"""Samples of one seed are the same whatever the threads; a failure and a wrong answer are different things."""

import time
from dataclasses import replace
from typing import Any

import dspy
import pytest
from dspy import lm15

from optimizers import Budget, Domain, MetricError
from optimizers.requests import derive_seed
from tests.support.scripted_program import ScriptedEngine, Solver, answer, by_task, is_right, learn, some

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


def test_what_a_metric_returns_beside_the_score_is_recorded():
    def metric(example: dspy.Example, prediction: dspy.Prediction) -> dspy.Prediction:
        return dspy.Prediction(score=0.5, stage="type", diagnostics=["E1"])

    compiled = learn("a", some, metric=metric, domain=Domain(task_key=by_task, threshold=0.5))
    attempt = compiled.experience.attempts[0]
    assert (attempt.score, attempt.passed) == (0.5, True)
    assert attempt.feedback == {"stage": "type", "diagnostics": ["E1"]}


class Forgetful(dspy.Module):
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

    record = learn("abx", some, n=13, student=Forgetful(how), metric=metric).experience
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


RATES = {"a": 1, "b": 2, "c": 3}


def rated(task: str, demos: tuple[str, ...], visit: int) -> int:
    return RATES.get(task[0], 0)


class Narrow(ScriptedEngine):
    """Refuses prompts with more than so many demonstrations, or of some task."""

    def __init__(self, most: int, never: str = "") -> None:
        super().__init__(rated, 4)
        self.most, self.never, self.refused = most, never, 0

    def complete(self, request: lm15.Request) -> lm15.Response:
        demos = (len(request.messages) - 1) // 2
        if demos > self.most or (self.never and f"\n{self.never}\n" in (request.messages[-1].text or "")):
            with self.lock:
                self.refused += 1
            raise lm15.InvalidRequestError("Input is too long.", status=400)
        return super().complete(request)


def test_half_of_the_demonstrations_are_left_out_where_they_are_refused_and_later_ones_start_with_the_rest() -> None:
    """In whatever order samples end; a run that is resumed ends as one that was not interrupted."""

    def run(threads: int, resume: Any = ()) -> Any:
        engine = Narrow(1)
        compiling = {"resume": resume}
        compiled = learn("abcxy", rated, engine=engine, granularity=2, threads=threads, compiling=compiling)
        return compiled.experience, engine.refused

    (whole, refused), (other, _) = run(8), run(1)
    assert whole.stopped == "exhausted" and not any(result.failures for result in whole.iterations)
    assert [len(result.demos) for result in whole.iterations] == [0, 2, 1] and refused == 8
    assert {attempt.left_out for attempt in whole.attempts if attempt.iteration == 1} == {1}
    assert not any(attempt.left_out for attempt in whole.attempts if attempt.iteration == 2)
    assert len(whole.demos) == 1
    again, _ = run(1, tuple(whole.attempts)[: len(whole.attempts) - 5])
    for each in (other, again):
        assert [result.demos for result in each.iterations] == [result.demos for result in whole.iterations]
        assert [attempt.left_out for attempt in each.attempts] == [attempt.left_out for attempt in whole.attempts]


def test_a_task_that_is_too_long_without_demonstrations_is_asked_in_one_iteration_only() -> None:
    engine = Narrow(9, never="x")
    record = learn("abx", rated, engine=engine, granularity=1).experience
    assert engine.refused == 4 and record.iterations[0].unanswered == ("x",)
    assert len(record.iterations) == 1 and record.stopped == "exhausted"
    assert "too long for the LM, even without demonstrations: x" in record.message
    assert all(attempt.too_long for attempt in record.attempts if attempt.task_key == "x")


def test_an_lm_that_finds_everything_too_long_cannot_be_used() -> None:
    with pytest.raises(Exception, match="Input is too long"):
        learn("abx", rated, engine=Narrow(-1))


def test_the_closest_wrong_answer_represents_a_task() -> None:
    """Of equally close ones that of the latest iteration, and there the first; a hold-out judges it."""
    seen: list[str] = []
    closeness = {"far": 0.25, "near": 0.5, "near, too": 0.5, "least": 0.0}
    said = iter(["near", "far", "near, too", "least", "near", "far", "least", "least"])

    def judged(right: Any, wrong: Any) -> list[None]:
        seen.extend(outputs["answer"] for _, outputs in wrong)
        return [None for _ in [*right, *wrong]]

    def run(iterations: int) -> None:
        learn(
            "x", some, engine=ScriptedEngine(some, 4, lambda *_: answer(next(said))), threads=1, selection="resample",
            metric=lambda example, prediction: closeness[prediction.answer], budget=Budget(iterations=iterations),
            domain=Domain(task_key=by_task, hold_out=judged),
        )  # fmt: skip

    run(1)
    assert seen == ["near"]
    said = iter(["near, too", "far", "least", "least", "far", "near", "least", "least", "far"] + 3 * ["least"])
    run(3)
    assert seen == ["near", "near"]
