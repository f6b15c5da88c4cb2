"""Compiling leaves student and training set as they are, refuses bad arguments and gives an ordinary program."""

import copy
import math
import subprocess
import sys
import threading
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dspy
import numpy as np
import pytest
from dspy import lm15
from dspy.utils.callback import BaseCallback
from dspy.utils.exceptions import LMAuthError

from optimizers import AdaptiveFewShot, Budget, Domain, MetricError
from optimizers import baselines as registry
from optimizers.arguments import named_examples
from optimizers.sampling import Sampling
from tests.support import forked, quick_stores
from tests.support.paths import PROJECT
from tests.support.scripted_program import (
    Asynchronous,
    Heard,
    Refusing,
    ScriptedEngine,
    Solver,
    by_task,
    failing,
    is_right,
    learn,
    shown_two,
    some,
    story,
    tasks,
)

pytestmark = pytest.mark.usefixtures("no_waiting")


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


def test_a_compiled_program_works_saves_and_loads_as_any(tmp_path):
    compiled = learn("ab", some)
    compiled.save(tmp_path / "program.json")
    loaded = Solver()
    loaded.load(tmp_path / "program.json")
    assert [dict(demo)["task"] for demo in loaded.solve.demos] == ["a"]
    assert compiled._compiled and compiled.deepcopy().experience is compiled.experience


def test_a_student_keeps_its_own_demonstrations_when_nothing_is_solved():
    student = Solver()
    student.solve.demos = [dspy.Example(task="old", answer="demo")]
    assert [demo.task for demo in learn("ab", lambda *_: 0, student=student).solve.demos] == ["old"]


