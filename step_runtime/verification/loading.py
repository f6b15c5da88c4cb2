"""Reads a task file and tries its code, so that one that cannot work is refused here."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import torch

from step_runtime.base.errors import TaskError
from step_runtime.base.shapes import format_sizes
from step_runtime.execution.invocation import Data, Watch
from step_runtime.tasks import yaml_format
from step_runtime.tasks.reader import loads_task, task_name, task_text
from step_runtime.tasks.task import Task, declared_shapes
from step_runtime.verification.compare import close
from step_runtime.verification.instance import TaskInstance, instances

_DRAWS = 5
"""Inputs that a reference is tried on: a choice among few outcomes may come out alike twice."""


def load_task(path: str | Path, name: str | None = None, *, watch: Watch | None = None) -> Task:
    """As `read_task`, and tries the task's code.

    That code, functions apart, is run at each set of sizes, in this process and without a limit of time; `watch` is
    told before.

    Raises:
        TaskError: the file cannot be read, is no valid task, or its code fails.

    Warns:
        UserWarning: a right program is not told from a wrong one: no input changes a reference output by more than the
            comparison's tolerance, a reference is random, or no set of sizes tells two dims apart.
    """
    text = task_text(Path(path))
    task = loads_task(text, name or task_name(Path(path)), source=str(path))
    try:
        for told in _doubts(task.named(str(path)), watch):
            warnings.warn(f"{path}: {told}", stacklevel=2)
    except TaskError as error:
        if not error.location:
            raise
        line = yaml_format.line_in(text, error.location)
        placed = f"{path}:{line}{str(error).removeprefix(str(path))}"
        raise type(error)(placed, error.location) from error.__cause__
    return task


def _doubts(task: Task, watch: Watch | None) -> Iterator[str]:
    """Runs the task's own code, functions apart, at each set of sizes; tells what makes its verdicts worth less.

    Raises:
        TaskError: a dim has no size, or the code fails or gives another shape than declared.
    """
    tried = instances(task, watch=watch)
    yield from _alike(task, [instance.sizes for instance in tried])
    for instance in tried:
        drawn = []
        for seed in range(_DRAWS):
            instance.draw(seed)
            drawn.append(instance.reference())
        for spec, *values in zip(task.outputs, *drawn, strict=True):
            told = _constant(values)
            if told is not None:
                yield f"output {spec.name} {told.format(format_sizes(instance.sizes))}"
    yield from _random(task, tried)


def _constant(values: Sequence[Data]) -> str | None:
    """What is to be said of an output's values for several inputs if they do not tell these apart."""
    pairs = [(a, b) for other in values[1:] for a, b in zip(values[0], other, strict=True)]
    if all(torch.equal(a, b) for a, b in pairs):
        return "does not depend on the inputs at {}: any constant would pass"
    if not all(close(a, b) for a, b in pairs):
        return None
    if all(bool(part.isnan().all()) for value in values for part in value):
        return "is NaN throughout at {}, whatever the inputs"
    return "changes with the inputs by less than the comparison's tolerance at {}: a constant would pass"


def _random(task: Task, tried: Sequence[TaskInstance]) -> Iterator[str]:
    """What is to be said of references that drew on torch's generator, and whose value depends on it."""
    drew = [instance for instance in tried if any(place[0] == "outputs" for place in instance.random)]
    pairs = [_at_other_seeds(instance) for instance in drew]
    for index, spec in enumerate(task.outputs):
        if not all(close(*parts) for one, other in pairs for parts in zip(one[index], other[index], strict=True)):
            yield f"reference of output {spec.name} draws random numbers, which no program can match"


def _at_other_seeds(instance: TaskInstance) -> tuple[list[Data], list[Data]]:
    instance.draw(0)
    values = instance.reference()
    instance.seed = 1
    return values, instance.reference()


def _alike(task: Task, sets: Sequence[dict[str, int]]) -> Iterator[str]:
    """What the sets of sizes do not tell apart, of the dims that the task uses."""
    used = sorted({symbol.name for dims in declared_shapes(task) for dim in dims for symbol in dim.value.free_symbols})
    for one, other in combinations(used, 2):
        if all(sizes[one] == sizes[other] for sizes in sets):
            values = " and ".join(dict.fromkeys(str(sizes[one]) for sizes in sets))
            told = f"{one} and {other} are both {values} at every set of sizes"
            yield f"{told}: a program that takes one for the other may pass"
