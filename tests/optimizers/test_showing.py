"""Demonstrations are set within the limits, for all tasks alike or for each its own."""

from __future__ import annotations

from collections.abc import Sequence

import dspy
import pytest

from optimizers import Budget, Entry, TokenCount
from optimizers.context_window import Window
from optimizers.sampling import TaskExample
from optimizers.showing import DemoFitter
from optimizers.strategies.base import DemoSet

TASKS = [
    TaskExample(index, name, dspy.Example(question=name).with_inputs("question")) for index, name in enumerate("xy")
]


def entry(name: str, successes: int) -> Entry:
    return Entry(
        task_key=name, inputs={"question": name}, outputs={"answer": f"answer {name}"}, successes=successes, samples=4,
        temperature=0.7, iteration=0, answer_temperature=0.7, answer_sample=0, tokens=TokenCount(),
    )  # fmt: skip


KNOWN = [entry("a", 1), entry("b", 2), entry("c", 3)]


@pytest.fixture
def program() -> dspy.Predict:
    return dspy.Predict("question -> answer")


def window() -> Window:
    return Window.of(None, None)


def shown_by(program: dspy.Module) -> list[str]:
    (predictor,) = program.predictors()
    return [demo["question"] for demo in predictor.demos]


@pytest.mark.parametrize(
    ("budget", "max_demos", "kept"),
    [(Budget(), None, "abc"), (Budget(demos=2), None, "ab"), (Budget(), 1, "a"), (Budget(demo_tokens=1), None, "")],
)
def test_the_first_demonstrations_within_every_limit_are_set(
    program: dspy.Predict, budget: Budget, max_demos: int | None, kept: str
) -> None:
    """The others are reported, last first."""
    fitter = DemoFitter(["self"], budget, max_demos)
    shown = fitter.show(program, DemoSet("H", KNOWN), TASKS, KNOWN, window())
    assert [each.task_key for each in shown.demos] == list(kept) and shown_by(program) == list(kept)
    assert [each.task_key for each in shown.left_out] == list("abc"[len(kept) :][::-1])
    assert shown.keys(TASKS[0]) == tuple(kept)


def test_a_choice_per_task_gets_programs_of_its_own_and_the_union_is_shown_hardest_first(program: dspy.Predict) -> None:
    """What one task leaves out is not reported if another shows it."""

    def select(task: TaskExample, known: Sequence[Entry], limit: int | None) -> Sequence[Entry]:
        assert (known, limit) == (KNOWN, 900)
        return [known[2], known[0]] if task.key == "x" else [known[1], known[2]]

    demo_set = DemoSet("T", KNOWN, select=select, reason=lambda task, each: f"{each.task_key} for {task.key}")
    fitter = DemoFitter(["self"], Budget(demos=1, demo_tokens=900))
    shown = fitter.show(program, demo_set, TASKS, KNOWN, window())
    assert {key: shown_by(own) for key, own in shown.own_programs.items()} == {"x": ["c"], "y": ["b"]}
    assert shown.reasons == {"x": {"c": "c for x"}, "y": {"b": "b for y"}}
    assert [each.task_key for each in shown.demos] == ["b", "c"] and shown_by(program) == ["b", "c"]
    assert [each.task_key for each in shown.left_out] == ["a"]
    assert (shown.keys(TASKS[0]), shown.keys(TASKS[1])) == (("c",), ("b",))


def test_the_size_of_a_demonstration_is_estimated_once(program: dspy.Predict) -> None:
    """A later prompt does not change which demonstrations fit."""
    fitter = DemoFitter(["self"], Budget())
    size = fitter.tokens(program, KNOWN[0])
    assert size > 0 and fitter.tokens(dspy.Predict("question -> answer, more"), KNOWN[0]) == size
