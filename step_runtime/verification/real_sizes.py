"""A program beside its reference at sizes of real use, in the task's formats: its errors in units of the last place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from step_runtime.base.errors import Diagnostic, TaskError
from step_runtime.execution.invocation import BeforeRun
from step_runtime.execution.number_formats import exact
from step_runtime.language.parser import read
from step_runtime.program.limits import Limits
from step_runtime.tasks.task import Task
from step_runtime.verification.check import check_program
from step_runtime.verification.compare import mismatch
from step_runtime.verification.instance import TaskInstance
from step_runtime.verification.simulate import NodeError
from step_runtime.verification.stress import Case, run_case, single, tolerated

_MOST_NUMBERS = 2**10
"""How many times as many numbers the streams of a program may carry here."""


@dataclass(frozen=True)
class SizeError:
    """The largest error of an output, in units of the last place of its largest number.

    Attributes:
        output: Its name.
        place: The sizes.
        ulps: The program's error, from the reference in float64.
        reference: The error of the reference in the task's formats.
        bound: What a program may be off by.
    """

    output: str
    place: str
    ulps: float
    reference: float
    bound: float

    def render(self) -> str:
        """A line for people."""
        figures = f"{self.ulps:,.3g} ulp; the reference {self.reference:,.3g}; bound {self.bound:,.4g}"
        return f"at {self.place}: output {self.output} is off by at most {figures}"


def errors_at(
    task: Task, text: str, changes: Mapping[str, int], limits: Limits, before_run: BeforeRun | None = None
) -> tuple[list[SizeError], list[Diagnostic]]:
    """The errors of a program at the task's first sizes with some changed, and what is wrong with it there.

    It is compared in float64, within the tolerance of any verdict, and in the task's formats, fp32 in float32.

    Raises:
        TaskError: The task has no such dim, or its code fails there.
    """
    own = task.size_sets()[0]
    if unknown := sorted(changes.keys() - own.keys()):
        raise TaskError(f"{task.name}: no dim {unknown[0]}; expected one of {', '.join(own)}")
    wide, narrow = (
        TaskInstance(task, {**own, **changes}, dtype=dtype, before_run=before_run)
        for dtype in (torch.float64, torch.float32)
    )
    # Time and memory bound it: most of these numbers are views.
    limits = replace(limits, numbers=_MOST_NUMBERS * limits.numbers)
    where, found = f"at {wide.place}, seed 0", list[SizeError]()
    cases = []
    for each in (wide, narrow):
        checked = check_program(read(text, limits), each.scope, limits, each.dtype.itemsize)
        if checked.found:
            return [], list(checked.found)
        cases.append(Case(checked.program, checked.types, each))
    data = {name: tuple(map(single, parts)) for name, parts in wide.sampled(0).items()}
    inputs = [case.instance.use_inputs(data) for case in cases]
    truth, reference = wide.reference(), narrow.reference()
    try:
        precise, rounded = (run_case(*pair, limits) for pair in zip(cases, inputs, strict=True))
    except NodeError as error:
        return [], [error.diagnostic(where)]
    wrong = mismatch(task, precise, truth, cases[0].program.result_span, where)
    if wrong is not None:
        return [], [wrong]
    diagnostics = []
    for number, spec in enumerate(task.outputs):
        for parts in zip(truth[number], reference[number], rounded[number], strict=True):
            right, given, made = (exact(part).to(torch.float64) for part in parts)
            unit = torch.finfo(parts[2].dtype).eps * float(right.abs().max()) if parts[2].is_floating_point() else 1.0
            off, own_off = (float((each - right).abs().max()) / max(unit, 1e-300) for each in (made, given))
            bound = tolerated(own_off * unit, float(right.abs().max()), task, parts[0]) / max(unit, 1e-300)
            found.append(SizeError(spec.name, wide.place, off, own_off, bound))
            if not off <= bound:
                message = f"output {spec.name} is off by {off:,.3g} units in the last place; the bound is {bound:,.4g}"
                span = cases[0].program.result_span
                diagnostics.append(Diagnostic("stress", "stress-accuracy", message, span, (where,)))
    return found, diagnostics
