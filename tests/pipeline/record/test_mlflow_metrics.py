"""A run is described in sentences."""

from dataclasses import replace

from optimizers import Budget, Experience
from pipeline.record.mlflow_metrics import cost_metrics, describe, within_bounds
from tests.support.scripted_runs import learn


def test_a_run_is_described_in_sentences() -> None:
    """Singular and plural differ, and an empty part is left out."""
    many, one = learn([]), learn([], budget=Budget(iterations=1))
    assert describe(many).startswith("**2 of 3 tasks solved** in 4 iterations. 1 task remains unsolved.\n")
    assert describe(many).endswith("\n\nUnsolved: no/0.")
    assert describe(one).startswith("**1 of 3 tasks solved** in 1 iteration. Budget reached: 1 iteration of 1.\n")
    nothing = Experience(("a",), stopped="exhausted", message="1 task remains unsolved")
    assert describe(nothing) == "**0 of 1 task solved** in 0 iterations. 1 task remains unsolved.\n\nUnsolved: a."


def test_costs_are_metrics_of_an_iteration_where_a_run_has_an_objective() -> None:
    """One for each solved task, so that the UI shows how it falls, and one for all."""
    result = learn([]).iterations[0]
    assert cost_metrics([result]) == {}
    first = replace(result, costs={"gemm/0": 80.0, "id": 0.0})
    then = replace(result, costs={"gemm/0": 40.0, "id": 0.0}, improved=("gemm/0",))
    assert cost_metrics([first, then]) == {
        "cost/gemm/0": 40.0,
        "cost/id": 0.0,
        "tasks_improved": 1,
        "cost_of_first": 0.75,
    }


def test_shares_of_tasks_within_multiples_of_the_bound() -> None:
    """Of all tasks: an unsolved one is never within, nor is one without a bound."""
    found = within_bounds({"a": 100.0, "b": 150.0, "c": 7.0}, {"a": 100.0, "b": 100.0}, 4)
    assert found == {"within_1": 0.25, "within_1.1": 0.25, "within_1.5": 0.5, "within_2": 0.5, "within_5": 0.5}
    assert within_bounds({"a": 100.0}, {}, 1) == {}
