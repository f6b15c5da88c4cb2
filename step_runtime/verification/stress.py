"""Runs a program that passes on inputs that bite, in float32, beside its reference.

Its own inputs are few numbers near 1. Others are derived from them: of large and small magnitude, negative, zero, all
equal, shifted; with bits all set or none, and all elements routed one way. They keep what the task says of an input:
its range, its order, what the reference assumes; where an expression gives the data, what that shows. The reference in
float64 is the truth. A finding is

- `stress-undefined`: the program gives NaN or infinity, in float64 too, where the reference gives numbers, on inputs no
  larger than the task's own;
- `stress-overflow`: the program gives NaN or infinity where the reference, in float32 too, gives numbers;
- `stress-accuracy`: the program's error is far above that of the reference in float32;
- `stress-value`: the program computes something else there, in float64 too;
- `stress-run`: the program fails there, and the reference does not.

Inputs of another format than fp32 are changed within its range and rounded to it. Errors within the tolerance of the
task's least precise format do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import isfinite
from typing import NamedTuple

import torch
from torch import Tensor

from step_runtime.base.errors import Diagnostic, StepError, TaskError, quantity
from step_runtime.base.types import Element, Multihot, components_of
from step_runtime.execution.applier import Data
from step_runtime.execution.deadline import Deadline
from step_runtime.execution.invocation import default_dtype
from step_runtime.execution.number_formats import exact, is_rounded
from step_runtime.program.graph import Program
from step_runtime.program.limits import Limits
from step_runtime.tasks import generators
from step_runtime.tasks.task import Task, TensorSpec
from step_runtime.verification.check import Types
from step_runtime.verification.instance import TaskInstance
from step_runtime.verification.simulate import simulate

Change = Callable[[Tensor], Tensor]

_HINT = "the inputs of the task are few numbers near 1; `assumes` and `data_gen` declare which numbers may occur"
TIES = (
    "where these inputs differ a little, the program agrees: it chooses another of equal numbers (topk, argmax),"
    " or compares them otherwise (> for >=)"
)

VARIANTS: Mapping[str, tuple[Change, float]] = {
    "100 times as large": (lambda x: 100 * x, 1.0),
    "10,000 times as large": (lambda x: 1e4 * x, 1.0),
    "a 10,000th as large": (lambda x: 1e-4 * x, 0.0),
    "all negative": (lambda x: -10 * x.abs() - 1e-3, 0.0),
    "shifted by 1,000": (lambda x: x + 1000, 1.0),
    "of the other sign": (torch.neg, 0.0),
    "all zero": (torch.zeros_like, 0.0),
    "all equal": (torch.ones_like, 1.0),
}
"""What happens to numbers, and where in its range a bounded input is set: 0 for the least, 1 for the largest."""

_SMALL = ("a 10,000th as large", "of the other sign", "all zero", "all equal")
"""Variants of which no number should overflow."""
_FACTOR = 100.0
"""How far the program's error may exceed the reference's own in float32."""
_ERROR = 1e-3
"""The relative error, of the largest number of an output, from which on accuracy counts as lost."""
_OTHER = 1e-5
"""The relative error in float64 from which on a program computes something else."""
_FINER = torch.finfo(torch.float64).eps / torch.finfo(torch.float32).eps
"""What remains in float64 of an error that rounding makes in float32."""
_BOUNDED = ("binary", "integers", "ids", "lengths", "uniform")
_WHOLE = ("torch.ones", "one_hot", "binary", "integers", "ids", "lengths")
"""Generators of whole numbers."""
SAMPLES = 3
"""Seeds whose data shows what an expression keeps."""


class Case(NamedTuple):
    """A checked program and its task, in one floating type."""

    program: Program
    types: Types
    instance: TaskInstance


def stress(wide: Case, narrow: Case, limits: Limits) -> list[Diagnostic]:
    """The failures of a passing program on stress inputs: each kind of failure once per output.

    The program is given in float64 and in float32.
    """
    found: dict[tuple[str, str], Diagnostic] = {}
    for name, (change, level) in VARIANTS.items():
        data = _changed(wide.instance, change, level)
        for code, message in _troubles(wide, narrow, data, limits, small=name in _SMALL):
            key = (code, message.partition(" ")[2].partition(" ")[0])  # its output
            if key not in found:
                equal = code == "stress-value" and _agrees_apart(wide, narrow, data, limits)
                details = (f"with inputs {name}, at {wide.instance.place}", *([TIES] if equal else []))
                found[key] = Diagnostic("stress", code, message, wide.program.result_span, details, _HINT)
    return list(found.values())


def _agrees_apart(wide: Case, narrow: Case, data: Mapping[str, Data], limits: Limits) -> bool:
    """Whether the values agree once equal fp32 inputs differ by up to a thousandth, towards zero or up from zero."""
    generator = torch.Generator().manual_seed(0)

    def apart(part: Tensor) -> Tensor:
        if not part.is_floating_point() or is_rounded(part.dtype):
            return part
        return part + 1e-3 * torch.rand(part.shape, generator=generator) * torch.where(part == 0, 1.0, -part)

    moved = {
        spec.name: tuple(map(apart, data[spec.name]))
        for spec in wide.instance.task.inputs
        if spec.data_gen is not None and generators.family(spec.data_gen) not in _WHOLE
        if not all(map(_is_whole, wide.instance.sampled(0)[spec.name]))
    }
    return all(code != "stress-value" for code, _ in _troubles(wide, narrow, {**data, **moved}, limits))


def _troubles(
    wide: Case, narrow: Case, data: Mapping[str, Data], limits: Limits, small: bool = False
) -> Iterator[tuple[str, str]]:
    """Codes and messages; numbers no larger than the task's own are `small`."""
    rounded_data = {name: tuple(map(_single, parts)) for name, parts in data.items()}
    inputs = wide.instance.use_inputs(rounded_data), narrow.instance.use_inputs(rounded_data)
    try:
        truth, reference = wide.instance.reference(), narrow.instance.reference()
    except TaskError:
        return
    if not all(_all_finite(exact(part)) for output in truth for part in output):
        return
    try:
        precise, rounded = _run(wide, inputs[0], limits), _run(narrow, inputs[1], limits)
    except StepError as error:
        yield "stress-run", f"the program fails: {str(error).splitlines()[0]}"
        return
    for number, spec in enumerate(wide.instance.task.outputs):
        compared = zip(truth[number], reference[number], precise[number], rounded[number], strict=True)
        for place, parts in enumerate(compared):
            trouble = _trouble(_slack(wide.instance.task, parts[0]), small, *map(exact, parts))
            if trouble is not None:
                part = f" (component {place})" if len(truth[number]) > 1 else ""
                yield trouble[0], f"output {spec.name}{part} {trouble[1]}"


