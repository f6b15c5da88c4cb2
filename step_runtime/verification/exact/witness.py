"""An input on which a program and its reference differ, searched for beyond the task's generators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from step_runtime.base.errors import StepError
from step_runtime.base.types import Element, Multihot, components_of
from step_runtime.execution.applier import Applier, Data
from step_runtime.execution.deadline import Deadline
from step_runtime.execution.invocation import default_dtype
from step_runtime.program.graph import Program
from step_runtime.program.limits import Limits
from step_runtime.tasks.task import TensorSpec
from step_runtime.verification.check import Types
from step_runtime.verification.instance import TaskInstance
from step_runtime.verification.simulate import simulate

_CLOSE = 1e-9
"""The difference, relative to the largest number of an output, that rounding in float64 may explain."""
_REAL = ("torch.rand", "torch.randn")
_KINDS = ("of any sign", "positive")


def witness(instance: TaskInstance, program: Program, types: Types, limits: Limits) -> str | None:
    """Where the two differ in float64 on real inputs of any sign, or positive ones, in words; None if nowhere seen.

    Inputs that the task restricts (`assumes`, bits, whole numbers, generators of its own) stay as it gives them.
    """
    for number, kind in enumerate(_KINDS):
        generator = torch.Generator().manual_seed(number)
        try:
            found = _difference(instance, program, types, limits, _drawn(instance, generator, positive=number == 1))
        except (StepError, RuntimeError, MemoryError):
            found = None
        finally:
            instance.sample_inputs(0)
        if found is not None:
            return f"{found}, on inputs {kind}"
    return None


def defined(instance: TaskInstance, program: Program, types: Types, limits: Limits) -> bool:
    """Whether both give finite numbers, the same ones, on the task's own inputs."""
    results, reference = _run(instance, program, types, limits, instance.sampled(0))
    pairs = [
        pair for result, expected in zip(results, reference, strict=True) for pair in zip(result, expected, strict=True)
    ]
    return all(bool(one.isfinite().all() & torch.isclose(one, other, _CLOSE, _CLOSE).all()) for one, other in pairs)


def _drawn(instance: TaskInstance, generator: torch.Generator, *, positive: bool) -> Mapping[str, Data]:
    sampled = instance.sampled(0)
    found: dict[str, Data] = {}
    for _, spec, stream in instance.task.tensors():
        pairs = zip(sampled[spec.name], components_of(stream.dtype), strict=True)
        found[spec.name] = tuple(_redrawn(part, spec, element, generator, positive) for part, element in pairs)
    return found


def _redrawn(part: Tensor, spec: TensorSpec, element: Element, generator: torch.Generator, positive: bool) -> Tensor:
    if isinstance(element, Multihot) or not element.format.wide or spec.assumes or spec.data_gen not in _REAL:
        return part
    numbers = torch.randn(part.shape, dtype=part.dtype, generator=generator)
    return numbers.abs() + 0.1 if positive else numbers


def _difference(
    instance: TaskInstance, program: Program, types: Types, limits: Limits, data: Mapping[str, Data]
) -> str | None:
    results, reference = _run(instance, program, types, limits, data)
    for spec, result, expected in zip(instance.task.outputs, results, reference, strict=True):
        for one, other in zip(result, expected, strict=True):
            if not one.dtype.is_floating_point or one.dtype != instance.dtype:
                continue
            finite = other.isfinite() & one.isfinite()
            scale = other[finite].abs().max().clamp(min=1.0) if bool(finite.any()) else torch.tensor(1.0)
            bad = finite & ~((one - other).abs() <= _CLOSE * scale)
            if bool(bad.any()):
                place = tuple(bad.nonzero()[0].tolist())
                shown, wanted = f"{float(one[place]):.9g}", f"{float(other[place]):.9g}"
                return f"output {spec.name} at {list(place)} is {shown}, expected {wanted}"
    return None


def _run(
    instance: TaskInstance, program: Program, types: Types, limits: Limits, data: Mapping[str, Data]
) -> tuple[Sequence[Data], Sequence[Data]]:
    """The results of the program and of the reference."""
    inputs = instance.use_inputs(data)
    reference = instance.reference()
    applier = Applier(instance.dtype, Deadline.after(limits.seconds))
    with default_dtype(instance.dtype):
        return simulate(program, types, inputs, instance.sizes, applier), reference
