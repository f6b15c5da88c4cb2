"""Routings are found by types alone."""

from __future__ import annotations

from pipeline.lms.embedded.routings import find_routings, find_selections, index_makers
from pipeline.lms.embedded.task_view import TaskView
from step_runtime.tasks.reader import loads_task
from tests.support.habitual_tasks import BLOCKS, EXIT, ROUTED_VIEW
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


def test_an_index_selects_where_no_routing_takes_all_functions_of_a_signature() -> None:
    """A branch may then be a chain of them; each bit stands for a stream, and there is one order."""
    view = TaskView(loads_task(EXIT))
    assert len(view.routings) == 3 and not ROUTED_VIEW.selections
    (selection,) = find_selections(view.scope, view.table, view.routings)
    assert selection.selects and selection.merge.label == "fn_add" and selection.orders() == ((None, None),)
    callee = view.routing_callees[id(view.selections[0])]
    assert callee.need == (*(selection.merge.input,) * 2, selection.index) and callee.routed and not callee.branches
