"""Samples of one seed are the same whatever the threads; a failure and a wrong answer are different things."""

import logging
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import dspy
import pytest
from dspy import lm15
from dspy.utils.exceptions import LMAuthError, LMServerError

from optimizers import (
    AdaptiveFewShot,
    Attempt,
    Budget,
    Domain,
    Experience,
    MetricError,
    SampleError,
    Sampling,
    TemperatureError,
)
from optimizers.errors import UnavailableError
from optimizers.requests import derive_seed, fixed, refused, taken, takes_one, temperature_of
from optimizers.sampling import Sampler
from optimizers.sampling_loop import MOST_RIGHT, IterationCounts, UntilSolved, sample_until_solved
from tests.support.scripted_program import (
    Heard,
    Refusing,
    ScriptedEngine,
    Solver,
    answer,
    by_task,
    failing,
    is_right,
    learn,
    shown_two,
    some,
    tasks,
)

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


# The loop ends at a limit, at an interrupt and with an LM that cannot be used, and keeps what was in flight.


def test_jobs_of_all_tasks_and_temperatures_are_in_flight_together():
    """None is answered before all are asked."""
    everybody = threading.Barrier(16, timeout=120)

    def say(request: Any, task: str, right: bool) -> str:
        everybody.wait()
        return answer("wrong")

    compiled = learn("xyzw", some, engine=ScriptedEngine(some, 2, say), n=2, temperatures=(0.4, 0.7), threads=16)
    assert [attempt.scored for attempt in compiled.experience.attempts] == [True] * 16


def test_a_budget_of_tokens_ends_the_run_within_an_iteration_and_keeps_what_was_solved():
    compiled = learn("abx", some, budget=Budget(tokens=1), threads=1)
    (result,) = compiled.experience.iterations
    assert (result.samples, result.complete, compiled.experience.stopped) == (1, False, "budget")
    (entry,) = compiled.experience.entries
    assert (entry.task_key, entry.successes, entry.samples) == ("a", 1, 1)


def test_the_message_on_a_budget_has_the_figures_of_the_end_with_what_was_in_flight():
    together = threading.Barrier(4, timeout=60)

    def say(request: Any, task: str, right: bool) -> str:
        together.wait()
        return answer("wrong")

    engine = ScriptedEngine(some, 4, say)
    record = learn("xy", some, engine=engine, n=8, budget=Budget(tokens=1), threads=4).experience
    assert engine.calls >= 4
    assert record.message == f"budget reached: {engine.prompt + engine.completion} tokens of 1"


def test_a_budget_reached_by_the_last_sample_does_not_cut_the_iteration_short():
    engine = ScriptedEngine(some, 4)
    learn("a", some, engine=engine)
    compiled = learn("a", some, threads=1, budget=Budget(tokens=engine.prompt + engine.completion))
    assert (compiled.experience.stopped, compiled.experience.iterations[0].complete) == ("solved", True)


def test_an_interrupt_ends_the_run_with_what_was_done():
    heard = Heard()

    def interrupt(attempt: Attempt) -> None:
        if attempt.iteration == 1:
            signal.raise_signal(signal.SIGINT)

    heard.sample_done = interrupt  # type: ignore[method-assign]
    compiled = learn("abx", some, observers=[heard], threads=2)
    record = compiled.experience
    assert (record.stopped, record.message) == ("interrupted", "interrupted in iteration H_1")
    assert [result.complete for result in record.iterations] == [True, False]
    assert [demo.task for demo in compiled.solve.demos] == ["a"]


def test_an_interrupt_loses_no_answer_that_is_being_taken_in(monkeypatch):
    """It comes after an answer was put on record, and before it is counted and announced; every request is recorded."""
    added, heard, engine = IterationCounts.add, Heard(), ScriptedEngine(some, 4)

    def add(counts: IterationCounts, attempt: Attempt) -> None:
        if counts.samples == 2:
            signal.raise_signal(signal.SIGINT)
        added(counts, attempt)

    monkeypatch.setattr(IterationCounts, "add", add)
    record = learn("abx", some, engine=engine, threads=2, observers=[heard]).experience
    assert record.stopped == "interrupted"
    assert engine.calls == len(record.attempts) == len(heard.attempts) == record.iterations[0].samples < 12


