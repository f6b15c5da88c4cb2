"""Properties that make a task's verdicts doubtful: simpler references that agree, constant data, fixed sizes, bools."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from step_runtime.base.errors import TaskCodeError, TaskWarning
from step_runtime.base.syntax import parse_python
from step_runtime.base.types import Element, components_of
from step_runtime.execution.invocation import Data
from step_runtime.execution.number_formats import exact
from step_runtime.tasks.task import Task, TensorSpec
from step_runtime.verification.compare import close
from step_runtime.verification.instance import TaskInstance
from step_runtime.verification.stress import SAMPLES, is_unstressed

_DROPPED = frozenset(
    {"abs", "absolute", "relu", "relu_", "relu6", "leaky_relu", "elu", "clamp", "clamp_", "clamp_min", "clamp_max",
     "clip", "hardtanh", "nan_to_num"}
)  # fmt: skip
"""Functions that leave the numbers of a part of their domain as they are."""

_BOOLEAN = frozenset(
    {"gt", "lt", "ge", "le", "eq", "ne", "greater", "less", "greater_equal", "less_equal", "isnan", "isinf", "isfinite",
     "logical_and", "logical_or", "logical_not", "isclose", "bool"}
)  # fmt: skip

UNSTRESSED = "unstressed-input"
"""The code of a warning that matters only where stress inputs do."""

_MOST_SAMPLES = 20
"""Samples that have to agree before data counts as unvaried: few values are possible where data is small."""


class _Without(TorchFunctionMode):
    """Calls of one function return its argument; `called` has all functions of `_DROPPED` that were called."""

    def __init__(self, dropped: str = "") -> None:
        super().__init__()
        self._dropped = dropped
        self.called: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs the function, unless it is dropped."""
        name = getattr(func, "__name__", "")
        if name in _DROPPED:
            self.called.add(name)
        if name and name == self._dropped and args:
            return args[0]
        return func(*args, **(kwargs or {}))


def simpler_references(instances: Sequence[TaskInstance], samples: int) -> Iterator[TaskWarning]:
    """The functions that a reference could do without on the inputs sampled, so that a program may too."""
    first = instances[0]
    first.sample_inputs(0)
    with _Without() as seen:
        first.reference()
    for name in sorted(seen.called):
        cases = [(instance, seed) for instance in instances for seed in range(samples)]
        if all(_agrees_without(name, instance, seed) for instance, seed in cases):
            message = f"the reference is the same without its {name} on the task's inputs: a program without it passes"
            yield TaskWarning("simpler-reference", message, ("outputs",))


def _agrees_without(name: str, instance: TaskInstance, seed: int) -> bool:
    instance.sample_inputs(seed)
    whole = instance.reference()
    try:
        with _Without(name):
            simpler = instance.reference()
    except TaskCodeError:
        return False
    return all(map(agree, whole, simpler))


def agree(one: Data, other: Data) -> bool:
    """Whether two values of an output are close."""
    return all(close(a, b) for a, b in zip(one, other, strict=True))


def unvaried_data(task: Task, tried: Sequence[TaskInstance]) -> Iterator[TaskWarning]:
    """The inputs and parameters that the references read and whose data is constant: at every seed, or along a dim.

    A program that takes one element for another, or a constant for the input, agrees with the reference on such data.
    A constant input that no reference reads is none of them: a program may count its elements.
    """
    for place, spec, stream in task.tensors():
        dims, parts = [str(dim) for dim in reversed(stream.shape)], range(len(components_of(stream.dtype)))
        fault = next(filter(None, (_unvaried(spec, part, dims, tried) for part in parts)), None)
        if fault and any(_depends(instance, spec, len(stream.shape)) for instance in tried):
            message = f"{place[0][:-1]} {spec.name} {fault}: a program that is wrong for other data may pass"
            yield TaskWarning("constant-input", message, place)


def _unvaried(spec: TensorSpec, part: int, dims: Sequence[str], tried: Sequence[TaskInstance]) -> str | None:
    """How a component of an input is constant, if it is; `dims` are in torch's order."""

    def sample(one: TaskInstance, seed: int) -> Tensor:
        return one.sampled(seed)[spec.name][part]

    # Lazily: what varies shows it in two samples, and samples may be large.
    cases = [(one, seed) for one in tried for seed in range(_MOST_SAMPLES)]
    if all(torch.equal(sample(one, 0), sample(one, seed)) for one, seed in cases if seed):
        return "has the same data at every seed"
    for axis, dim in enumerate(dims):
        longer = [(one, seed) for one, seed in cases if sample(one, 0).shape[axis] > 1]
        if longer and all(_repeats(sample(one, seed), axis) for one, seed in longer):
            return f"has the same data all along {dim}"
    return None