def _single(part: Tensor) -> Tensor:
    """fp32 in float32; other formats as they are."""
    return part if is_rounded(part.dtype) else part.to(torch.float32)


def _slack(task: Task, truth: Tensor) -> float:
    """The relative error that rounding to the task's formats explains; 0 where it names none.

    An integer may be rounded to its neighbor.
    """
    if truth.dtype == torch.bool:
        return 0.0
    slack = max((format_.rtol for format_ in task.formats if not format_.wide), default=0.0)
    return slack if truth.is_floating_point() else max(slack, 1 / max(float(exact(truth).abs().max()), 1.0))


def _trouble(
    slack: float, small: bool, truth: Tensor, reference: Tensor, precise: Tensor, rounded: Tensor
) -> tuple[str, str] | None:
    reliable = None if _all_finite(reference) else reference.isfinite()
    odd = ~rounded.isfinite() & (True if reliable is None else reliable)
    if bool(odd.any()):
        both = small and bool((odd & ~precise.isfinite()).any())
        return "stress-undefined" if both else "stress-overflow", (
            f"has NaN or infinity in {int(odd.sum())} of {quantity(truth.numel(), 'number')}, computed in float32"
            f"{' and in float64' if both else ''}; the reference does not"
        )
    own, other = _error(reference, truth, reliable), _error(rounded, truth, reliable)
    # Where the reference's own numbers are what rounding leaves of a sum that cancels, so may the program's be.
    if _error(precise, truth, reliable) > max(_OTHER, slack, _FACTOR * own * _FINER):
        return (
            "stress-value",
            f"differs from the reference there, in float64 too: {_furthest(precise, truth, reliable)}",
        )
    if other > max(_ERROR, slack) and other > _FACTOR * own:
        return "stress-accuracy", (
            f"has an error of {other:.1g} of its largest number, computed in float32; the reference has {own:.1g}"
        )
    return None


def _all_finite(part: Tensor) -> bool:
    """Whether all numbers are; their sum tells it at once, unless it is too large itself."""
    return isfinite(float(part.sum())) or bool(part.isfinite().all())


def _error(found: Tensor, truth: Tensor, where: Tensor | None) -> float:
    """The largest difference, relative to the largest number, at some places, or at all."""
    if where is not None:
        found, truth = found[where], truth[where]
    if not truth.numel():
        return 0.0
    error = float((found.to(torch.float64) - truth).abs_().max())
    largest = max(abs(float(end)) for end in truth.aminmax())
    return error / max(largest, 1e-30) if isfinite(error) else float("inf")


def _furthest(found: Tensor, truth: Tensor, where: Tensor | None) -> str:
    """The two numbers that differ most, and their place."""
    gaps = (found.to(torch.float64) - truth).abs()
    gaps = (gaps if where is None else torch.where(where, gaps, -1.0)).nan_to_num(torch.inf)
    place = tuple(int(index) for index in torch.unravel_index(gaps.argmax(), gaps.shape))
    return f"{float(found[place]):.6g} for {float(truth[place]):.6g} at {list(place)}"