def test_an_interrupt_does_not_wait_for_a_request_that_hangs(monkeypatch):
    monkeypatch.setattr("optimizers.sampling_loop.PATIENCE", 0.05)
    release, hanging, heard = threading.Event(), threading.Event(), Heard()

    def say(request: Any, task: str, right: bool) -> str:
        if task == "x":
            hanging.set()
            release.wait(120)
        return answer("right a")

    def interrupt(attempt: Attempt) -> None:
        """Once there is nothing left to wait for but the request that hangs."""
        assert hanging.wait(60)
        main = threading.main_thread().ident
        threading.Timer(0.1, signal.pthread_kill, [main, signal.SIGINT]).start()

    heard.sample_done = interrupt  # type: ignore[method-assign]
    start = time.monotonic()
    compiled = learn("ax", some, engine=ScriptedEngine(some, 1, say), n=1, threads=2, observers=[heard])
    assert time.monotonic() - start < 60 and not release.is_set()
    release.set()
    assert compiled.experience.stopped == "interrupted"
    assert compiled.experience.solved == ("a",)


def test_an_lm_that_refuses_in_mid_run_ends_it_with_what_was_learned():
    engine = failing(lm15.AuthError("bad key"), 13)
    compiled = learn("abx", some, engine=engine, threads=1)
    assert engine.asked == 14
    assert compiled.experience.stopped == "failed" and "bad key" in compiled.experience.message
    assert compiled.experience.solved == ("a", "b") and compiled.solve.demos


@pytest.mark.parametrize("error", [lm15.ServerError("down"), lm15.InvalidRequestError("broken")])
def test_an_lm_that_fails_on_the_others_still_ends_a_run_with_a_refused_task(error):
    engine = Refusing(shown_two, 8)
    engine.dead, engine.after = error, 5 * 40 + 5  # within the second iteration, whose tasks are x and r
    record = learn("abcxr", shown_two, engine=engine, n=40, threads=1, lm={"num_retries": 0}).experience
    assert (record.stopped, len(record.iterations)) == ("failed", 2)
    assert record.message.startswith("9 of ")


@pytest.mark.parametrize("at", ["program", "metric"])
def test_answers_that_a_program_or_a_metric_does_not_take_do_not_end_the_run(at, caplog):
    """Such as a text where it parses a number, once some answer has worked; said at the end, as no rate has them."""

    def parsed(prediction: dspy.Prediction) -> bool:
        return {"r": True}[prediction.answer[0]]

    class Parsing(Solver):
        def forward(self, task: str) -> dspy.Prediction:
            solved = self.solve(task=task)
            return dspy.Prediction(answer=solved.answer, parsed=at == "program" and parsed(solved))

    def metric(example: dspy.Example, prediction: dspy.Prediction) -> bool:
        return at == "program" or parsed(prediction)

    def run(right: int, **options: Any) -> Any:
        return learn("abx", lambda *_: right, n=40, student=Parsing(), metric=metric, threads=1, **options).experience

    record = run(4)
    assert (record.solved, record.iterations[0].failures) == (("a", "b", "x"), 3 * 36)
    assert "108 of 120 samples are in no success rate, the last:" in caplog.text and "KeyError: 'w'" in caplog.text
    assert run(4, max_errors=20).stopped == "failed"
    with pytest.raises((KeyError, MetricError)):
        run(0)


def test_more_failures_than_the_bound_end_the_run_early():
    engine = failing(lm15.ServerError("down"), 2)
    compiled = learn("xyz", some, engine=engine, n=40, threads=1, lm={"num_retries": 0})
    assert compiled.experience.stopped == "failed" and "down" in compiled.experience.message
    assert engine.asked == 2 + 9
    with pytest.raises(LMServerError):
        learn("xyz", some, engine=failing(lm15.ServerError("down"), 0), n=40, lm={"num_retries": 1})


