"""Reads a task file and runs its code, so that a task that cannot work is rejected early."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

import torch

from step_runtime.base.errors import TaskCodeError, TaskError, TaskWarning
from step_runtime.execution.invocation import BeforeRun, Data
from step_runtime.execution.number_formats import same_numbers
from step_runtime.tasks.reader import read_task_file, task_in, task_name
from step_runtime.tasks.task import Task, declared_shapes
from step_runtime.verification.compare import close
from step_runtime.verification.depth import is_small, negligible_ends
from step_runtime.verification.doubts import (
    agree,
    assumptions,
    boolean_functions,
    fixed_dims,
    simpler_references,
    unstressed,
    unvaried_data,
)
from step_runtime.verification.instance import TaskInstance, instances
from step_runtime.verification.trials import function_trials

_ACCEPTED = re.compile(r"\s#\s*accepted:([\w\s,-]+)")
_SAMPLES = 5
"""Inputs that a reference is computed on: if few outcomes are possible, two may agree by chance."""
_RUNS = 6
"""Runs of a reference on one input: one that chooses between two values at random agrees with itself in one of 32."""


def load_task(path: str | Path, name: str | None = None, *, before_run: BeforeRun | None = None) -> Task:
    """Reads a task file as `read_task` does, and runs the task's code, its functions on an element each.

    The code is run at each set of sizes, in this process and without a time limit; `before_run` is called before.

    Raises:
        TaskError: The file cannot be read, is not a valid task, or its code fails.

    Warns:
        TaskWarning: A wrong program may pass, or a right one fail: no input changes a reference output by more than the
            comparison's tolerance, none depends on one of the inputs, a reference is random, two dims are equal at
            every set of sizes; or as in `doubts` and `trials`.
    """
    source = read_task_file(Path(path))
    task = task_in(source, name or task_name(Path(path)))
    try:
        for warning in _warnings(task.named(str(path)), before_run):
            line = source.own_line(warning.location)
            if warning.code not in _accepted(source.text, line):
                warnings.warn(warning.placed(str(path), line), stacklevel=2)
    except TaskError as error:
        if not error.location:
            raise
        placed = f"{path}:{source.own_line(error.location)}{str(error).removeprefix(str(path))}"
        raise type(error)(placed, error.location) from error.__cause__
    return task


def _accepted(text: str, line: int) -> list[str]:
    """The codes of warnings that a comment at the end of a line accepts: `# accepted: constant-input`."""
    found = _ACCEPTED.search(text.split("\n")[line - 1])
    return re.findall(r"[\w-]+", found[1]) if found else []


def _warnings(task: Task, before_run: BeforeRun | None) -> Iterator[TaskWarning]:
    """Runs the task's code at each set of sizes; returns what makes its verdicts unreliable."""
    tried, doubted = instances(task, before_run=before_run), False
    sets = [instance.sizes for instance in tried]
    yield from _equal_dims(task, sets)
    yield from fixed_dims(task, sets)
    yield from boolean_functions(task)
    yield from function_trials(task, tried)
    yield from assumptions(tried[0])
    yield from unstressed(tried[0])
    for instance in tried:
        for index, (spec, values) in enumerate(zip(task.outputs, zip(*_outcomes(instance), strict=True), strict=True)):
            problem = _constant(values)
            if problem is not None:
                doubted = True
                message = f"output {spec.name} {problem.format(instance.place)}"
                yield TaskWarning("constant-output", message, ("outputs", index))
            elif missing := _missing(values):
                message = (
                    f"output {spec.name} is NaN for some inputs, in {missing} numbers at {instance.place}: a program"
                    " that gives NaN there passes"
                )
                yield TaskWarning("nan-output", message, ("outputs", index))
    random = list(_random(task, tried, before_run))
    yield from random
    if not doubted and not random:
        yield from _unread(task, tried[0])
        yield from unvaried_data(task, tried)
        yield from simpler_references(tried, _SAMPLES)
        yield from negligible_ends(task, tried)


def _outcomes(instance: TaskInstance) -> list[list[Data]]:
    """The references of several inputs; no more of them once every output has two that differ."""
    found: list[list[Data]] = []
    for seed in range(_SAMPLES):
        instance.sample_inputs(seed)
        found.append(instance.reference())
        if not any(map(agree, found[0], found[-1])):
            break
    return found


