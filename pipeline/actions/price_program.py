"""Programs of one task: their costs, cheaper rewrites, and their pytest script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from pipeline.base.errors import UsageError, print_message
from pipeline.base.text import counted
from pipeline.cli.cost_tables import aligned, cost_json
from pipeline.cli.options import Item
from pipeline.verification.limits import verification_pool
from pipeline.verification.metric import Metric
from pipeline.verification.pricing import pricing
from pipeline.verification.task_files import load_task_named, scopes, task_errors
from step_runtime.base.errors import ChipError, Diagnostic
from step_runtime.base.units import Figure
from step_runtime.codegen import generate_test
from step_runtime.cost.calibration import fitted, predicted, read_measured
from step_runtime.cost.chip import DEFAULT_CHIP, Chip, load_chip
from step_runtime.rewriting.optimizing import Explored, Variant
from step_runtime.tasks import yaml_format
from step_runtime.tasks.task import Task
from step_runtime.verification.task_costs import Priced
from step_runtime.verification.verdict import Verdict


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


def calibrated(measured: str, chip: str | None) -> str:
    """A chip's YAML file, fitted to measured kernels, with the error of each as a comment.

    Raises:
        UsageError: The file holds no measured kernels, or no chip fits them.
    """
    try:
        rows = read_measured(Path(measured))
        found = fitted(rows, chip_of(chip, None))
    except ChipError as error:
        raise UsageError(str(error)) from None
    table = [["kernel", "measured", "model", "error"]]
    for row in rows:
        cycles = predicted(row, found)
        off = f"{cycles - row.cycles:+,} ({(cycles - row.cycles) / max(row.cycles, 1):+.1%})"
        table.append([row.kernel, f"{row.cycles:,}", f"{cycles:,}", off])
    lines = [f"# {line}" for line in aligned(table, right={1, 2, 3})]
    return "\n".join([*lines, yaml_format.dump(found.model_dump(exclude_defaults=True, exclude_none=True)).rstrip()])


def price_programs(
    task: Task, programs: Sequence[tuple[str, str]], chip: Chip, changes: Mapping[str, int]
) -> list[Subject]:
    """The costs of programs, given by name and text.

    Raises:
        UsageError: The task's code fails, or the task has no such sizes.
    """
    with pricing(task, chip, "pipeline.cost") as workers:
        return [Subject(name, text, workers.price(text, changes)) for name, text in programs]


_OPTIMIZE = "pipeline.optimize"
_PRICED, _TRIED = 200, 8
"""Programs that are priced at most, and cheaper ones that are verified before the given one is kept."""


class Optimized(NamedTuple):
    """The result for a program.

    Attributes:
        given: The given program, without needless Copies.
        best: The cheapest verified program.
        refused: Cheaper programs that verification, under stress too, did not accept.
        left: By function, why its folds were neither merged nor split.
        findings: What `pipeline.verify` warns of in the program found.
    """

    given: Variant
    best: Variant
    programs: int
    refused: int
    left: Mapping[str, str] = MappingProxyType({})
    findings: tuple[Diagnostic, ...] = ()


def optimize(task: Task, text: str, objective: Figure) -> Optimized | Verdict:
    """The cheapest program that rewrites lead to, or the verdict on a program that is wrong itself.

    Raises:
        UsageError: The task's code fails.
    """
    with verification_pool(1) as judges:
        metric = Metric(judges)
        with task_errors(task.name):
            own = metric.verdict(task, text)
            if not own.passed:
                return own
        with pricing(task, DEFAULT_CHIP, _OPTIMIZE) as workers:
            found = workers.explored(text, objective, _PRICED)
        if not isinstance(found, Explored):
            raise UsageError(found[0].render(text, task.name))
        given = next(variant for variant in found.variants if not variant.rewrites)
        better, accepts = found.variants[: found.variants.index(given)], metric.replaces(task, text)
        best, refused = given, 0
        if better:
            priced = counted(len(found.variants), "program")
            print_message(_OPTIMIZE, f"{priced} priced, {len(better)} of them cheaper; they are being verified")
        with task_errors(task.name):
            for variant in better[:_TRIED]:
                if accepts(variant.text):
                    best = variant
                    break
                refused += 1
            findings = metric.findings(task, best.text)
    return Optimized(given, best, len(found.variants), refused, found.left, findings)


def cost_of(item: Item) -> dict[str, Any]:
    """The cost of a passing program on the default chip, as JSON.

    Raises:
        UsageError: The task's code fails.
    """
    task = load_task_named(str(item.task))
    name = task.name if item.program in (None, "-") else str(item.program)
    text = str(task.impl if item.text is None else item.text)
    [subject] = price_programs(task, [(name, text)], DEFAULT_CHIP, {})
    if isinstance(subject.priced, tuple):
        raise UsageError(subject.priced[0].render(text, name))
    return cost_json(subject.priced, name, DEFAULT_CHIP.name)


def pytest_script(item: Item) -> str:
    """A self-contained pytest script that passes or fails as the verifier does.

    Raises:
        UsageError: The task's code fails.
    """
    task = load_task_named(str(item.task))
    return generate_test(task, str(task.impl if item.text is None else item.text), scopes=scopes(task))
