"""How a run is bounded, ended, listened to and repeated.

Invariants held here: same seed, same run, whatever the threads; a budget, an interrupt and a failing LM end a
run with what was done in hand; an LM that does not answer is not a wrong answer; student and training set stay
untouched; listeners hear everything in the calling thread.
"""

from __future__ import annotations

import copy
import re
import signal
import threading
import time
from dataclasses import replace
from typing import Any

import dspy
import pytest
from dspy import lm15
from dspy.utils.exceptions import LMAuthError, LMServerError

from optimizers import (
    Attempt,
    Budget,
    Domain,
    MetricError,
    OptimizerError,
    TokenCount,
    UnknownOptimizerError,
    registry,
)
from optimizers.iteration_counts import IterationCounts
from optimizers.sampling import derive_seed
from tests.support.scripted_program import (
    Heard,
    ScriptedEngine,
    Solver,
    answer,
    by_task,
    is_right,
    learn,
    story,
    tasks,
)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr("optimizers.metering._wait", lambda error, attempt: 0.0)


def some(task: str, demos: tuple[str, ...], visit: int) -> int:
    return {"a": 1, "b": 2}.get(task, 0)


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


def test_jobs_of_all_tasks_and_temperatures_are_in_flight_together():
    """None is answered before all are asked."""
    everybody = threading.Barrier(16, timeout=120)

    def say(request: Any, task: str, right: bool) -> str:
        everybody.wait()
        return answer("wrong")

    compiled = learn("xyzw", some, engine=ScriptedEngine(some, 2, say), n=2, temperatures=(0.4, 0.7), threads=16)
    assert [attempt.scored for attempt in compiled.experience.attempts] == [True] * 16


def test_the_engine_sees_each_samples_temperature_and_seed():
    engine = ScriptedEngine(some, 3)
    compiled = learn("x", some, engine=engine, n=3, temperatures=(0.0, 0.7))
    sent = {(request.config.temperature, request.config.seed) for request in engine.requests}
    assert sent == {(a.temperature, a.seed) for a in compiled.experience.attempts} and len(sent) == 6


# --- ends -------------------------------------------------------------------------------------------------


def test_a_budget_of_iterations_ends_the_run_with_a_usable_program():
    compiled = learn("abx", some, budget=Budget(iterations=2))
    assert (len(compiled.experience.iterations), compiled.experience.stopped) == (2, "budget")
    assert compiled.experience.message == "budget reached: 2 iterations of 2"
    assert [demo.task for demo in compiled.solve.demos] == ["a"]


def test_a_budget_of_tokens_ends_the_run_within_an_iteration_and_keeps_what_was_solved():
    compiled = learn("abx", some, budget=Budget(tokens=1), threads=1)
    (result,) = compiled.experience.iterations
    assert (result.samples, result.complete, compiled.experience.stopped) == (1, False, "budget")
    (entry,) = compiled.experience.entries
    assert (entry.task_key, entry.successes, entry.samples) == ("a", 1, 1)


def test_a_budget_of_minutes_ends_the_run():
    compiled = learn("x", some, budget=Budget(minutes=0))
    assert (compiled.experience.stopped, compiled.experience.iterations) == ("budget", ())


def test_the_message_on_a_budget_has_the_figures_of_the_end_with_what_was_in_flight():
    together = threading.Barrier(4, timeout=60)

    def say(request: Any, task: str, right: bool) -> str:
        together.wait()
        return answer("wrong")

    engine = ScriptedEngine(some, 4, say)
    record = learn("xy", some, engine=engine, n=8, budget=Budget(tokens=1), threads=4).experience
    assert engine.calls >= 4
    assert record.message == f"budget reached: {engine.prompt + engine.completion} tokens of 1"


@pytest.mark.parametrize(
    ("minutes", "seconds", "message"),
    [(0.02, 1.2, "0.020 minutes of 0.02"), (90, 5430.5, "90.5 minutes of 90"), (0, 0.0, "0.000 minutes of 0")],
)
def test_the_message_on_a_budget_of_minutes_has_digits_enough(minutes, seconds, message):
    assert Budget(minutes=minutes).reached(TokenCount(), seconds) == message


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


def test_an_interrupt_with_the_last_answer_ends_the_run():
    """There is nothing left to wait for when it comes."""
    heard = Heard()

    def interrupt(attempt: Attempt) -> None:
        heard.attempts.append(attempt)
        if len(heard.attempts) == 12:
            signal.raise_signal(signal.SIGINT)

    heard.sample_done = interrupt  # type: ignore[method-assign]
    record = learn("abx", some, observers=[heard]).experience
    assert (record.stopped, len(record.iterations), record.iterations[0].samples) == ("interrupted", 1, 12)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


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


def failing(error: Exception, after: int) -> ScriptedEngine:
    class Failing(ScriptedEngine):
        asked = 0

        def complete(self, request: Any) -> Any:
            with self.lock:
                self.asked += 1
                if self.asked > after:
                    raise error
            return super().complete(request)

    return Failing(some, 4)


