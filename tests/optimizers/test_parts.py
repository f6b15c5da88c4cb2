"""Sub-tasks hold these: they enter after an iteration that leaves their task unsolved, and count in no figure of tasks.

The task `x` is right by no sample; it is divided into `x1` and `x2`, whose answers together are its own.
"""

from collections.abc import Mapping
from typing import Any

import dspy
import pytest

from optimizers import Budget, Domain, Experience
from optimizers.domain import Division
from tests.support.scripted_program import Heard, by_task, learn, story, tasks

pytestmark = pytest.mark.usefixtures("no_waiting")


def divide(example: dspy.Example, answers: Mapping[str, Mapping[str, Any]]) -> Division:
    """`x3` enters with the second division only."""
    if {"x1", "x2"} <= answers.keys():
        return Division({}, {"answer": "right x"}, ("x1", "x2"))
    names = ("x1", "x2", "x3")[: 3 if answers else 2]
    return Division({name: each for name, each in zip(names, tasks(names), strict=True) if example.task == "x"})


def script(task: str, demos: tuple[str, ...], visit: int) -> int:
    return {"a": 2, "x1": 1, "x2": 3 * ("x1" in demos)}.get(task, 0)


def run(names: str = "ax", **options: Any) -> dspy.Module:
    return learn(names, script, domain=Domain(task_key=by_task, divide=divide), threads=1, **options)


class Entering(Heard):
    def parts_entered(self, parts: Mapping[str, Mapping[str, dspy.Example]]) -> None:
        self.others.append({whole: list(examples) for whole, examples in parts.items()})


def test_a_task_is_solved_by_what_is_composed_of_its_subtasks_which_are_demonstrations_meanwhile():
    heard = Entering()
    compiled = run(observers=[heard])
    record = compiled.experience
    assert story(compiled)[0] == "None: - -> a" and record.iterations[-1].solved == ("x",)
    assert [result.solved_parts for result in record.iterations][:2] == [(), ("x1",)]
    assert record.iterations[-1].composed == {"x": ("x1", "x2")} and "x2" in record.iterations[-1].solved_parts
    assert {"x1"} <= {key for result in record.iterations for key in result.demos}
    assert [each for each in heard.others if isinstance(each, dict)] == [{"x": ["x1", "x2"]}, {"x": ["x3"]}]
    entry = next(each for each in record.entries if each.task_key == "x")
    assert (entry.outputs, entry.composed_from, entry.rate) == ({"answer": "right x"}, ("x1", "x2"), 1 / 4)
    assert (record.stopped, record.tasks, record.solved) == ("solved", ("a", "x"), ("a", "x"))


def test_a_composed_answer_counts_among_the_solved_but_not_as_one_that_a_sample_gave():
    record = run().experience
    assert (record.pass_at(), record.pass_at(1)) == (1.0, 1 / 4)
    assert [result.solved_total for result in record.iterations] == [1] * (len(record.iterations) - 1) + [2]


def test_subtasks_are_sampled_even_where_nothing_was_solved_before_and_the_strategy_had_ended():
    record = run("x").experience
    assert record.iterations[0].tasks == ("x",) and record.iterations[1].tasks == ("x", "x1", "x2")
    assert record.solved == ("x",)


def test_a_resumed_run_divides_its_tasks_as_the_whole_one_did():
    whole = run().experience
    for cut in (len(whole.attempts) // 3, len(whole.attempts) - 2):
        again = run(compiling={"resume": whole.attempts[:cut]}).experience
        assert [attempt.outputs for attempt in again.attempts] == [attempt.outputs for attempt in whole.attempts]
        assert [each.composed for each in again.iterations] == [each.composed for each in whole.iterations]


def test_samples_of_subtasks_count_against_the_budget_and_a_record_of_them_is_read_again():
    whole = run().experience
    assert Experience.from_dict(whole.to_dict()).iterations == whole.iterations
    assert Experience.from_dict(whole.to_dict()).entries == whole.entries
    short = run(budget=Budget(iterations=2)).experience
    assert short.stopped == "budget" and short.unsolved == ("x",)
