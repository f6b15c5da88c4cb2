"""Operands that a function takes in any order: programs that differ in it are one."""

from __future__ import annotations

from pipeline.lms.embedded.operands import Callee
from pipeline.lms.embedded.task_view import TaskView


def partners(view: TaskView, callee: Callee) -> tuple[int, ...]:
    """For each component that a callee needs, the last one before it that may change places with it, or -1."""
    need, found = callee.need, list[int]()
    for place, dtype in enumerate(need):
        like = [other for other in range(place) if need[other] == dtype and not callee.routed]
        found.append(next((other for other in reversed(like) if _exchanges(view, callee, other, place)), -1))
    return tuple(found)


def _exchanges(view: TaskView, callee: Callee, one: int, other: int) -> bool:
    """Whether formulas, which have no dims, and positions, which have no formulas, both say so."""
    fn = callee.fn
    return view.interpretation.exchanges(fn, one, other) and view.influence.exchanges(fn.label, one, other)