def test_an_lm_that_refuses_before_it_answered_raises_its_own_error():
    with pytest.raises(LMAuthError):
        learn("ab", some, engine=failing(lm15.AuthError("bad key"), 0))


def test_an_lm_that_refuses_in_mid_run_ends_it_with_what_was_learned():
    engine = failing(lm15.AuthError("bad key"), 13)
    compiled = learn("abx", some, engine=engine, threads=1)
    assert engine.asked == 14
    assert compiled.experience.stopped == "failed" and "bad key" in compiled.experience.message
    assert compiled.experience.solved == ("a", "b") and compiled.solve.demos


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


class Refusing(ScriptedEngine):
    """Never answers a task called `r`, as a filter of contents would; answers no other once `dead` says so."""

    error: Exception = lm15.InvalidRequestError("not allowed")
    dead: Exception | None = None
    after = 0

    def complete(self, request: Any) -> Any:
        if "\nr\n" in (request.messages[-1].text or ""):
            with self.lock:
                self.calls += 1
            raise self.error
        response = super().complete(request)
        if self.dead and self.calls > self.after:
            raise self.dead
        return response


def shown_two(task: str, demos: tuple[str, ...], visit: int) -> int:
    return {"a": 1, "b": 1, "c": 2}.get(task, 0) if task != "x" else 4 * (len(demos) == 3)


def test_a_task_that_is_always_refused_is_tried_on_and_does_not_end_the_learning_of_the_others(caplog):
    with caplog.at_level("WARNING"):
        compiled = learn("abcxr", shown_two, engine=Refusing(shown_two, 8), n=8)
    record = compiled.experience
    assert story(compiled)[:4] == ["None: - -> abc", "H_1: ab -> -", "HM_1: ab -> -", "HME_1: abc -> x"]
    assert (record.stopped, record.unsolved) == ("exhausted", ("r",))
    assert record.message == "1 task stays unsolved; no answers for r"
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


def test_prompts_too_long_for_some_task_once_there_are_demonstrations_do_not_end_the_run():
    class Short(Refusing):
        def complete(self, request: Any) -> Any:
            long = len(request.messages) > 2 and "\nx\n" in (request.messages[-1].text or "")
            if long:
                raise lm15.ContextLengthError("too long")
            return super().complete(request)

    record = learn("abcxy", shown_two, engine=Short(shown_two, 8), n=8, threads=1).experience
    assert record.stopped == "exhausted" and record.iterations[1].unanswered == ("x",)
    assert [result.label for result in record.iterations] == ["None", "H_1", "HM_1", "HME_1"]


def test_the_message_distinguishes_a_program_that_raises_from_an_lm_that_gives_no_answer():
    class Half(Solver):
        def forward(self, task: str) -> dspy.Prediction:
            if task != "a":
                raise ValueError("boom")
            return self.solve(task=task)

    record = learn("abc", lambda *_: 4, student=Half(), n=20, threads=1).experience
    assert re.fullmatch(
        r"\d+ of \d+ samples got no answer, the last as the program raised ValueError: boom", record.message
    )


def test_more_failures_than_the_bound_end_the_run_early():
    engine = failing(lm15.ServerError("down"), 2)
    compiled = learn("xyz", some, engine=engine, n=40, threads=1, lm={"num_retries": 0})
    assert compiled.experience.stopped == "failed" and "down" in compiled.experience.message
    assert engine.asked == 2 + 9
    with pytest.raises(LMServerError):
        learn("xyz", some, engine=failing(lm15.ServerError("down"), 0), n=40, lm={"num_retries": 1})


def test_a_program_that_crashes_is_a_failure_and_its_error_the_reason():
    class Broken(Solver):
        def forward(self, task: str) -> dspy.Prediction:
            raise KeyError("oops")

    with pytest.raises(KeyError, match="oops"):
        learn("ab", some, student=Broken())


def test_a_program_that_gives_no_prediction_is_a_failure_that_says_so():
    class Plain(Solver):
        def forward(self, task: str) -> str:
            return "right"

    with pytest.raises(TypeError, match=r"gave .right., expected a dspy\.Prediction"):
        learn("ab", some, student=Plain())


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


# --- the metric -------------------------------------------------------------------------------------------


def test_a_metric_that_raises_ends_the_run_naming_the_sample():
    def metric(example: dspy.Example, prediction: dspy.Prediction) -> bool:
        raise ZeroDivisionError("boom")

    with pytest.raises(MetricError, match=r"task a, temperature 0\.7, sample \d+: ZeroDivisionError: boom"):
        learn("a", some, metric=metric)


def test_a_metric_without_a_score_is_refused():
    with pytest.raises(MetricError, match=r"task a.*it gave None, expected a number"):
        learn("a", some, metric=lambda example, prediction: None)


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


