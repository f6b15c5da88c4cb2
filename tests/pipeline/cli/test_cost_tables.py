"""Tables of costs; `tests/pipeline/test_cost.py` holds the command's."""

from pipeline.cli.cost_tables import aligned, comparison_table, cost_table
from step_runtime.verification.task_costs import TaskCosts
from tests.support.oracles import oracle, task


def test_columns_are_aligned() -> None:
    assert aligned([["a", "bb"], ["ccc", "d"]], right={1}) == ["a    bb", "ccc   d"]


def test_a_comparison_has_one_line_a_program() -> None:
    """However many programs are compared, a line is as wide as five figures."""
    priced = TaskCosts(task("norm/2")).price(oracle("norm/2"))
    lines = comparison_table([(name, priced) for name in "abcdefgh"]).splitlines()
    assert len(lines) == 2 + 1 + 8 and max(map(len, lines)) <= 120
    assert lines[3].split() == ["a", "68", "896", "735", "133", "15"]
    assert lines[4].split()[:3] == ["b", "68", "1.00x"]


def test_data_dependent_dims_are_stated() -> None:
    priced = TaskCosts(task("etoe/2")).price(oracle("etoe/2"))
    assert "dims that depend on the data count as their upper bounds" in cost_table(priced, "moe", "example")