def _repeats(data: Tensor, axis: int) -> bool:
    if not torch.equal(data.select(axis, 0), data.select(axis, 1)):
        return False
    return torch.equal(data, data.narrow(axis, 0, 1).expand(data.shape))


def _depends(instance: TaskInstance, spec: TensorSpec, axes: int) -> bool:
    """Whether an output depends on an input: on the order of its elements, or where they are equal, on their values."""
    instance.sample_inputs(0)
    values = instance.reference()
    instance.replace_input(spec, tuple(_other(part, axes) for part in instance.sampled(0)[spec.name]))
    try:
        others = instance.reference()
    except TaskCodeError:  # it has read the input, then
        return True
    finally:
        instance.sample_inputs(0)
    return not all(map(agree, values, others))


def _other(data: Tensor, axes: int) -> Tensor:
    """The elements in another order; where all are equal, some of them zero, or ones where they are zeros."""
    generator = torch.Generator().manual_seed(0)
    elements = data.reshape(prod(data.shape[:axes]), *data.shape[axes:])
    shuffled = elements[torch.randperm(len(elements), generator=generator)].reshape(data.shape)
    if not torch.equal(shuffled, data):
        return shuffled
    chosen = torch.rand(data.shape, generator=generator) < 0.5
    numbers = exact(data)
    other = numbers * ~chosen if bool(numbers.any()) else chosen
    return other.to(data.dtype)


def fixed_dims(task: Task, sets: Sequence[dict[str, int]]) -> Iterator[TaskWarning]:
    """The stream dims that have one size in every set; what only elements have, such as the number of experts, may."""
    streams = (*task.input_types, *task.output_types)
    used = {symbol.name for stream in streams for dim in stream.shape for symbol in dim.free_symbols}
    for name in sorted(used):
        if len({sizes[name] for sizes in sets}) == 1:
            message = (
                f"{name} is {sets[0][name]} at every set of sizes: a program that is right for this size only passes"
            )
            yield TaskWarning("fixed-dim", message, ("sizes", name))


def boolean_functions(task: Task) -> Iterator[TaskWarning]:
    """The functions whose code returns a comparison where a number is declared."""
    for index, (fn, (_, given)) in enumerate(zip(task.fns, task.fn_types, strict=True)):
        numbers = any(part.format.kind == "float" for part in components_of(given))
        if numbers and _returns_bool(fn.apply):
            message = f"function {fn.func_name} returns a bool; it is converted to 0 or 1, which hardware may not do"
            yield TaskWarning("bool-function", f"{message}: write .to(input[0].dtype)", ("fns", index, "apply"))


def _returns_bool(code: str) -> bool:
    tree = parse_python(textwrap.dedent(code))
    assigned = {
        target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    returned = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return) and node.value is not None]
    elements = [
        part for value in returned for part in (value.elts if isinstance(value, ast.List | ast.Tuple) else [value])
    ]
    return any(_is_bool(assigned.get(part.id, part) if isinstance(part, ast.Name) else part) for part in elements)


def _is_bool(value: ast.expr) -> bool:
    match value:
        case ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return True
        case ast.Constant(value=bool()):
            return True
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=left):
            return _is_bool(left)
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _BOOLEAN
    return False


def unstressed(instance: TaskInstance) -> Iterator[TaskWarning]:
    """Inputs without stress values: an expression gives their data, and its range is unknown."""
    for index, spec in enumerate(instance.task.inputs):
        samples = [instance.sampled(seed)[spec.name] for seed in range(SAMPLES)]
        if any(is_unstressed(spec, [exact(part) for part in parts]) for parts in zip(*samples, strict=True)):
            message = (
                f"input {spec.name} is not stressed: its data_gen does not show which other numbers may occur; use a"
                " generator such as normal or uniform, or declare the reference's assumptions in assumes"
            )
            yield TaskWarning(UNSTRESSED, message, ("inputs", index, "data_gen"))


def assumptions(instance: TaskInstance) -> Iterator[TaskWarning]:
    """Inputs whose data breaks the assumptions that the task states."""
    data = instance.sampled(0)
    for place, spec, stream in instance.task.tensors():
        elements = components_of(stream.dtype)
        for name in spec.assumes:
            if not all(_holds(name, *each) for each in zip(data[spec.name], elements, strict=True)):
                message = f"{place[0][:-1]} {spec.name} is assumed {name}, and its data_gen gives other numbers"
                yield TaskWarning("assumption", message, (*place, "assumes"))


def _holds(assumption: str, data: Tensor, element: Element) -> bool:
    part = exact(data)
    if assumption == "sums_to_1":
        return torch.allclose(part.sum(-1), torch.ones((), dtype=part.dtype), rtol=max(element.format.rtol, 1e-5))
    return bool((part > 0).all() if assumption == "positive" else (part >= 0).all())
