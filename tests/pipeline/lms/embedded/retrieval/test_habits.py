"""Habits: what solved tasks suggest about folds, joins and routings, independent of names and ranks."""

from __future__ import annotations

from pipeline.lms.embedded.retrieval.applications import Form
from tests.support.habitual_tasks import ROUTED_VIEW, VIEW, folded, routed, taught

ONE_SOURCE = ((True,),)


def test_a_fold_is_supported_at_the_depth_of_like_folds() -> None:
    """Whatever the number of dims around it; nothing is supported without demonstrations."""
    (fn,) = VIEW.fns
    for shown in (folded(1), folded(1, "D, K")):
        habits = taught(VIEW, shown).habits
        assert habits.form(fn, "Scan", Form(1, ONE_SOURCE)) > 0.2
        assert habits.form(fn, "Scan", Form(2, ONE_SOURCE)) == 0.0 == habits.form(fn, "Accum", Form(1, ONE_SOURCE))
    assert taught(VIEW, folded(2)).habits.form(fn, "Scan", Form(2, ONE_SOURCE)) > 0.2
    assert taught(VIEW).habits.form(fn, "Scan", Form(1, ONE_SOURCE)) == 0.0


def test_the_function_that_merged_is_supported_as_the_merging_one() -> None:
    """By what it does; the other one, which folded, is not."""
    habits = taught(ROUTED_VIEW, routed("fn_low")).habits
    by_merge = {routing.merge.label: habits.merging(routing) for routing in ROUTED_VIEW.routings}
    assert by_merge["fn_add"] > 0.5 > by_merge["fn_low"]


def test_how_often_functions_of_a_routing_are_applied_alone_is_counted() -> None:
    """From a little without evidence, up where a solved task did so, and down where it did not."""
    before = taught(ROUTED_VIEW).habits.alone
    assert (
        taught(ROUTED_VIEW, routed("fn_low")).habits.alone < before < taught(ROUTED_VIEW, routed("fn_add")).habits.alone
    )
    assert taught(ROUTED_VIEW, routed("fn_add")).habits.several < before
