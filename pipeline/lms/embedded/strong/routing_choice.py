"""Which routings a draft has, and which functions it may apply alone beside them."""

from __future__ import annotations

from pipeline.lms.embedded.draft import Routing
from pipeline.lms.embedded.operands import Callee
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.retrieval.habits import Habits
from pipeline.lms.embedded.task_view import TaskView

_MERGING = 6.0
"""The score of a routing whose merging function merges in a solved task of full relevance."""
_UNROUTED = 0.04
"""How often functions that could be routed are applied on their own,"""
_BOTH = 0.75
"""and how often there is a second routing where it could consist of none of the first one's functions."""
_SELECTED = 0.8
"""How often an index that may select streams does, where no routing takes it,"""
_SELECTED_TOO = 0.15
"""and where some take it."""


def choose_callees(view: TaskView, habits: Habits, choice: SeededChoice) -> list[tuple[Callee, Routing | None]]:
    """What a draft may apply: functions, and routings, of which there are none, one or two.

    Solved tasks suggest the merging function, whether there are two routings of one merging function, and whether
    functions of a routing are also applied alone. Two routings otherwise have no function in common. A selection is the
    only one: its branches are applied alone.
    """
    if view.selections and choice.happens(_SELECTED_TOO if view.routings else _SELECTED):
        return view.callees_given((choice.any_of(view.selections),), also_alone=choice.happens(habits.alone))
    if not view.routings or choice.happens(_UNROUTED):
        return view.callees_given(())
    first = choice.pick(view.routings, [_MERGING * habits.merging(routing) for routing in view.routings])
    apart = [each for each in view.routings if first.functions.isdisjoint(each.functions)]
    others = [each for each in view.routings if each is not first and each.merge is first.merge]
    second: tuple[Routing, ...] = ()
    if apart and choice.happens(_BOTH):
        second = (choice.any_of(apart),)
    elif others and choice.happens(habits.several):
        second = (choice.any_of(others),)
    return view.callees_given((first, *second), also_alone=choice.happens(habits.alone))
