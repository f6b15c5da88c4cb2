"""A task's functions, tried once on their declared types, before any program uses them."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from step_runtime.base.errors import TaskCodeError, TaskWarning
from step_runtime.base.functions import Fn
from step_runtime.base.syntax import parse_python
from step_runtime.base.types import Element, Multihot, components_of
from step_runtime.execution.invocation import Data, apply, element_layout, initial
from step_runtime.execution.number_formats import element_type, same_numbers
from step_runtime.tasks.task import FnSpec, Task
from step_runtime.tasks.yaml_format import Location
from step_runtime.verification.instance import TaskInstance

_ELEMENTS = 4
"""Elements that a function has to fail on, each with other numbers, before it counts as one that always fails."""

_RUNS = 6
"""Runs of a function on one element, all of which have to agree."""

_OF_NUMBERS = (ValueError, ArithmeticError, AssertionError, torch.linalg.LinAlgError)  # type: ignore[attr-defined]
"""What code raises that takes other numbers, such as a matrix that is positive definite."""


def function_trials(task: Task, tried: Sequence[TaskInstance]) -> Iterator[TaskWarning]:
    """Runs each function on elements of its declared types, at each set of sizes.

    Gives those that may take other numbers than were tried, those that give other results for one element, and the
    inputs that functions read by name.

    Raises:
        TaskCodeError: A function fails on all elements, or returns something other than it declares.
    """
    inputs = {spec.name for spec in task.inputs}
    for index, spec in enumerate(task.fns):
        location, named = ("fns", index, "apply"), _named(spec)
        doubt: TaskCodeError | None = None
        random = False
        for instance in tried:
            instance.sample_inputs(0)
            with instance.reads() as read:
                outcome = _outcome(instance, instance.fns[spec.func_name], location)
            doubt = doubt or (outcome if isinstance(outcome, TaskCodeError) else None)
            random = random or outcome is False
            named |= read
        if doubt is not None:
            yield TaskWarning("function-fails", str(doubt), location)
        if random:
            message = (
                f"function {spec.func_name} gives other results for the same element when it runs again: it uses random"
                " numbers or the time, or keeps state between calls; no verdict on a program that uses it is certain"
            )
            yield TaskWarning("random-function", message, location)
        for name in sorted(inputs & named):
            message = (
                f"function {spec.func_name} reads input {name} by name, and so all of it at once: a program that"
                f" passes too little of it on may pass. Make it an argument of the function"
            )
            yield TaskWarning("input-by-name", message, location)


def _outcome(instance: TaskInstance, fn: Fn, location: Location) -> TaskCodeError | bool:
    """Why a function fails on elements of these numbers; whether it repeats its result once it succeeds.

    Raises:
        TaskCodeError: It fails on all of them, whatever their numbers.
    """
    generator = torch.Generator().manual_seed(0)
    causes: list[TaskCodeError] = []
    for number in range(_ELEMENTS):
        element = [_sample(part, instance, number, generator) for part in components_of(fn.input)]
        try:
            with instance.author_code(f"function {fn.label}", location):
                first, *again = (_call(fn, element, instance) for _ in range(_RUNS))
        except TaskCodeError as error:
            causes.append(error.__cause__ if isinstance(error.__cause__, TaskCodeError) else error)
        else:
            return all(all(map(same_numbers, first, other)) for other in again)
    where = f"at {instance.place}, on each element of its declared type that was tried: of random numbers, ones, zeros"
    of_code = [cause for cause in causes if not isinstance(cause.__cause__, _OF_NUMBERS)]
    if len(of_code) < _ELEMENTS:
        return TaskCodeError(f"{causes[0]}, {where}", location)
    raise TaskCodeError(f"{instance.task.name}: {causes[0]}, {where}", location) from causes[0].__cause__


def _call(fn: Fn, element: list[Tensor], instance: TaskInstance) -> Data:
    state: list[Data] = [initial(fn, instance.sizes, instance.dtype)] if fn.stateful else []
    return apply(fn, [*state, [part.clone() for part in element]], instance.sizes, instance.dtype)


def _sample(element: Element, instance: TaskInstance, number: int, generator: torch.Generator) -> Tensor:
    """A component: random numbers, ones, zeros, then random numbers again; one bit of a Multihot, then another."""
    shape, kind = element_layout(element, instance.sizes), element_type(element, instance.dtype)
    if isinstance(element, Multihot):
        return one_hot(torch.tensor(number % shape[-1]), shape[-1]).expand(shape).to(kind)
    if number in (1, 2):
        return torch.full(shape, 2 - number, dtype=kind)
    uniform = torch.rand(shape, dtype=torch.float64, generator=generator)
    return (uniform if element.format.kind == "float" else uniform < 0.5).to(kind)


def _named(spec: FnSpec) -> set[str]:
    """The names at which a function's code reads `input_data`, whether or not its trials came there."""
    tree = parse_python(textwrap.dedent(spec.apply))
    return {
        node.slice.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == "input_data"
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
    }