def test_the_limit_of_time_holds_while_no_sample_ends(monkeypatch):
    """A request that hangs is not awaited, and what was in flight is reported meanwhile."""
    monkeypatch.setattr("optimizers.sampling_loop.PATIENCE", 0.05)
    monkeypatch.setattr("optimizers.sampling_loop.TICK", 0.02)
    release, heard, seen = threading.Event(), Heard(), set[str]()

    def say(request: Any, task: str, right: bool) -> str:
        release.wait(120)
        return answer("wrong")

    heard.in_flight = lambda samples: seen.update(sample.task_key for sample in samples)  # type: ignore[method-assign]
    engine = ScriptedEngine(some, 1, say)
    record = learn("xy", some, engine=engine, n=1, threads=2, observers=[heard], budget=Budget(minutes=0.005))
    assert not release.is_set()
    release.set()
    compiled = record.experience
    assert (compiled.stopped, seen) == ("budget", {"x", "y"})
    assert not any(attempt.scored for attempt in compiled.attempts)


def test_what_is_lost_for_good_ends_the_run_at_once_and_keeps_what_was_scored():
    """Whether it answers or judges; the message is its own. Before anything is scored, it is raised."""

    def say(request: Any, task: str, right: bool) -> str:
        if task == "x":
            raise UnavailableError("the cluster is gone")
        return answer(f"right {task}")

    record = learn("ax", some, engine=ScriptedEngine(some, 64, say), n=64, threads=1).experience
    assert (record.solved, record.stopped, record.message) == (("a",), "failed", "the cluster is gone")
    assert len(record.attempts) < 10
    with pytest.raises(UnavailableError, match="the cluster is gone"):
        learn("x", some, engine=ScriptedEngine(some, 64, say), n=64, threads=1)


def test_failures_of_single_samples_never_end_a_run():
    """However many: a `SampleError` says nothing about other requests; each is recorded with its reason."""

    def say(request: Any, task: str, right: bool) -> str:
        if task == "x":
            raise SampleError("the worker was lost")
        return answer(f"right {task}")

    record = learn("xa", some, engine=ScriptedEngine(some, 64, say), n=64, threads=2).experience
    assert (record.solved, record.stopped) == (("a",), "exhausted")
    reasons = {attempt.error for attempt in record.attempts if attempt.task_key == "x"}
    assert reasons == {"SampleError: the worker was lost"}


def late(task: str, demos: tuple[str, ...], visit: int) -> int:
    return {"a": 8, "b": 8}.get(task, 0)


def sample(
    names: str, engine: Any = None, on_solved: Callable[[str], None] = lambda name: None, **options: Any
) -> UntilSolved:
    """Eight samples at most, one at a time."""
    budget, suffices = options.pop("budget", None), options.pop("suffices", lambda right: True)
    sampler = Sampler(is_right, Sampling(**{"num_samples": 8, "temperatures": (0.7,), "threads": 1, **options}))
    examples = {example.task: example for example in tasks(list(names))}
    lm = dspy.LM("scripted", engine=engine or ScriptedEngine(late, 8), cache=False, num_retries=0)
    with dspy.context(lm=lm):
        return sample_until_solved(Solver(), examples, sampler, on_solved, budget, suffices=suffices)


def test_a_task_is_sampled_until_it_is_solved_and_no_more() -> None:
    solved: list[str] = []
    sampled = sample("abx", on_solved=solved.append)
    assert {name: len(attempts) for name, attempts in sampled.attempts.items()} == {"a": 1, "b": 1, "x": 8}
    assert (solved, sampled.stopped, sampled.right("x")) == (["a", "b"], None, [])