def test_a_saved_program_carries_no_run_and_needs_no_package_of_ours(tmp_path):
    """It is loaded by a process in which this package cannot be imported; here, the record stays at hand."""
    compiled = learn("ab", some, student=dspy.Predict("task -> answer"))
    compiled.save(tmp_path / "program", save_program=True)
    blocked = "import sys; sys.modules.update(optimizers=None, pipeline=None, tests=None); import dspy"
    loading = "p = dspy.load(sys.argv[1], allow_pickle=True)"
    shown = "print([d.task for d in p.demos], p.experience, p.candidate_programs)"
    command = [sys.executable, "-c", f"{blocked}; {loading}; {shown}", str(tmp_path / "program")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout.strip() == "['a'] None []", done.stderr
    assert compiled.experience.attempts


@pytest.mark.parametrize(("student", "task"), [(lambda **_: None, tasks("a")[0]), (Solver(), {"question": "a"})])
def test_what_is_not_a_module_or_not_an_example_is_reported(student, task):
    expected = r"expected an instance of Module|expected a dspy\.Example"
    with dspy.context(lm=dspy.utils.DummyLM([])), pytest.raises(TypeError, match=expected):
        AdaptiveFewShot(is_right).compile(student, trainset=[task])


def test_no_lm_is_reported_at_once():
    with dspy.context(lm=None), pytest.raises(ValueError, match="no LM"):
        AdaptiveFewShot(is_right).compile(Solver(), trainset=tasks("a"))


UNAIDED = {"a": 1, "b": 2, "c": 3}


def unaided(task: str, demos: tuple[str, ...], visit: int) -> int:
    return UNAIDED.get(task, 0)


def test_one_optimizer_compiles_again_with_nothing_left_over():
    optimizer = AdaptiveFewShot(is_right, 4, temperatures=(0.7,), domain=Domain(task_key=by_task))
    stories = []
    for _ in range(2):
        with dspy.context(lm=dspy.LM("scripted", engine=ScriptedEngine(unaided, 4), cache=False)):
            stories.append(story(optimizer.compile(Solver(), trainset=tasks("abx"))))
    assert stories[0] == stories[1] == ["None: - -> ab", "H_1: a -> -", "HM_1: ab -> -"]


# --- DSPy's conventions -----------------------------------------------------------------------------------
def test_threads_are_those_of_dspys_settings_unless_given():
    with dspy.context(num_threads=5):
        found = [AdaptiveFewShot(is_right, **given).get_params()["num_threads"] for given in ({}, {"threads": 2})]
    assert found == [5, 2]
    with pytest.raises(ValueError, match="threads is 2, and num_threads, another name for it, 3"):
        AdaptiveFewShot(is_right, threads=2, num_threads=3)


def test_params_are_scalars_that_a_tracker_can_log():
    limited = AdaptiveFewShot(is_right, budget=Budget(tokens=10), failure_score=0.0, temperatures=(0.5, 1))
    params = limited.get_params()
    assert all(isinstance(value, str | int | float | bool) for value in params.values())
    assert (params["metric"], params["temperatures"], params["budget_tokens"]) == ("is_right", "0.5, 1.0", 10)
    assert "max_demos" not in params and AdaptiveFewShot(is_right).get_params()["selection"] == "adaptive"


def test_max_demos_leaves_out_the_easiest_and_counts_a_predictor_s_calls():
    compiled = learn("abcx", unaided, max_demos=2)
    assert story(compiled) == ["None: - -> abc", "H_1: a -> -", "HM_1: ab -> -", "HME_1: ab -> -"]
    assert compiled.experience.iterations[-1].left_out == ("c",)

    class Twice(Solver):
        def forward(self, task):
            self.solve(task=f"{task} first")
            return self.solve(task=task)

    engine = ScriptedEngine(lambda *_: 4, 4)
    compiled = learn("ab", some, student=Twice(), engine=engine, max_demos=3, granularity=1)
    assert [demo.task for demo in compiled.solve.demos] == ["a first", "a"], "no solution is cut in its middle"


def test_max_errors_counts_failures_over_the_whole_run():
    refusing = Refusing(lambda *_: 4, 4)
    within = learn("abcr", some, engine=refusing, max_errors=100).experience
    assert (within.stopped, within.solved) == ("exhausted", ("a", "b", "c"))
    assert sum(result.failures for result in within.iterations) > 4
    ended = learn("abcr", some, engine=Refusing(lambda *_: 4, 4), max_errors=2, threads=1).experience
    assert (ended.stopped, sum(result.failures for result in ended.iterations)) == ("failed", 2)


def test_a_failure_score_makes_failures_wrong_answers_that_still_count_as_failures():
    class Fragile(Solver):
        def forward(self, task):
            prediction = self.solve(task=task)
            if prediction.answer == "wrong":
                raise ZeroDivisionError
            return prediction

    plain = learn("a", lambda *_: 14, n=16, student=Fragile()).experience
    scored = learn("a", lambda *_: 14, n=16, student=Fragile(), failure_score=0.0).experience
    assert [(entry.successes, entry.samples) for entry in (*plain.entries, *scored.entries)] == [(14, 14), (14, 16)]
    assert plain.iterations[0].failures == scored.iterations[0].failures == 2
    with pytest.raises(ZeroDivisionError):
        learn("a", lambda *_: 0, student=Fragile(), failure_score=0.0)


def test_stop_at_score_ends_the_run_once_so_many_percent_are_solved():
    assert learn("abcx", unaided).experience.stopped == "exhausted"
    stopped = learn("abcx", unaided, stop_at_score=75).experience
    assert (stopped.stopped, len(stopped.iterations), len(stopped.solved)) == ("score", 1, 3)
    assert learn("abcx", unaided, stop_at_score=76).experience.stopped == "exhausted"


class Later(dspy.Module):
    """A student with `aforward` alone."""

    def __init__(self):
        super().__init__()
        self.solve = dspy.Predict("task -> answer")

    async def aforward(self, task):
        return await self.solve.acall(task=task)


def test_a_student_with_aforward_alone_learns_as_any():
    engine = ScriptedEngine(unaided, 4)
    lm = {"async_engine": Asynchronous(engine)}
    compiled = learn("abcx", unaided, student=Later(), engine=engine, lm=lm)
    assert story(compiled) == story(learn("abcx", unaided))
    assert compiled.experience.tokens["solve"].prompt == engine.prompt

    class Coroutine(Solver):
        async def forward(self, task):
            return await self.solve.acall(task=task)

    engine = ScriptedEngine(unaided, 4)
    again = learn("abcx", unaided, student=Coroutine(), engine=engine, lm={"async_engine": Asynchronous(engine)})
    assert story(again) == story(compiled)


def test_dspys_own_optimizers_need_a_synchronous_student_and_say_so():
    with pytest.raises(ValueError, match="bootstrap: DSPy's optimizers need a program with forward"):
        learn("a", some, student=Later(), optimizer=registry.OPTIMIZERS["bootstrap"])


def test_a_student_without_forward_is_refused():
    class Empty(dspy.Module):
        def __init__(self):
            super().__init__()
            self.solve = dspy.Predict("task -> answer")

    with pytest.raises(ValueError, match="the program Empty defines neither forward nor aforward"):
        learn("a", some, student=Empty())


def labelled(example, prediction, trace=None):
    return prediction.answer == f"right {example.task}"


def test_it_is_a_step_of_dspys_bettertogether():
    """Which binds LMs to the predictors, evaluates between steps, and keeps candidates."""
    optimizer = AdaptiveFewShot(labelled, 4, temperatures=(0.7,), domain=Domain(task_key=by_task))
    together = dspy.BetterTogether(metric=labelled, adaptive=optimizer, random=dspy.BootstrapFewShot(metric=labelled))
    engine, student = ScriptedEngine(lambda task, demos, visit: 4 if task in "abv" else 4 * bool(demos), 4), Solver()
    student.set_lm(dspy.LM("scripted", engine=engine, cache=False))
    with dspy.context(lm=student.get_lm()):
        best = together.compile(
            student, trainset=tasks("abx"), valset=tasks("vw"), strategy="adaptive -> random -> adaptive"
        )
    assert not best.flag_compilation_error_occurred
    assert [each["strategy"] for each in best.candidate_programs][-1] == ""
    assert [each["score"] for each in best.candidate_programs] == [100.0, 100.0, 100.0, 50.0]
    assert best.solve.lm is not None and best.solve.demos


def test_what_it_compiles_is_evaluated_and_wrapped_as_any_program():
    with dspy.context(lm=dspy.LM("scripted", engine=ScriptedEngine(lambda *_: 4, 4), cache=False)):
        compiled = AdaptiveFewShot(labelled, 4, temperatures=(0.7,)).compile(Solver(), trainset=tasks("ab"))
        assert dspy.Evaluate(devset=tasks("ab"), metric=labelled, display_progress=False)(compiled).score == 100.0
        best = dspy.BestOfN(compiled, N=2, reward_fn=lambda inputs, prediction: 1.0, threshold=1.0)
        assert best(task="a").answer == "right a"
        again = dspy.BootstrapFewShotWithRandomSearch(metric=labelled, num_candidate_programs=1, num_threads=1)
        assert again.compile(Solver(), teacher=compiled, trainset=tasks("ab")).candidate_programs


def demonstrated(candidate):
    return [demo.task for demo in candidate["program"].solve.demos]


def test_the_candidates_are_the_strategy_s_and_the_result_is_the_first():
    """Without a validation set none was measured."""
    compiled = learn("abx", some)
    assert [(demonstrated(each), each["score"], each["label"]) for each in compiled.candidate_programs] == [
        (["a"], -math.inf, "H_2"),
        (["a", "b"], -math.inf, "HM_2"),
    ]
    assert max(compiled.candidate_programs, key=lambda each: each["score"])["label"] == "H_2"
    assert [demo.task for demo in compiled.solve.demos] == ["a"]
    assert all(each["program"] is not compiled for each in compiled.candidate_programs)


def test_a_validation_set_gives_them_their_scores_and_their_order():
    """As percentages, like those of DSPy's optimizers."""

    def script(task: str, demos: tuple[str, ...], visit: int) -> int:
        return len(demos) if task == "v" else some(task, demos, visit)

    compiled = learn("abx", script, compiling={"valset": tasks("v")})
    assert [(demonstrated(each), each["score"]) for each in compiled.candidate_programs] == [
        (["a", "b"], 50.0),
        (["a"], 25.0),
    ]
    assert [demo.task for demo in compiled.solve.demos] == ["a", "b"]


def test_a_compiled_student_does_not_hand_on_its_candidates():
    """Those of an earlier optimizer are about other programs."""
    first = learn("ab", some)
    again = learn("ab", some, student=first)
    assert "candidate_programs" not in vars(again.candidate_programs[0]["program"])
    assert again.experience is not first.experience and first.candidate_programs


# What an optimizer refuses before anything is sampled, and in which words.
#
# Invariant held here: a mistake of the caller ends `compile` at once, whatever it is, with an error that names the
# argument or the example, and costs no request.


def one_right(task: str, demos: tuple[str, ...], visit: int) -> int:
    return 1


def compile_tasks(trainset: list[Any], **options: Any) -> tuple[dspy.Module | None, ScriptedEngine, Exception | None]:
    engine, compiling = ScriptedEngine(one_right, 2), options.pop("compiling", {})
    with dspy.context(lm=dspy.LM("scripted", engine=engine, cache=False)):
        try:
            optimizer = AdaptiveFewShot(**{"metric": is_right, "num_samples": 2, "temperatures": (0.7,), **options})
            return optimizer.compile(Solver(), trainset=trainset, **compiling), engine, None
        except (TypeError, ValueError) as error:
            return None, engine, error


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": None}, "metric: expected a function of an example and a prediction, found NoneType"),
        ({"num_samples": 2.5}, "num_samples: expected a valid integer, found 2.5"),
        ({"num_samples": True}, "num_samples: expected a valid integer, found True"),
        ({"num_samples": 0}, "num_samples: expected greater than or equal to 1, found 0"),
        ({"threads": "8"}, "threads: expected a valid integer, found '8'"),
        ({"granularity": 1.5}, "granularity: expected a valid integer, found 1.5"),
        ({"seed": "a"}, "seed: expected a valid integer, found 'a'"),
        ({"temperatures": 0.7}, "temperatures: expected a valid tuple, found 0.7"),
        ({"temperatures": ["0.7"]}, "temperatures: expected a valid number, found '0.7'"),
        ({"temperatures": (float("nan"),)}, "temperatures: expected a finite number, found nan"),
        ({"temperatures": (0.7, 0.7)}, "temperatures: a temperature is given twice, found (0.7, 0.7)"),
        ({"budget": {"tokens": 5}}, "budget: expected an instance of Budget, found {'tokens': 5}"),
        ({"domain": "step"}, "domain: expected an instance of Domain, found 'step'"),
        ({"compiling": {"experience": "run 1"}}, "experience: expected an instance of Experience, found 'run 1'"),
        ({"compiling": {"resume": "abc"}}, "resume[0]: expected an optimizers.Attempt, found str"),
        ({"compiling": {"resume": 3}}, "resume: expected an instance of Sequence, found 3"),
        ({"compiling": {"teacher": Solver()}}, "the student learns from its own answers; it takes no teacher"),
        ({"domain": Domain(demo_predictors=("guess",))}, "the program has no predictor guess; it has solve"),
        ({"max_demos": -1}, "max_demos: expected greater than or equal to 0, found -1"),
        ({"failure_score": float("nan")}, "failure_score: expected a finite number, found nan"),
        ({"metric_threshold": "1"}, "metric_threshold: expected a valid number, found '1'"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(options, message):
    compiled, engine, error = compile_tasks(tasks("a"), **options)
    assert (compiled, str(error), engine.calls) == (None, message, 0)


@pytest.mark.parametrize("name", ["openai/gpt-4o", 3])
def test_what_is_not_an_lm_is_refused(name):
    with dspy.context(lm=name), pytest.raises(TypeError, match=r"expected a dspy\.LM: dspy\.configure"):
        AdaptiveFewShot(is_right).compile(Solver(), trainset=tasks("a"))


def test_temperatures_may_come_from_an_array():
    assert Sampling(temperatures=np.array([0.5, 1.0], dtype=np.float32)).temperatures == (0.5, 1.0)  # type: ignore[arg-type]


def test_other_inputs_than_the_first_example_s_are_reported(caplog):
    """It may be a slip, or an input that can be left out."""
    named = named_examples([*tasks("a"), dspy.Example(tsk="b", n=1).with_inputs("tsk", "n")], "trainset", str)
    assert len(named) == 2
    assert caplog.messages == ["trainset[1]: its inputs are n, tsk, those of trainset[0] task"]


def test_an_example_that_is_repeated_is_a_task_of_its_own():
    """Whatever names it: with other labels it may be solved by other answers."""
    for domain in (Domain(), Domain(task_key=by_task)):
        compiled = compile_tasks(tasks("abaa"), domain=domain)[0]
        assert compiled is not None
        first, _, *others = compiled.experience.tasks
        assert others == [f"{first}#2", f"{first}#3"]
        seeds = {attempt.seed for attempt in compiled.experience.attempts}
        assert len(seeds) == len(compiled.experience.attempts)


def test_a_task_key_that_gives_two_tasks_one_name_is_refused():
    error = compile_tasks(tasks("ab"), domain=Domain(task_key=lambda example: "same"))[2]
    same = "trainset[0] and trainset[1] are both named 'same' by Domain.task_key"
    assert str(error) == f"{same}; expected different names for different inputs"


def test_task_keys_are_texts_or_whole_numbers_and_go_by_their_text():
    compiled = compile_tasks(tasks("ab"), domain=Domain(task_key=lambda example: ord(example.task)))[0]
    assert compiled is not None and compiled.experience.tasks == ("97", "98")
    for key in (uuid.UUID(int=1), b"a", None):
        error = compile_tasks(tasks("a"), domain=Domain(task_key=lambda example, key=key: key))[2]
        assert isinstance(error, TypeError)
        assert str(error) == f"trainset[0]: Domain.task_key gave {key!r}, expected a str, or an int"
    error = compile_tasks(tasks("a"), domain=Domain(task_key=lambda example: example.name))[2]
    assert str(error).startswith("trainset[0]: Domain.task_key failed: AttributeError: ")


def test_inputs_whose_text_holds_an_address_have_no_lasting_name():
    class Opaque:
        pass

    for value in (Opaque(), [Opaque()], lambda: 1):
        error = compile_tasks([dspy.Example(task=value).with_inputs("task")])[2]
        assert "trainset[0]: Domain.task_key failed" in str(error) and "name the tasks yourself" in str(error)
    text = "a text that speaks of <Opaque at 0x7f00>"
    assert compile_tasks([dspy.Example(task=text).with_inputs("task")])[2] is None
    named = Domain(task_key=lambda example: "opaque")
    assert compile_tasks([dspy.Example(task=Opaque()).with_inputs("task")], domain=named)[2] is None


def test_examples_of_the_validation_set_are_named_as_such():
    error = compile_tasks(tasks("a"), compiling={"valset": [SimpleNamespace(task="v")]})[2]
    assert str(error) == "valset[0]: expected a dspy.Example, found SimpleNamespace"
    assert str(compile_tasks([])[2]) == "the trainset is empty"


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_a_score_that_is_not_a_finite_number_is_the_metrics_failure(score):
    with pytest.raises(MetricError, match=r"task a.*it gave a score of (nan|inf), expected a finite number"):
        learn("a", one_right, metric=lambda example, prediction: score)


# Listeners hear a whole run in the thread that called `compile`.


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


def test_every_iteration_has_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    """With its samples, the tasks solved and the tokens; a validation has one, too; nothing is written on stdout."""
    learn("abx", some, display_progress=True, compiling={"valset": tasks("b")})
    out, err = capsys.readouterr()
    assert not out and "1: None: 100%" in err and "12/12" in err and "solved=2/3" in err
    assert "validation of H_2: 100%" in err and "tokens=" in err


# What the result of a run does not show is said.


def test_a_pass_that_the_budget_cuts_short_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """How much of it was sampled; a budget that ends between two passes, or the control's, is no surprise."""
    learn("ab", lambda *_: 0, budget=Budget(calls=3), threads=1)
    assert caplog.messages == ["budget: budget reached: 3 requests of 3; iteration 1, None, had 3 of its 8 samples"]
    caplog.clear()
    learn("ab", lambda *_: 0, budget=Budget(iterations=1))
    learn("ab", lambda *_: 0, budget=Budget(calls=11), selection="resample")
    assert not caplog.messages


def test_async_tools_that_only_the_run_could_call_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """A coroutine function, and an object that is called as one, behind a program's own module."""

    async def look(q: str) -> str:
        """Looks it up."""
        return q

    class Search:
        async def __call__(self, q: str) -> str:
            return q

    class Holder(Solver):
        def __init__(self) -> None:
            super().__init__()
            self.kit = {"all": [dspy.Tool(look), dspy.Tool(Search(), name="search"), dspy.Tool(len, name="length")]}

    learn("a", lambda *_: 4, student=Holder())
    (warning,) = caplog.messages
    assert "are coroutines (look, search);" in warning and "allow_tool_async_sync_conversion=True" in warning
    caplog.clear()
    with dspy.context(allow_tool_async_sync_conversion=True):
        learn("a", lambda *_: 4, student=Holder())
    assert not caplog.messages


def test_requests_that_no_run_can_count_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """A thread of the program's own sees the global settings, not those of the run."""

    class Threaded(Solver):
        def forward(self, task: str) -> Any:
            with ThreadPoolExecutor(1) as pool:
                return pool.submit(dspy.Predict("task -> answer").__call__, task=task, lm=lm).result()

    engine = ScriptedEngine(lambda *_: 4, 4)
    lm = dspy.LM("scripted", engine=engine, cache=False)
    compiled = learn("ab", lambda *_: 4, student=Threaded())
    assert engine.calls == 8 and compiled.experience.tokens == {}
    assert "no request of the program was counted" in caplog.text


# What a run learns and reports.
#
# A budget ends a run with a usable program; a task that is always refused does not end the learning of the others, also
# on resumption; demonstrations that do not fit are left out and reported.


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


# MLflow's autologging sees compiling, whichever of the two is imported first, and no calls but real ones.


SCRIPT = """
import os
import mlflow

os.chdir({folder!r})

def switch_on():
    mlflow.set_tracking_uri("sqlite:///mlflow.db")
    mlflow.dspy.autolog(log_traces_from_compile=True, log_compiles=True)

def import_ours():
    import optimizers

for step in {order}:
    step()
from tests.support.scripted_program import learn, some
record = learn("ab", some, n=2).experience
mlflow.flush_trace_async_logging()
runs = mlflow.search_runs(output_format="list")
traces = mlflow.search_traces(return_type="list", include_spans=True)
roots = {{trace.data.spans[0].name for trace in traces}}
usages = [trace.info.token_usage for trace in traces]
traced = sum(usage["input_tokens"] + usage["output_tokens"] for usage in usages)
print(traced, sum(count.total for count in record.tokens.values()))
print(len([run for run in runs if "mlflow.parentRunId" not in run.data.tags]), len(runs), len(traces), *roots)
"""


@pytest.mark.parametrize(
    "order", [pytest.param("switch_on, import_ours", marks=pytest.mark.slow), "import_ours, switch_on"]
)
def test_compiling_is_logged_in_either_order(order: str, tmp_path: Path) -> None:
    """One run; a trace for each sample, and none of a prompt that is only measured."""
    script = SCRIPT.format(order=f"({order})", folder=str(tmp_path))
    (tmp_path / "mlflow.db").write_bytes(quick_stores.empty_store())
    if order.startswith("import_ours"):  # as a fork has already done
        done = forked.run("-c", script)
    else:
        command = [sys.executable, "-W", "ignore", "-c", script]
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    totals, counts = done.stdout.splitlines()[-2:]
    traced, counted = totals.split()
    assert traced == counted != "0", "the provider's tokens, once in MLflow's traces and once in the record"
    outer, runs, traces, root = counts.split()
    assert (outer, runs, traces, root) == ("1", "1", "4", "Solver.forward")


class Counting(BaseCallback):
    """Counts the events."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def on_lm_start(self, *_: Any, **__: Any) -> None:
        self.counts["lm"] += 1

    def on_adapter_format_start(self, *_: Any, **__: Any) -> None:
        self.counts["format"] += 1

    def on_adapter_parse_start(self, *_: Any, **__: Any) -> None:
        self.counts["parse"] += 1

    def on_module_start(self, *_: Any, **__: Any) -> None:
        self.counts["module"] += 1


@pytest.mark.parametrize("place", ["settings", "adapter"])
@pytest.mark.parametrize("selection", ["adaptive", "coverage"])
def test_callbacks_hear_of_real_calls_only(place: str, selection: str) -> None:
    """One formatting for each request, wherever the callbacks are registered; sizes of prompts are found in silence."""
    engine, counting = ScriptedEngine(some, 4), Counting()
    adapter = dspy.ChatAdapter(callbacks=[counting] if place == "adapter" else [])
    with dspy.context(callbacks=[counting] if place == "settings" else [], adapter=adapter):
        compiled = learn("abx", some, engine=engine, selection=selection)
    assert counting.counts["format"] == counting.counts["parse"] == engine.calls == len(compiled.experience.attempts)
    if place == "settings":
        assert counting.counts["lm"] == engine.calls and counting.counts["module"] == 2 * engine.calls
