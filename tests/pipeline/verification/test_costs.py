"""Costs are found in a worker process, which a task's code may cost."""

from __future__ import annotations

import pytest

from pipeline.base.errors import UsageError
from pipeline.verification.costs import pricing
from step_runtime.cost.chip import DEFAULT_CHIP
from step_runtime.tasks.reader import loads_task
from tests.support.scripted_runs import RIGHT, TASK, tasks


def test_a_program_is_priced_with_the_tasks_own_functions() -> None:
    """Its one operation an element, as a polynomial too."""
    with pricing(tasks()[0], DEFAULT_CHIP) as workers:
        found = workers.price(RIGHT, {"M": 10})
        assert not isinstance(found, tuple)
        assert (found.cost.operations, str(found.formulas["operations"])) == (10, "M")
        assert isinstance(workers.price("return E1"), tuple)


@pytest.mark.parametrize(
    ("code", "quoted"),
    [("return [input[0] @ input[0]]", "function fn raised"), ("import os; os._exit(3)", "its code")],
)
def test_code_that_fails_is_one_message(code: str, quoted: str) -> None:
    """Even if it ends the process."""
    task = loads_task(TASK.replace("return [input[0] * 2]", code), "broken")
    with pricing(task, DEFAULT_CHIP) as workers, pytest.raises(UsageError, match=quoted):
        workers.price(RIGHT)
