"""The loop ends at a limit, at an interrupt and with an LM that cannot be used, and keeps what was in flight."""

import re
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import dspy
import pytest
from dspy import lm15
from dspy.utils.exceptions import LMAuthError, LMServerError

from optimizers import Attempt, Budget, MetricError, SampleError, Sampling
from optimizers.errors import UnavailableError
from optimizers.sampling import Sampler
from optimizers.sampling_loop import MOST_RIGHT, IterationCounts, UntilSolved, sample_until_solved
from tests.support.scripted_program import (
    Heard,
    Refusing,
    ScriptedEngine,
    Solver,
    answer,
    failing,
    is_right,
    learn,
    shown_two,
    some,
    tasks,
)

pytestmark = pytest.mark.usefixtures("no_waiting")


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


def test_an_lm_that_is_gone_ends_the_run_when_refused_tasks_are_all_that_is_left():
    class Gone(Refusing):
        def complete(self, request: Any) -> Any:
            if len(request.messages) > 2:
                self.error = lm15.ServerError("down")
            return super().complete(request)

    engine = Gone(shown_two, 40)
    record = learn("abcr", shown_two, engine=engine, n=40, threads=1, lm={"num_retries": 0}).experience
    assert (record.stopped, len(record.iterations)) == ("failed", 2)
    assert record.message == "9 of 9 samples got no answer, the last: LMServerError: [scripted] down"


def test_the_message_distinguishes_a_program_that_raises_from_an_lm_that_gives_no_answer():
    class Half(Solver):
        def forward(self, task: str) -> dspy.Prediction:
            if task != "a":
                raise ConnectionError("boom")
            return self.solve(task=task)

    record = learn("abc", lambda *_: 4, student=Half(), n=20, threads=1).experience
    assert re.fullmatch(
        r"\d+ of \d+ samples got no answer, the last as the program raised ConnectionError: boom", record.message
    )


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
    assert (solved, sampled.stopped, sampled.found("x")) == (["a", "b"], None, None)


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

    found = [sample("a", Second(late, 8), temperatures=(0.4, 0.7), threads=threads).found("a") for threads in (1, 3)]
    assert found[0] and found[1]
    assert (found[0].temperature, found[0].sample) == (found[1].temperature, found[1].sample)


def test_a_budget_ends_it_with_what_was_found() -> None:
    sampled = sample("ax", budget=Budget(tokens=1))
    assert (sampled.stopped, len(sampled.attempts["a"]), len(sampled.attempts["x"])) == ("budget", 1, 0)
    assert sampled.message.startswith("budget reached: ") and sampled.found("a")


def test_an_interrupt_keeps_what_was_found() -> None:
    def interrupt(name: str) -> None:
        raise KeyboardInterrupt

    sampled = sample("ax", on_solved=interrupt)
    assert (sampled.stopped, sampled.message) == ("interrupted", "interrupted") and sampled.found("a")


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
