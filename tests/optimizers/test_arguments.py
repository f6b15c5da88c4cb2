"""What an optimizer refuses before anything is sampled, and in which words.

Invariant held here: a mistake of the caller ends `compile` at once, whatever it is, with an error that names the
argument or the example, and costs no request.
"""

import uuid
from types import SimpleNamespace
from typing import Any

import dspy
import numpy as np
import pytest

from optimizers import AdaptiveFewShot, Domain, MetricError
from optimizers.arguments import named_examples
from optimizers.sampling import Sampling
from tests.support.scripted_program import ScriptedEngine, Solver, by_task, is_right, learn, tasks


def some(task: str, demos: tuple[str, ...], visit: int) -> int:
    return 1


def compile_tasks(trainset: list[Any], **options: Any) -> tuple[dspy.Module | None, ScriptedEngine, Exception | None]:
    engine, compiling = ScriptedEngine(some, 2), options.pop("compiling", {})
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


@pytest.mark.parametrize("score", [float("nan"), float("inf")])
def test_a_score_that_is_not_a_finite_number_is_the_metrics_failure(score):
    with pytest.raises(MetricError, match=r"task a.*it gave a score of (nan|inf), expected a finite number"):
        learn("a", some, metric=lambda example, prediction: score)
