"""Routings are found by types alone."""

from __future__ import annotations

from pipeline.lms.embedded.routings import find_routings, index_makers
from pipeline.lms.embedded.task_view import TaskView
from step_runtime.tasks.reader import loads_task
from tests.support.habitual_tasks import BLOCKS
from tests.support.samples import general


def test_an_index_of_one_bit_routes_through_one_function() -> None:
    """Elements whose bit is off pass none."""
    view = TaskView(loads_task(BLOCKS))
    (routing,) = find_routings(view.scope, view.table)
    assert [fn.label for fn in routing.branches] == ["fn_times"] and routing.merge.label == "fn_sum"


def test_functions_that_give_an_index_are_its_makers() -> None:
    """Whatever else they are named."""
    fns = TaskView(general()).fns
    made = {fn.label for fn in index_makers(fns)}
    assert made == {fn.label for fn in fns if "Multihot" in str(fn.output)}
