"""`pipeline.cost`, `pipeline.verify --cost` and `pipeline.optimize`: what programs cost the chip, and cheaper ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pipeline.base.errors import UsageError
from pipeline.verification.costs import pricing
from pipeline.verification.task_files import verdict
from step_runtime.base.errors import ChipError
from step_runtime.cost.chip import DEFAULT_CHIP, Chip, load_chip

if TYPE_CHECKING:
    from step_runtime.base.errors import Diagnostic
    from step_runtime.base.measures import Figure
    from step_runtime.rewriting.optimizing import Variant
    from step_runtime.tasks.task import Task
    from step_runtime.verification.costing import Priced
    from step_runtime.verification.verify import Verdict


class Subject(NamedTuple):
    """A program to price: its name for reports, its text, and its cost, or why it has none."""

    name: str
    text: str
    priced: Priced | tuple[Diagnostic, ...]


def chip_of(path: str | None, sram: int | None) -> Chip:
    """The chip in a file, or the default one, with another size of memory if one is given.

    Raises:
        UsageError: The file describes no chip.
    """
    try:
        chip = DEFAULT_CHIP if path is None else load_chip(Path(path))
    except ChipError as error:
        raise UsageError(str(error)) from None
    return chip if sram is None else chip.model_copy(update={"sram": sram})


def price_programs(
    task: Task, programs: Sequence[tuple[str, str]], chip: Chip, changes: Mapping[str, int]
) -> list[Subject]:
    """The costs of programs, given by name and text.

    Raises:
        UsageError: The task's code fails, or the task has no such sizes.
    """
    with pricing(task, chip) as workers:
        return [Subject(name, text, workers.price(text, changes)) for name, text in programs]


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