def _constant(values: Sequence[Data]) -> str | None:
    """The problem with an output whose values do not distinguish several inputs, or None."""
    pairs = [(a, b) for other in values[1:] for a, b in zip(values[0], other, strict=True)]
    if all(torch.equal(a, b) for a, b in pairs):
        return "does not depend on the inputs at {}: any constant would pass"
    if not all(close(a, b) for a, b in pairs):
        return None
    if all(bool(part.isnan().all()) for value in values for part in value):
        return "is NaN throughout at {} for every input"
    return "changes with the inputs by less than the comparison's tolerance at {}: a constant would pass"


def _missing(values: Sequence[Data]) -> str:
    """How many numbers of an output are NaN, where the inputs decide which; empty where they do not."""
    masks = [[part.isnan() for part in value] for value in values]
    if all(all(map(torch.equal, masks[0], other)) for other in masks[1:]):
        return ""
    count, all_ = max((sum(int(part.sum()) for part in mask), sum(part.numel() for part in mask)) for mask in masks)
    return f"{count} of {all_}"


def _unread(task: Task, instance: TaskInstance) -> Iterator[TaskWarning]:
    """Inputs that no output depends on: a program may treat them as it likes."""
    instance.sample_inputs(0)
    values = instance.reference()
    for index, spec in enumerate(task.inputs):
        if not instance.change_input(spec):
            continue
        try:
            others = instance.reference()
        except TaskCodeError:  # it has read the input, then
            continue
        if all(map(agree, values, others)):
            message = f"no output depends on input {spec.name}: a program may use it in any way and pass"
            yield TaskWarning("unread-input", message, ("inputs", index))


def _random(task: Task, tried: Sequence[TaskInstance], before_run: BeforeRun | None) -> Iterator[TaskWarning]:
    """The references that use torch's generator and whose value depends on it, and those with others for one input."""
    random = [instance for instance in tried if any(place[0] == "outputs" for place in instance.random)]
    pairs = [_at_other_seeds(instance) for instance in random]
    runs = _again(task, min(range(len(tried)), key=lambda index: sum(tried[index].sizes.values())), before_run)
    for index, spec in enumerate(task.outputs):
        elsewhere, first, *again = (run[index] for run in runs)
        if not all(agree(one[index], other[index]) for one, other in pairs):
            message = f"reference of output {spec.name} uses random numbers, which no program can match"
            yield TaskWarning("random-reference", message, ("outputs", index))
        elif not all(all(map(same_numbers, first, other)) for other in again):
            message = (
                f"reference of output {spec.name} gives other values for the same inputs when it runs again, which no"
                " program can match: it uses random numbers or the time, or keeps state between calls"
            )
            yield TaskWarning("random-reference", message, ("outputs", index))
        elif not all(map(same_numbers, first, elsewhere)):
            message = (
                f"reference of output {spec.name} gives other values for the same inputs when `global` runs again:"
                " draw random numbers by torch, whose seed is set before"
            )
            yield TaskWarning("random-reference", message, ("outputs", index))


def _again(task: Task, index: int, before_run: BeforeRun | None) -> list[list[Data]]:
    """The references for one input at a set of sizes: with one run of `global`, then with another, several times."""
    runs = []
    for _ in range(2):
        instance = TaskInstance(task, task.size_sets()[index], before_run=before_run)
        instance.sample_inputs(0)
        runs.append(instance.reference())
    for _ in range(_RUNS - 1 if is_small(instance) else 1):
        instance.sample_inputs(0)
        runs.append(instance.reference())
    return runs


def _at_other_seeds(instance: TaskInstance) -> tuple[list[Data], list[Data]]:
    instance.sample_inputs(0)
    values = instance.reference()
    instance.seed = 1
    return values, instance.reference()


def _equal_dims(task: Task, sets: Sequence[dict[str, int]]) -> Iterator[TaskWarning]:
    """The dims that the task uses and that are equal at every set of sizes."""
    used = sorted({symbol.name for dims in declared_shapes(task) for dim in dims for symbol in dim.value.free_symbols})
    for one, other in combinations(used, 2):
        if all(sizes[one] == sizes[other] for sizes in sets):
            values = " and ".join(dict.fromkeys(str(sizes[one]) for sizes in sets))
            equal = f"{one} and {other} are both {values} at every set of sizes"
            yield TaskWarning("equal-dims", f"{equal}: a program that takes one for the other may pass", ("sizes",))
