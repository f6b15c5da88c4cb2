"""`pipeline.optimize`: rewrites of one program, the cheapest that verification accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pipeline.base.errors import UsageError
from pipeline.verification.costs import pricing
from pipeline.verification.task_files import verdict

if TYPE_CHECKING:
    from step_runtime.base.measures import Figure
    from step_runtime.cost.chip import Chip
    from step_runtime.rewriting.search import Variant
    from step_runtime.tasks.task import Task
    from step_runtime.verification.verify import Verdict

_TRIED = 8
"""Cheaper programs that are verified before the given one is kept."""


class Optimized(NamedTuple):
    """What came of a program.

    Attributes:
        given: The given program, without needless Copies.
        best: The cheapest verified program.
        refused: Cheaper programs that verification did not accept.
    """

    given: Variant
    best: Variant
    programs: int
    refused: int


def optimize(task: Task, text: str, objective: Figure, chip: Chip, limit: int) -> Optimized | Verdict:
    """The cheapest program that rewrites lead to, or the verdict on a program that is wrong itself.

    Raises:
        UsageError: The task's code fails.
    """
    own = verdict(task, text)
    if not own.passed:
        return own
    with pricing(task, chip) as workers:
        found = workers.rewritten(text, objective, limit)
    if isinstance(found, tuple):
        raise UsageError(found[0].render(text, task.name))
    given = next(variant for variant in found if not variant.rewrites)
    better = found[: found.index(given)]
    refused = 0
    for variant in better[:_TRIED]:
        if verdict(task, variant.text).passed:
            return Optimized(given, variant, len(found), refused)
        refused += 1
    return Optimized(given, given, len(found), refused)
