"""The actions that could come next in a program: structural primitives towards a goal, or the goal itself."""

from __future__ import annotations

from pipeline.lms.embedded.small.actions import ActionTable, Goal
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.task_view import TaskView
from tests.support.samples import general

TABLE = ActionTable(TaskView(general()))
STREAMS = list(TABLE.table.inputs)


def goal(name: str, *sources: int) -> Goal:
    callee = next(callee for callee, routing in TABLE.callees_given if callee.fn.label == name and routing is None)
    return Goal(callee, None, sources, (1,) * len(sources))


def test_a_function_whose_operands_meet_is_applied_itself() -> None:
    """Its result is as the language types it."""
    (applied,) = [action for action in TABLE.towards(goal("fn_square", 0), STREAMS) if action.fns]
    assert (applied.sources, [fn.label for fn in applied.fns]) == ((0,), ["fn_square"])
    assert str(TABLE.table.types[applied.result]) == "fp32 [M, N]"


def test_operands_of_other_shapes_are_reshaped_first() -> None:
    """One structural primitive on one source at a time."""
    actions = list(TABLE.towards(goal("fn_mul", 0, 3), STREAMS))
    assert actions and not any(action.fns for action in actions)
    assert all(len(action.sources) == 1 and action.op is not None for action in actions)
    assert {action.sources[0] for action in actions} <= {0, 3}


def test_every_action_takes_the_newest_stream() -> None:
    """And none comes twice."""
    actions = list(TABLE.with_newest(STREAMS, [0] * 4, StepLimit(10**6)))
    structural = [action for action in actions if not action.fns]
    assert actions and len({(action.key, id(action.routing)) for action in actions}) == len(actions)
    assert any(3 in action.sources for action in structural)


def test_a_goal_moves_with_its_stream() -> None:
    """Every use of it."""
    assert goal("fn_mul", 0, 0).moved(0, 7).sources == (7, 7)
    assert goal("fn_mul", 0, 3).moved(3, 7).sources == (0, 7)


def test_an_output_needs_nothing_more() -> None:
    """Another stream may become one by structural primitives."""
    outputs = set(TABLE.table.outputs)
    assert TABLE.table.inputs[3] in outputs, "S0 has the type of E3"
    reached = [action.result for action in TABLE.towards_outputs(0, TABLE.table.inputs[0])]
    assert all(isinstance(result, int) for result in reached)
