"""Tables of costs; `tests/pipeline/test_cost.py` holds the command's."""

from pipeline.cli.cost_tables import cost_table
from step_runtime.verification.task_costs import TaskCosts
from tests.support.oracles import oracle, task


def test_data_dependent_dims_are_stated() -> None:
    priced = TaskCosts(task("etoe/2")).price(oracle("etoe/2"))
    assert "dims that depend on the data count as their upper bounds" in cost_table(priced, "moe", "example")
