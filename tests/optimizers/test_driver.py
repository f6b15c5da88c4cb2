"""Compiling leaves student and training set as they are, refuses bad arguments and gives an ordinary program."""

import copy
import math
import pickle
import subprocess
import sys

import cloudpickle
import dspy
import pytest
from dspy import lm15
from dspy.utils.exceptions import LMAuthError

from optimizers import AdaptiveFewShot, Budget, Domain, MetricError, SinglePass
from optimizers import baselines as registry
from tests.support.scripted_program import (
    Asynchronous,
    Refusing,
    ScriptedEngine,
    Solver,
    by_task,
    failing,
    is_right,
    learn,
    some,
    story,
    tasks,
)

pytestmark = pytest.mark.usefixtures("no_waiting")


def test_an_lm_that_refuses_before_it_answered_raises_its_own_error():
    with pytest.raises(LMAuthError):
        learn("ab", some, engine=failing(lm15.AuthError("bad key"), 0))


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


def test_the_other_candidates_are_neither_saved_nor_copied():
    compiled = learn("ab", some)
    assert compiled.deepcopy().candidate_programs is compiled.candidate_programs
    assert len(compiled.candidate_programs) == 2
    read = pickle.loads(cloudpickle.dumps(compiled))
    assert read.candidate_programs == [] and type(read.candidate_programs) is list
    assert [demo.task for demo in read.solve.demos] == ["a"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": ""}, "trainset is empty"),
        ({"domain": Domain(task_key=lambda example: "same"), "names": "ab"}, "both named 'same'"),
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


def test_a_program_that_was_only_sampled_is_its_own_candidate():
    """Its score is the mean success rate."""
    (candidate,) = learn("abx", some, optimizer=SinglePass).candidate_programs
    assert (candidate["score"], candidate["label"], demonstrated(candidate)) == (100 * (1 / 4 + 2 / 4) / 3, "none", [])


def test_a_compiled_student_does_not_hand_on_its_candidates():
    """Those of an earlier optimizer are about other programs."""
    first = learn("ab", some)
    again = learn("ab", some, student=first)
    assert "candidate_programs" not in vars(again.candidate_programs[0]["program"])
    assert again.experience is not first.experience and first.candidate_programs
