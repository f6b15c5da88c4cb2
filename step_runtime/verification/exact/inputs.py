"""The inputs and parameters of a task as independent numbers, within what the task says of them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress

import torch

from step_runtime.base.types import Element, Multihot, components_of
from step_runtime.execution.number_formats import element_type
from step_runtime.tasks.generators import whole_range
from step_runtime.tasks.task import TensorSpec
from step_runtime.verification.exact import arithmetic
from step_runtime.verification.exact.decisions import current, mask_tensor
from step_runtime.verification.exact.reductions import summed
from step_runtime.verification.exact.value import Value, fixed, free, joined, number
from step_runtime.verification.instance import TaskInstance


def given(instance: TaskInstance) -> Mapping[str, tuple[Value, ...]]:
    """Each tensor of the task, by its name: a value for each component, of torch shape."""
    return {
        spec.name: tuple(
            _component(spec, element, tuple(part.shape), number, instance)
            for number, (element, part) in enumerate(
                zip(components_of(stream.dtype), instance.sampled(0)[spec.name], strict=True)
            )
        )
        for _, spec, stream in instance.task.tensors()
    }


def _component(
    spec: TensorSpec, element: Element, shape: tuple[int, ...], number: int, instance: TaskInstance
) -> Value:
    dtype = element_type(element, instance.dtype)
    name = f"{spec.name} {number}"
    if isinstance(element, Multihot):
        return _hot(spec, free(name, shape, dtype))
    if spec.data_gen == "torch.ones":
        return fixed(torch.ones(shape, dtype=dtype))
    if (decided := _decided(spec, instance.sizes, name, shape, dtype)) is not None:
        return decided
    found = free(name, shape, dtype)
    if spec.data_gen == "binary" or dtype == torch.bool:
        return found.but(bits=True, smooth=False)
    numbers = whole_numbers(spec, instance.sizes)
    least = -math.inf if numbers is None else numbers[0]
    if spec.data_gen and (uniform := re.match(r"uniform\(([^,]+),", spec.data_gen)):
        with suppress(ValueError):
            least = float(uniform[1])
    sign = 2 if least > 0 or "positive" in spec.assumes else int(least >= 0 or "nonnegative" in spec.assumes)
    return found.but(
        sign=torch.full_like(found.known, sign, dtype=torch.int8) if sign else None,
        range=None if numbers is None else (numbers[0], numbers[-1]),
        smooth=found.smooth and numbers is None,
    )


def _decided(
    spec: TensorSpec, sizes: Mapping[str, int], name: str, shape: tuple[int, ...], dtype: torch.dtype
) -> Value | None:
    """Numbers that are outcomes of decisions, where a generator draws from some whole numbers; else None."""
    decisions = current()
    numbers = None if decisions is None or not decisions.whole else whole_numbers(spec, sizes)
    if decisions is None or numbers is None:
        return None
    keys = [(name, place) for place in range(math.prod(shape))]
    drawn = [numbers[decisions.outcome(key, len(numbers))] for key in keys]
    masks = mask_tensor([decisions.mask([key]) for key in keys], (1, *shape))
    return fixed(torch.tensor(drawn, dtype=dtype).reshape(shape)).but(masks=masks)


def whole_numbers(spec: TensorSpec, sizes: Mapping[str, int]) -> range | None:
    """The whole numbers that a tensor's are, if the task says so."""
    return None if spec.data_gen is None else whole_range(spec.data_gen, sizes) or None


def _hot(spec: TensorSpec, bits: Value) -> Value:
    """Zeros and ones; where the number of ones is given, the last one follows from the others."""
    size = bits.shape[-1]
    least, most = spec.min or 0, size if spec.max is None else min(spec.max, size)
    if least == most:
        others = bits.parts(lambda part: part.narrow(-1, 0, size - 1))
        total = number(float(most))
        last = arithmetic.subtract(total, summed(others, [len(bits.shape) - 1])) if size > 1 else total
        whole = last.parts(lambda part: part.expand(part.shape[0], 1, *bits.shape[:-1]).unsqueeze(-1))
        bits = joined([others, whole.but(dtype=bits.dtype)], len(bits.shape) - 1, torch.cat).but(dtype=bits.dtype)
    return bits.but(bits=True, smooth=False)
