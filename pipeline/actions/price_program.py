"""`pipeline.cost`, and `pipeline.verify --cost`: what programs cost the chip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pipeline.base.errors import UsageError
from pipeline.verification.costs import pricing
from step_runtime.base.errors import ChipError
from step_runtime.cost.chip import DEFAULT_CHIP, Chip, load_chip

if TYPE_CHECKING:
    from step_runtime.base.errors import Diagnostic
    from step_runtime.tasks.task import Task
    from step_runtime.verification.costing import Priced


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
