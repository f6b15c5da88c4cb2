"""Paths of actions lead to the goal or are none."""

from __future__ import annotations

from pipeline.lms.embedded.operands import Operands
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.retrieval.recommender import Recommendation
from pipeline.lms.embedded.small.action_model import INPUT, History
from pipeline.lms.embedded.small.actions import ActionTable
from pipeline.lms.embedded.small.planning import PathPlanner
from pipeline.lms.embedded.small.small_proposer import action_model_of
from pipeline.lms.embedded.task_view import TaskView
from tests.support.benchmark_tasks import EXAMPLES
from tests.support.samples import general

TABLE = ActionTable(TaskView(general()))
STREAMS = list(TABLE.table.inputs)
HISTORIES: list[History] = [INPUT] * len(STREAMS)


def planner(seed: int = 0) -> PathPlanner:
    return PathPlanner(TABLE, action_model_of(dict.fromkeys(EXAMPLES, 1.0)), SeededChoice(seed, 1.0))


def advice(name: str, how: str, *sources: int) -> Recommendation:
    callee = next(callee for callee in TABLE.view.callees if callee.fn.label == name)
    return Recommendation(callee, None, Operands(sources, (1,) * len(sources)), how, 1.0)


def test_a_path_ends_with_the_function_as_recommended() -> None:
    """Structural primitives come before it, each on what was there."""
    path = planner().application(advice("fn_square", "Map", 0), STREAMS, HISTORIES)
    assert path is not None and [fn.label for fn in path[-1].fns] == ["fn_square"]
    assert all(not action.fns for action in path[:-1])
    for place, action in enumerate(path):
        assert all(source < len(STREAMS) + place for source in action.sources)


def test_what_cannot_be_applied_that_way_has_no_path() -> None:
    """A function without a state never scans."""
    assert planner().application(advice("fn_square", "Scan", 0), STREAMS, HISTORIES) is None


def test_an_output_takes_no_path() -> None:
    """It is one already."""
    assert planner().output(0, STREAMS) == [] == planner().output(3, STREAMS)