def test_a_right_answer_that_does_not_suffice_is_followed_by_a_few_more() -> None:
    """Until one suffices; the task is reported as solved once, and sampled no further after four right answers."""
    solved: list[str] = []
    assert len(sample("a", on_solved=solved.append, suffices=lambda right: right.sample == 2).attempts["a"]) == 3
    assert solved == ["a"]
    never = sample("a", suffices=lambda right: False)
    assert len(never.attempts["a"]) == len(never.right("a")) == MOST_RIGHT


def test_the_answer_found_is_the_first_in_the_order_of_sampling() -> None:
    class Second(ScriptedEngine):
        def complete(self, request: lm15.Request) -> lm15.Response:
            self.script = lambda task, demos, visit: 8 if (request.config.seed or 0) % 3 == 0 else 0
            return super().complete(request)

    found = [sample("a", Second(late, 8), temperatures=(0.4, 0.7), threads=threads).right("a") for threads in (1, 3)]
    one, other = (right[0] for right in found)
    assert (one.temperature, one.sample) == (other.temperature, other.sample)


def test_a_budget_ends_it_with_what_was_found() -> None:
    sampled = sample("ax", budget=Budget(tokens=1))
    assert (sampled.stopped, len(sampled.attempts["a"]), len(sampled.attempts["x"])) == ("budget", 1, 0)
    assert sampled.message.startswith("budget reached: ") and sampled.right("a")


def test_an_interrupt_keeps_what_was_found() -> None:
    def interrupt(name: str) -> None:
        raise KeyboardInterrupt

    sampled = sample("ax", on_solved=interrupt)
    assert (sampled.stopped, sampled.message) == ("interrupted", "interrupted") and sampled.right("a")


def test_an_lm_that_fails_later_ends_it_and_one_that_fails_at_once_raises() -> None:
    class Failing(ScriptedEngine):
        after = 3

        def complete(self, request: lm15.Request) -> lm15.Response:
            if self.calls >= self.after:
                raise lm15.AuthError("the key was revoked")
            return super().complete(request)

    engine = Failing(late, 8)
    sampled = sample("ax", engine)
    assert (sampled.stopped, len(sampled.attempts["x"])) == ("failed", 3)
    assert sampled.message == "LMAuthError: [scripted] the key was revoked"
    engine.after = 0
    with pytest.raises(LMAuthError):
        sample("x", engine)


# Samples have the temperatures that their LMs take.


def compiled(lm: dspy.LM, student: dspy.Module | None = None, temperatures: Any = (0.4, 1.0)) -> Experience:
    optimizer = AdaptiveFewShot(is_right, 4, temperatures=temperatures, threads=1, domain=Domain(task_key=by_task))
    with dspy.context(lm=lm):
        record: Experience = optimizer.compile(student or Solver(), trainset=tasks("ab")).experience
    return record


def engine_lm(engine: Any, model: str = "scripted", **settings: Any) -> dspy.LM:
    return dspy.LM(model, engine=engine, cache=False, num_retries=0, **settings)


def asked(engine: ScriptedEngine) -> set[float | None]:
    return {request.config.temperature for request in engine.requests}


@pytest.mark.parametrize("model", ["openai/o3", "openai/gpt-5-mini", "azure/gpt-5", "openrouter/openai/o1"])
def test_a_model_known_to_reason_is_sampled_at_1_and_the_log_says_so(
    model: str, caplog: pytest.LogCaptureFixture
) -> None:
    """No sample is lost; the record has the temperatures that were used."""
    engine = ScriptedEngine(some, 4)
    with caplog.at_level(logging.WARNING, "optimizers"):
        record = compiled(engine_lm(engine, model))
    assert asked(engine) == {1.0} and record.settings["temperatures"] == (1.0,)
    assert {attempt.temperature for attempt in record.attempts} == {1.0}
    assert not any(attempt.failed for attempt in record.attempts)
    assert f"{model} takes no temperature but 1: samples are drawn at it, not at 0.4, 1" in caplog.text