def _run(case: Case, inputs: Mapping[str, Data], limits: Limits) -> list[Data]:
    program, types, instance = case
    instance.applier.deadline = Deadline.after(limits.seconds)
    with default_dtype(instance.dtype), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return simulate(program, types, inputs, instance.sizes, instance.applier)


def _changed(instance: TaskInstance, change: Change, level: float) -> dict[str, Data]:
    """The sampled inputs as a variant has them."""
    sampled = instance.sampled(0)
    changed = dict(sampled)
    for spec, stream in zip(instance.task.inputs, instance.task.input_types, strict=True):
        elements = components_of(stream.dtype)
        # Only what an expression gives has to show of itself what it keeps.
        shows = spec.data_gen is not None and generators.family(spec.data_gen) == "expression"
        seeds = range(SAMPLES if shows else 1)
        changed[spec.name] = tuple(
            _routed(part, spec, level)
            if isinstance(element, Multihot)
            else _of([instance.sampled(seed)[spec.name][at] for seed in seeds], element, spec, change, level)
            for at, (part, element) in enumerate(zip(sampled[spec.name], elements, strict=True))
        )
    return changed


def _routed(part: Tensor, spec: TensorSpec, level: float) -> Tensor:
    """As few bits as may be, or as many, the first ones: one expert gets all."""
    length = part.shape[-1]
    least, most = spec.min or 0, min(length if spec.max is None else spec.max, length)
    bits = torch.zeros_like(part)
    bits[..., : (most if level else least)] = 1
    return bits


def _of(samples: Sequence[Tensor], element: Element, spec: TensorSpec, change: Change, level: float) -> Tensor:
    """The numbers of the first sample changed, within the range of their format."""
    changed = _numbers([exact(sample) for sample in samples], spec, change, level)
    if element.format.wide:
        return changed
    return changed.clamp(element.format.least, element.format.most).to(samples[0].dtype)


def _numbers(samples: Sequence[Tensor], spec: TensorSpec, change: Change, level: float) -> Tensor:
    part, text = samples[0], spec.data_gen or ""
    kind = generators.family(text)
    if kind == "torch.ones":
        return part
    if kind == "one_hot":
        return torch.zeros_like(part).index_fill_(-1, torch.tensor(0 if not level else part.shape[-1] - 1), 1)
    kept: set[str] = {*spec.assumes}
    bounded = kind in _BOUNDED
    if kind == "expression":
        if not is_magnitude(samples) or is_unstressed(spec, samples):
            return part
        kept |= set(_shown(samples))
        bounded = not spec.assumes and generators.reach(text) == "bounded" and "fixed" not in kept
    bound = part.max() if level else part.min()
    result = _keeping(kept, torch.full_like(part, float(bound)) if bounded else change(part), samples)
    return result.sort(-1).values if generators.is_sorted(text) or "sorted" in kept else result


def _keeping(kept: Collection[str], result: Tensor, samples: Sequence[Tensor]) -> Tensor:
    """Changed numbers with what is assumed of them."""
    if "positive" in kept:
        result = result.abs() + 1e-6
    if "nonnegative" in kept:
        result = result.abs()
    if "sums_to_1" in kept:
        total = result.abs().sum(-1, keepdim=True)
        result = torch.where(total > 0, result.abs() / total.clamp(min=1e-30), 1 / result.shape[-1])
    return torch.where(_fixed(samples), samples[0], result) if "fixed" in kept else result


def is_unstressed(spec: TensorSpec, samples: Sequence[Tensor]) -> bool:
    """Whether an input keeps its numbers under stress because nothing says which others may occur."""
    text = spec.data_gen
    if text is None or generators.family(text) != "expression" or spec.assumes or not is_magnitude(samples):
        return False
    return generators.reach(text) == "unknown"


def is_magnitude(samples: Sequence[Tensor]) -> bool:
    """Whether data has fractions, and differs between samples."""
    return not all(map(_is_whole, samples)) and not all(torch.equal(samples[0], other) for other in samples[1:])


def _is_whole(part: Tensor) -> bool:
    numbers = exact(part)
    return bool((~numbers.isfinite() | (numbers == numbers.round())).all())


def _fixed(samples: Sequence[Tensor]) -> Tensor:
    """The places that hold the same number in all samples, such as those that a mask leaves zero."""
    return torch.stack([sample == samples[0] for sample in samples]).all(0)


def _shown(samples: Sequence[Tensor]) -> Iterator[str]:
    """What the data of an expression shows of itself: assumptions, `fixed` places, and whether rows are `sorted`."""
    numbers = torch.stack(list(samples))
    if bool(_fixed(samples).any()):
        yield "fixed"
    if bool((numbers >= 0).all()):
        yield "positive" if bool((numbers > 0).all()) else "nonnegative"
        if torch.allclose(numbers.sum(-1), torch.ones((), dtype=numbers.dtype)):
            yield "sums_to_1"
    if numbers.shape[-1] > 2 and bool((numbers.diff(dim=-1) >= 0).all()):
        yield "sorted"
