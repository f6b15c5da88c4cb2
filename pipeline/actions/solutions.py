"""The program of a task that `pipeline.generate` offers: simplified, the cheapest where a figure is asked for."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.base.choices import Figure, Objective
from pipeline.base.errors import UsageError
from pipeline.base.files import write_text
from pipeline.base.languages import DEFAULT
from pipeline.languages.language import Task as AnyTask
from pipeline.rewriting.simplification import annotated, simplified
from pipeline.verification.metric import Metric
from pipeline.verification.pricing import Pricing
from step_runtime.base.errors import Diagnostic, TaskError
from step_runtime.base.units import figures_key
from step_runtime.cost.chip import DEFAULT_CHIP
from step_runtime.rewriting.optimizing import Explored
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task

PRICED = 60
"""Programs that are priced around a verified one, where a figure is asked for."""
_VERIFIED = 8
"""Rewritten programs that are verified, the cheapest first, at most."""


class Found(NamedTuple):
    """A program that passed: its text, what found it, and how, in words."""

    text: str
    by: str
    detail: str


@dataclass(frozen=True)
class Solution:
    """A verified program.

    `draft` is what was found, `impl` what became of it; `figures` are what that costs on the default chip, if it was
    priced, and `findings` what `pipeline.verify` warns of in it.
    """

    impl: str
    draft: str
    by: str
    detail: str
    rewrites: tuple[str, ...] = ()
    figures: Mapping[Figure, float] = field(default_factory=dict)
    findings: tuple[Diagnostic, ...] = ()


class Solutions:
    """Makes solutions of programs that passed; with an objective other than `correctness`, cheap ones."""

    def __init__(self, objective: Objective, metric: Metric) -> None:
        self.figure: Figure | None = None if objective == "correctness" else objective
        self.metric = metric

    def of(self, task: Any, found: Found) -> Solution:
        """The program, simplified where the language does that, or the cheapest rewrite that passes as it does."""
        is_step, impl = self.metric.language.name == DEFAULT, found.text
        if is_step:
            impl = simplified(task, impl, self.metric.replaces(task, impl))
        solution = Solution(impl, *found, findings=self.metric.findings(task, impl))
        if self.figure is None or not is_step:
            return solution
        try:
            explored = Pricing(task, DEFAULT_CHIP, self.metric.executor).explored(impl, self.figure, PRICED)
        except UsageError:
            return solution
        if not isinstance(explored, Explored):
            return solution
        own = next(each for each in explored.variants if not each.rewrites)
        costs = [(figures_key(each.cost.figures(), self.figure), each) for each in explored.variants]
        least = figures_key(own.cost.figures(), self.figure)
        cheaper = sorted((pair for pair in costs if pair[0] < least), key=lambda pair: pair[0])
        passes = self.metric.replaces(task, found.text)
        for _, variant in cheaper[:_VERIFIED]:
            text, figures = annotated(task, variant.text), dict(variant.cost.figures())
            if passes(text):
                findings = self.metric.findings(task, text)
                return replace(solution, impl=text, rewrites=variant.rewrites, figures=figures, findings=findings)
        return replace(solution, figures=dict(own.cost.figures()))

    def better(self, one: Solution | None, other: Solution) -> Solution:
        """The one without findings, else the cheaper, else the first."""
        return other if one is None else min(one, other, key=self._rank)

    def _rank(self, solution: Solution) -> tuple[object, ...]:
        cost = figures_key(solution.figures, self.figure) if self.figure and solution.figures else ()
        return bool(solution.findings), not cost, cost


def write_solution(task: AnyTask, impl: str, files: Sequence[Path], text: str | None = None) -> None:
    """Writes a task's program, alone or with its task by the file's suffix.

    Comments and layout of the task file's `text` are kept.
    """
    for path in files:
        write_text(path, solved_text(task, impl, text) if path.suffix == ".yaml" else impl.rstrip() + "\n")


def solved_text(task: AnyTask, impl: str, text: str | None = None) -> str:
    """The task with its program as `impl`, as YAML: the task's own text where that is possible."""
    if text is not None and isinstance(task, Task):
        text = re.sub(r"^impl:.*\n(?:(?:[ \t].*)?\n)*", "", f"{text.rstrip()}\n", flags=re.MULTILINE)
        own = f"{text.rstrip()}\n\nimpl: |\n{textwrap.indent(impl.rstrip(), '  ')}\n"
        try:
            found = loads_task(own, task.name)
        except TaskError:  # its layout leaves no place for a program
            return task.text_with(impl)
        if found.without_impl() == task.without_impl() and (found.impl or "").strip() == impl.strip():
            return own
    return task.text_with(impl)
