"""Routings and the functions beside them are chosen as solved tasks suggest."""

from __future__ import annotations

from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.retrieval.precedents import Precedents
from pipeline.lms.embedded.strong.routing_choice import choose_callees
from pipeline.lms.embedded.task_view import TaskView
from step_runtime.tasks.reader import loads_task
from tests.support.habitual_tasks import EXIT, ROUTED_VIEW, TWICE_ROUTED, VIEW, routed, taught


def merging(known: Precedents) -> list[str]:
    """The merging functions of many choices."""
    choices = (choose_callees(ROUTED_VIEW, known.habits, SeededChoice(seed, 1.0)) for seed in range(60))
    return [routing.merge.label for given in choices for _, routing in given if routing is not None]


def test_the_merging_function_of_a_solved_task_merges() -> None:
    """Mostly; without one, either may."""
    alone, after = merging(taught(ROUTED_VIEW)), merging(taught(ROUTED_VIEW, routed("fn_low")))
    assert 0.25 < alone.count("fn_add") / len(alone) < 0.75
    assert after.count("fn_add") / len(after) > 0.9


def test_a_function_that_merges_may_be_applied_alone_as_well() -> None:
    """More often where a solved task does so."""

    def both(known: Precedents) -> int:
        return sum(
            len(choose_callees(ROUTED_VIEW, known.habits, SeededChoice(seed, 1.0))) > len(ROUTED_VIEW.fns)
            for seed in range(60)
        )

    assert 0 < both(taught(ROUTED_VIEW)) < both(taught(ROUTED_VIEW, routed("fn_add")))


def test_without_routings_all_functions_are_applied_alone() -> None:
    """Whatever is shown."""
    given = choose_callees(VIEW, taught(VIEW, routed("fn_add")).habits, SeededChoice(0, 1.0))
    assert [(callee.fn.label, routing) for callee, routing in given] == [("fn_fold", None)]


def test_routings_without_a_common_function_are_mostly_both_given() -> None:
    """Each function is then applied by one of them, although they are merged by two."""
    view = TaskView(loads_task(TWICE_ROUTED))
    habits = taught(view).habits
    choices = [choose_callees(view, habits, SeededChoice(seed, 1.0)) for seed in range(60)]
    both = [[routing for _, routing in given if routing is not None] for given in choices]
    assert sum(len(routings) == 2 for routings in both) > 30
    assert {len({routing.merge for routing in routings}) for routings in both if len(routings) == 2} == {2}


def test_streams_are_selected_in_some_drafts() -> None:
    """All functions but the merging one are then applied alone."""
    view = TaskView(loads_task(EXIT))
    habits = taught(view).habits
    choices = [choose_callees(view, habits, SeededChoice(seed, 1.0)) for seed in range(60)]
    selecting = [given for given in choices if any(routing is not None and routing.selects for _, routing in given)]
    assert 0 < len(selecting) < 30
    assert all(sum(routing is None for _, routing in given) >= 3 for given in selecting)
