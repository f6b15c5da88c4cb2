"""Figures are counted from the attempts."""

import pytest

from optimizers import Attempt, TaskCount
from pipeline.agent.domain import program_class
from pipeline.base.files import TASKS
from pipeline.reporting import pass_rates
from step_runtime.language.parser import parse
from step_runtime.tasks.reader import loads_task
from tests.support.samples import general_scope
from tests.support.scripted_runs import RIGHT, TASK

TASK_OF_RIGHT = loads_task(TASK, "double")


def test_the_benchmark_has_the_classes_of_table_2() -> None:
    """A1 7, AR 8, S1 7, SR 4, read off the oracles."""
    names = [path.relative_to(TASKS).with_suffix("").as_posix() for path in TASKS.rglob("*.yaml")]
    classes = pass_rates.scores_by(pass_rates.classes_in(None), names, {})
    assert {kind: score.tasks for kind, score in classes.items()} == {"A1": 7, "AR": 8, "S1": 7, "SR": 4}


def test_groups_stand_in_the_order_of_the_paper() -> None:
    """The benchmark's own first, then others as they came."""
    names = pass_rates.in_group_order(["x", "etoe/0", "mine/1", "gemm/1", "attn/2", "gemm/0"])
    assert names == ["attn/2", "gemm/1", "gemm/0", "etoe/0", "x", "mine/1"]


def test_the_best_temperature_counts() -> None:
    """The highest rate, the first of equals; an attempt without an answer is in no count."""
    drawn = [attempt("a", i, "x", i < 1, 0.4) for i in range(4)] + [attempt("a", i, "x", i < 1, 0.7) for i in range(2)]
    drawn += [
        Attempt(0, 0, "a", 0.7, 2, 0, error="no answer"),
        *(attempt("b", i, "x", False, t) for i, t in [(0, 0.4), (0, 0.7)]),
    ]
    assert pass_rates.best_counts(drawn) == {"a": TaskCount("a", 0.7, 1, 2), "b": TaskCount("b", 0.4, 0, 1)}


def test_diversity_is_distinct_trees_per_answer_averaged_over_tasks() -> None:
    """A hand-worked case: renaming and comments make no new tree, and a task without wrong answers has no failure."""
    renamed = RIGHT.replace("E1", "out") + "  # the same"
    drawn = [attempt("a", 0, RIGHT, True), attempt("a", 1, renamed, True), attempt("a", 2, "return E0", False)]
    drawn += [attempt("a", 3, "return E0", False), attempt("b", 0, RIGHT, True), attempt("b", 1, "return [E0]", True)]
    drawn.append(Attempt(0, 0, "a", 0.7, 9, 0, error="no answer"))
    found = pass_rates.diversity(drawn, dict.fromkeys("ab", TASK_OF_RIGHT))
    assert found == {"success": (1 / 2 + 2 / 2) / 2, "failure": 1 / 2, "overall": (2 / 4 + 2 / 2) / 2}
    assert pass_rates.diversity([], {}) == {"success": None, "failure": None, "overall": None}


def attempt(task: str, sample: int, impl: str, passed: bool, temperature: float = 0.7) -> Attempt:
    score = float(passed)
    return Attempt(0, 0, task, temperature, sample, 0, outputs={"impl": impl}, score=score, passed=passed)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("return step.Map(fn=fn_square).apply(E0)", "A1"),
        ("a, b = step.Copy().apply(E0)\nreturn step.Map(fn=fn_mul).apply((a, b))", "AR"),
        ("return step.Repeat(n=2).apply(step.Map(fn=fn_square).apply(E0))", "S1"),
        ("a, b = step.Copy().apply(E0)\nreturn a, step.Promote(b=0).apply(b)", "SR"),
        ("return E0", "A1"),
    ],
)
def test_shape_and_reuse_decide_the_class(text: str, expected: str) -> None:
    """S where a primitive changes shapes, R where a stream is copied."""
    program, found = parse(text, general_scope())
    assert not found and program_class(program) == expected