# --- the student ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["metric", "lm", None])
def test_student_and_training_set_stay_untouched(fault):
    student, trainset = Solver(), tasks("ab")
    student.solve.demos = [dspy.Example(task="old", answer="demo")]
    state, before, attributes = student.dump_state(), copy.deepcopy(trainset), set(vars(student))

    def metric(example: dspy.Example, prediction: dspy.Prediction) -> bool:
        if fault == "metric":
            raise ZeroDivisionError
        return is_right(example, prediction)

    engine = failing(lm15.AuthError("no"), 0) if fault == "lm" else None
    try:
        learn("ab", some, student=student, engine=engine, metric=metric)
    except (MetricError, LMAuthError):
        pass
    else:
        assert fault is None
    assert student.dump_state() == state and student._compiled is False and set(vars(student)) == attributes
    assert [example.toDict() for example in trainset] == [example.toDict() for example in before]


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
        budget=Budget(context=1300),
        observers=[heard],
    )
    assert [[key[0] for key in event.demos] for event in heard.started] == [[], ["a", "b"]]
    assert [key[0] for key in compiled.experience.iterations[1].left_out] == ["c"]
    assert [demo.task[0] for demo in compiled.solve.demos] == ["a", "b"]


def test_a_compiled_program_works_saves_and_loads_as_any(tmp_path):
    compiled = learn("ab", some)
    compiled.save(tmp_path / "program.json")
    loaded = Solver()
    loaded.load(tmp_path / "program.json")
    assert [dict(demo)["task"] for demo in loaded.solve.demos] == ["a"]
    assert compiled._compiled and compiled.deepcopy().experience is compiled.experience


# --- listeners and names ----------------------------------------------------------------------------------


def test_listeners_hear_everything_in_the_calling_thread():
    heard = Heard()
    compiled = learn("abx", some, observers=[heard], threads=4)
    record = compiled.experience
    assert [event.label for event in heard.started] == ["None", "H_1", "HM_1"]
    assert [(e.total_samples, e.tasks) for e in heard.started][:2] == [(12, ("a", "b", "x")), (4, ("x",))]
    assert tuple(heard.finished) == record.iterations
    assert heard.threads == {threading.get_ident()}
    assert sorted(heard.attempts, key=lambda a: (a.iteration, a.task, a.sample)) == list(record.attempts)
    assert heard.others[0].tasks == ("a", "b", "x") and heard.others[1] is record


def test_a_listener_that_raises_ends_the_run():
    heard = Heard()
    heard.iteration_finished = lambda result: 1 // 0  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        learn("a", some, observers=[heard])


def test_optimizers_are_found_by_name():
    assert [registry.get(name).__name__ for name in ("adaptive", "none")] == ["AdaptiveFewShot", "SinglePass"]
    with pytest.raises(UnknownOptimizerError, match="'best'; expected one of adaptive, bootstrap, gepa") as caught:
        registry.get("best")
    assert isinstance(caught.value, OptimizerError) and isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": ""}, "trainset is empty"),
        ({"names": "aa"}, "both named 'a'"),
        ({"granularity": 0}, "granularity"),
        ({"temperatures": ()}, "temperatures"),
        ({"temperatures": (0.4, 0.4)}, "twice"),
        ({"threads": 0}, "threads"),
        ({"domain": Domain(demo_predictors=("guess",))}, "no predictor guess; it has solve"),
        ({"compiling": {"teacher": Solver()}}, "no teacher"),
        ({"student": dspy.Predict("question -> answer")}, "takes none of the examples' inputs"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_sampled(options, message):
    engine = ScriptedEngine(some, 4)
    with pytest.raises(ValueError, match=message):
        learn(options.pop("names", "a"), some, engine=engine, **options)
    assert engine.calls == 0


@pytest.mark.parametrize(("student", "task"), [(lambda **_: None, tasks("a")[0]), (Solver(), {"question": "a"})])
def test_what_is_not_a_module_or_not_an_example_is_reported(student, task):
    from optimizers import AdaptiveFewShot

    with dspy.context(lm=dspy.utils.DummyLM([])), pytest.raises(TypeError, match=r"expected a dspy\.(Module|Example)"):
        AdaptiveFewShot(is_right).compile(student, trainset=[task])


def test_bad_budgets_are_refused():
    with pytest.raises(ValueError, match="tokens is -1"):
        Budget(tokens=-1)
    with pytest.raises(ValueError, match="share"):
        Budget(failures=2)


def test_no_lm_is_reported_at_once():
    from optimizers import AdaptiveFewShot

    with dspy.context(lm=None), pytest.raises(ValueError, match="no LM"):
        AdaptiveFewShot(is_right).compile(Solver(), trainset=tasks("a"))


def test_the_story_of_a_run_follows_from_its_iterations():
    assert story(learn("ax", some))[0] == "None: - -> a"