def test_a_model_known_to_reason_is_asked_at_1_beside_one_that_is_not() -> None:
    """The other one is asked at the sample's temperature."""

    class Two(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.think, self.solve = dspy.Predict("task -> thought"), dspy.Predict("task -> answer")
            self.think.set_lm(engine_lm(thinking, "openai/o3"))

        def forward(self, task: str) -> dspy.Prediction:
            self.think(task=task)
            return self.solve(task=task)

    said = "[[ ## thought ## ]]\nhm\n\n[[ ## completed ## ]]"
    thinking, solving = ScriptedEngine(some, 4, lambda *_: said), ScriptedEngine(some, 4)
    compiled(engine_lm(solving), Two())
    assert (asked(thinking), asked(solving)) == ({1.0}, {0.4, 1.0})


def test_a_predictor_s_own_temperature_is_kept() -> None:
    """A temperature that is set on a predictor's LM is the user's word; one that is not is the sample's."""
    own, shared = dspy.LM("openai/a", temperature=0.0), dspy.LM("openai/a")
    assert temperature_of(own, 0.7, own=True) == 0.0
    assert temperature_of(own, 0.7, own=False) == temperature_of(shared, 0.7, own=True) == 0.7


def test_temperatures_without_effect_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Where every predictor's LM has its own; it is asked at that."""
    engine, student = ScriptedEngine(some, 4), Solver()
    student.set_lm(engine_lm(engine, temperature=0.2))
    with caplog.at_level(logging.WARNING, "optimizers"):
        compiled(engine_lm(ScriptedEngine(some, 4)), student)
    assert asked(engine) == {0.2}
    assert "every LM of the program has a temperature of its own (0.2): 0.4, 1 change nothing" in caplog.text


class OneTemperature(ScriptedEngine):
    """Refuses all temperatures but 1, in the words of OpenAI; its name does not say so."""

    def complete(self, request: Any) -> Any:
        if request.config.temperature != 1.0:
            text = f"Unsupported value: 'temperature' does not support {request.config.temperature} with this model."
            raise lm15.InvalidRequestError(text)
        return super().complete(request)


def test_a_temperature_that_the_lm_refuses_ends_the_run_at_once() -> None:
    """Named, with what to give, before many samples are lost; what was answered is in the exception's record."""
    with pytest.raises(TemperatureError, match=r"the LM refuses 0.4; give 1.0 alone: .*'temperature'") as raised:
        compiled(engine_lm(OneTemperature(some, 4)), temperatures=(1.0, 0.4))
    record = raised.value.experience  # type: ignore[attr-defined]
    assert sum(attempt.failed for attempt in record.attempts) == 1
    assert compiled(engine_lm(OneTemperature(some, 4)), temperatures=(1.0,)).stopped == "solved"


def test_a_refusal_of_one_request_is_no_refusal_of_its_temperature() -> None:
    """A text about temperatures, refused where others are answered."""

    class Warm(ScriptedEngine):
        def complete(self, request: Any) -> Any:
            if self.calls == 5:
                self.calls += 1
                raise lm15.InvalidRequestError("no talk of the temperature")
            return super().complete(request)

    record = compiled(engine_lm(Warm(some, 4)))
    assert sum(attempt.failed for attempt in record.attempts) == 1 and record.stopped == "solved"


def test_which_lms_take_one_temperature() -> None:
    """By DSPy's rules for names, or by the settings under which Anthropic's models think."""
    assert [takes_one(model) for model in ("openai/o3", "openai/gpt-4o", "openai/", "embedded/8")] == [1, 0, 0, 0]
    assert fixed(dspy.LM("anthropic/claude-sonnet-4-5", thinking={"type": "enabled", "budget_tokens": 2000}))
    assert not fixed(dspy.LM("anthropic/claude-sonnet-4-5", thinking={"type": "disabled"}))
    assert not fixed(None) and not refused(None) and not refused(ValueError("temperature"))
    with dspy.context(lm=dspy.LM("openai/o3")):
        assert taken(Solver(), (1.0,)) == (1.0,)
