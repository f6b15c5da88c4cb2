"""Compiling leaves student and training set as they are, refuses bad arguments and gives an ordinary program."""

from __future__ import annotations

import copy

import dspy
import pytest
from dspy import lm15
from dspy.utils.exceptions import LMAuthError

from optimizers import AdaptiveFewShot, Domain, MetricError
from tests.support.scripted_program import ScriptedEngine, Solver, by_task, failing, is_right, learn, some, story, tasks

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


def test_no_lm_is_reported_at_once():
    from optimizers import AdaptiveFewShot

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
