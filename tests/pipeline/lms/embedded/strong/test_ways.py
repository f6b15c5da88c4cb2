"""Ways to apply functions are found once for all samples of a task."""

from __future__ import annotations

from pipeline.lms.embedded.draft import Draft
from pipeline.lms.embedded.operands import Operands
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.strong.move_builder import MoveBuilder
from pipeline.lms.embedded.strong.strong_proposer import learned_for
from pipeline.lms.embedded.strong.ways import MoveMemory
from pipeline.lms.embedded.task_view import TaskView
from tests.support.samples import general

VIEW = TaskView(general())
SUM = next(callee for callee in VIEW.callees if callee.fn.label == "fn_sum")
ROUTING = VIEW.routings[0]


def test_what_is_remembered_takes_the_same_steps() -> None:
    """A sample gives the same moves after the same steps, whether another one asked before or not."""
    memory = MoveMemory()
    edges = learned_for(VIEW, ((), ())).edge_model
    found = []
    for _ in range(2):
        steps, draft = StepLimit(10**6), Draft.start(VIEW.table.inputs)
        builder = MoveBuilder(VIEW, edges, SeededChoice(0, 1.0), steps, read=False, memory=memory)
        routed = VIEW.routing_callees[id(ROUTING)]
        route = builder.route_variants(draft.streams, routed, ROUTING, Operands((3, 2), (1, 1)))
        ways = builder.variants(draft.streams, SUM, Operands((0,), (1,)))
        move = builder.apply(draft, SUM, Operands((0,), (1,)), left=frozenset(VIEW.fns))
        found.append((route, ways, move, steps.used))
    assert memory.ways and found[0] == found[1]
