"""What solved tasks recommend for a program as it grows."""

from __future__ import annotations

from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.retrieval.precedents import Precedents
from pipeline.lms.embedded.retrieval.recommender import Recommender, choose_order
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.task_view import TaskView
from tests.support.benchmark_tasks import oracle, task_named


def recommender(name: str, *shown: str) -> tuple[Recommender, TaskView]:
    view = TaskView(task_named(name))
    precedents = Precedents(view.task, view.scope, [oracle(one) for one in shown])
    callees = [(callee, None) for callee in view.callees]
    return Recommender(precedents, list(view.table.inputs), callees, StepLimit(10**6)), view


def test_what_a_like_task_applies_to_its_inputs_is_recommended() -> None:
    """With nothing shown there is nothing to recommend."""
    found, view = recommender("rope/0", "rope/1")
    given = found.recommendations()
    assert given and all(each.support > 0 and set(each.operands.sources) <= {0, 1} for each in given)
    assert {each.callee.fn.label for each in given} <= {fn.label for fn in view.fns}
    assert recommender("rope/0")[0].recommendations() == []


def test_what_was_rejected_is_not_recommended_again() -> None:
    """Others still are."""
    found, _ = recommender("rope/0", "rope/1")
    first, *others = found.recommendations()
    found.rejected(first)
    assert first not in found.recommendations()
    assert all(each in found.recommendations() for each in others if each.callee is not first.callee)


def test_a_fold_says_whether_it_scans() -> None:
    """A function without a state does not say."""
    found, _ = recommender("rope/0", "rope/1")
    for each in found.recommendations():
        assert each.scan is (each.how.startswith("Scan") if each.callee.fn.stateful else None)


def test_branches_are_ordered_as_those_of_a_like_task() -> None:
    """However they are listed."""
    view = TaskView(task_named("etoe/0"))
    (routing,) = view.routings
    precedents = Precedents(view.task, view.scope, [oracle("etoe/1")])
    best = choose_order(routing, precedents, SeededChoice(0, 1e6))
    assert [fn.label for fn in best if fn is not None] == ["fn_expert0", "fn_expert1", "fn_expert2"]
