"""Tables of costs; `tests/pipeline/test_cost.py` holds the command's."""

from pipeline.cli.cost_tables import aligned, comparison_table, cost_table, formula_text, node_label
from step_runtime.verification.task_costs import TaskCosts
from tests.support.oracles import oracle, task


def test_columns_are_aligned() -> None:
    assert aligned([["a", "bb"], ["ccc", "d"]], right={1}) == ["a    bb", "ccc   d"]


def test_a_figure_without_a_polynomial_has_an_empty_cell() -> None:
    """Such as a time with a rounded number of cycles."""
    priced = TaskCosts(task("attn/2")).price(oracle("attn/2"))
    assert formula_text(priced, "time") == ""
    assert formula_text(priced, "queue") == "0"
    assert node_label(priced, 0) == "Scan(fn=fn_expmaxdiff, b=1)"
    assert "time          119  cycles                " in cost_table(priced, "attn", "example")


def test_without_polynomials_a_comparison_has_one_line_a_program() -> None:
    """However many programs are compared, a line is as wide as five figures."""
    priced = TaskCosts(task("norm/2")).price(oracle("norm/2"), formulas=False)
    lines = comparison_table([(name, priced) for name in "abcdefgh"]).splitlines()
    assert len(lines) == 2 + 1 + 8 and max(map(len, lines)) <= 120
    assert lines[3].split() == ["a", "68", "896", "735", "133", "15"]
    assert lines[4].split()[:3] == ["b", "68", "1.00x"]


def test_data_dependent_dims_are_stated() -> None:
    priced = TaskCosts(task("etoe/2")).price(oracle("etoe/2"), formulas=False)
    assert "dims that depend on the data count as their upper bounds" in cost_table(priced, "moe", "example")
