"""Costs are found in a worker process, which a task's code may cost."""

import dspy
import pytest

from pipeline.base.errors import UsageError
from pipeline.verification.limits import verification_pool
from pipeline.verification.pricing import answer_cost, pricing, task_bounds
from step_runtime.cost.chip import DEFAULT_CHIP
from step_runtime.tasks.reader import loads_task
from tests.support.scripted_runs import RIGHT, TASK, tasks


def test_a_program_is_priced_with_the_tasks_own_functions() -> None:
    """One operation an element."""
    with pricing(tasks()[0], DEFAULT_CHIP, "") as workers:
        found = workers.price(RIGHT, {"M": 10})
        assert not isinstance(found, tuple)
        assert found.cost.operations == 10
        assert isinstance(workers.price("return E1"), tuple)


@pytest.mark.parametrize(
    ("code", "quoted"), [("return [input[0] @ input[0]]", "function fn raised"), ("import os; os._exit(3)", "its code")]
)
def test_code_that_fails_is_one_message(code: str, quoted: str) -> None:
    """Even if it ends the process."""
    task = loads_task(TASK.replace("return [input[0] * 2]", code), "broken")
    with pricing(task, DEFAULT_CHIP, "") as workers, pytest.raises(UsageError, match=quoted):
        workers.price(RIGHT)


def test_answers_are_priced_by_one_figure_and_only_once(caplog: pytest.LogCaptureFixture) -> None:
    """One without a cost has none, and code that fails is a warning: the answer is right all the same."""
    [task, *_] = tasks()
    broken = loads_task(TASK.replace("return [input[0] * 2]", "return [input[0] @ input[0]]"), "broken")
    with verification_pool(1) as workers:
        cost = answer_cost(workers, "operations")
        assert cost(dspy.Example(task=task), {"impl": RIGHT}) == 5
        assert cost(dspy.Example(task=task), {"impl": "return E1"}) is None
        assert cost(dspy.Example(task=broken), {"impl": RIGHT}) is None
        assert "broken: the cost of an answer can't be found" in caplog.text
        assert task_bounds(workers, [task], "traffic") == {task.name: 40}
        assert task_bounds(workers, [task], "memory") == {}
    assert cost(dspy.Example(task=task), {"impl": RIGHT}) == 5, "without a worker"
