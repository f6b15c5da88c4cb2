"""Runs a program that passes on inputs that bite, in float64 and in float32, beside its reference.

Its own inputs are few numbers near 1. Others are derived from them, for each input and parameter alone, for all inputs,
and for all of both: of large and small magnitude, negative, zero, all equal, shifted far; whole numbers, at which
functions jump and numbers are equal; one-hot; with bits all set or none. They keep what the task says of an input: its
range, its order, what the reference assumes; where an expression gives the data, what that shows. The reference in
float64 is the truth, where it gives numbers. A finding is

- `stress-undefined`: the program gives NaN or infinity, in float64 too, where the reference gives numbers, on inputs no
  larger than the task's own;
- `stress-overflow`: the program gives NaN or infinity where the reference, in float32 too, gives numbers;
- `stress-accuracy`: the program's error is far above that of the reference in float32;
- `stress-value`: the program computes something else there, in float64 too;
- `stress-run`: the program fails there, and the reference does not;
- `stress-infinity`: on the task's own inputs a stream holds NaN or infinity, and the results are numbers.

Inputs of another format than fp32 are changed within its range and rounded to it. Errors within the tolerance of the
task's least precise format do not count. Which of equal numbers `topk` and a sort that is not stable take is open.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from math import isfinite
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

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

_HINT = "the inputs of the task are few numbers near 1; `assumes` and `data_gen` declare which numbers may occur"
TIES = (
    "where these inputs differ a little, the program agrees: it chooses another of equal numbers (argmax, stable sort),"
    " or compares them otherwise (> for >=)"
)


class Kind(NamedTuple):
    """What happens to numbers; whether the program runs in float32 too, and for one input or parameter alone."""

    change: Callable[[Tensor], Tensor]
    rounds: bool = False
    alone: bool = False


def _one_hot(part: Tensor) -> Tensor:
    """A single 1 along the innermost dim, at a place that moves on from row to row."""
    length = part.shape[-1]
    places = torch.arange(part[..., 0].numel()).reshape(part.shape[:-1]) % length
    return torch.nn.functional.one_hot(places, length).to(part.dtype)


def _small_numbers(part: Tensor) -> Tensor:
    """0, 1, -1, 2, … to -8, and again, at random places."""
    order = torch.randperm(part.numel(), generator=torch.Generator().manual_seed(0)).reshape(part.shape) % 17
    return torch.where(order % 2 == 1, order // 2 + 1, -(order // 2)).to(part.dtype)


KINDS: Mapping[str, Kind] = {
    "100 times as large": Kind(lambda x: 100 * x, rounds=True),
    "10,000 times as large": Kind(lambda x: 1e4 * x, rounds=True, alone=True),
    "a 10,000th as large": Kind(lambda x: 1e-4 * x, rounds=True),
    "all negative": Kind(lambda x: -10 * x.abs() - 1e-3, rounds=True, alone=True),
    "shifted by 1,000": Kind(lambda x: x + 1000, rounds=True),
    "of the other sign": Kind(torch.neg, rounds=True),
    "all 0": Kind(torch.zeros_like, rounds=True, alone=True),
    "all 1": Kind(torch.ones_like, rounds=True),
    "whole numbers and halves": Kind(lambda x: (2 * x).round() / 2, alone=True),
    "whole numbers from -8 to 8": Kind(_small_numbers, alone=True),
    "whole numbers to about 1,000": Kind(lambda x: (1000 * x).round()),
    "all above 1,000,000": Kind(lambda x: 2e6 + x.abs(), alone=True),
    "all below -1,000,000": Kind(lambda x: -2e6 - x.abs(), alone=True),
    "one-hot": Kind(_one_hot, alone=True),
}
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
_INFINITE = re.compile(r"\b(inf|infinity|nan)\b", re.IGNORECASE)


class Case(NamedTuple):
    """A checked program and its task, in one floating type."""

    program: Program
    types: Types
    instance: TaskInstance


class Variant(NamedTuple):
    """Stress inputs: what each tensor holds, in words, the data, and whether the program runs in float32 too."""

    name: str
    data: Mapping[str, Data]
    rounds: bool
    small: bool


class Stress:
    """The stress inputs of a task at one set of sizes, and what its references make of them, computed once.

    The instances compute in float64 and in float32.
    """

    def __init__(self, wide: TaskInstance, narrow: TaskInstance) -> None:
        self.wide, self.narrow = wide, narrow
        self._references: dict[str, tuple[list[Data], list[Data]] | None] = {}

    def findings(self, wide: Case, narrow: Case, limits: Limits) -> list[Diagnostic]:
        """The failures of a passing program: each kind of failure once per output."""
        found = {("stress-infinity", each.message): each for each in _infinities(wide, limits)}
        for variant in _variants(self.wide):
            for code, message in self._troubles(wide, narrow, variant, limits):
                key = (code, message.partition(" ")[2].partition(" ")[0])  # its output
                if key not in found:
                    equal = code == "stress-value" and self._agrees_apart(wide, narrow, variant, limits)
                    details = (f"with {variant.name}, at {self.wide.place}", *([TIES] if equal else []))
                    found[key] = Diagnostic("stress", code, message, wide.program.result_span, details, _HINT)
        return list(found.values())

    def _agrees_apart(self, wide: Case, narrow: Case, variant: Variant, limits: Limits) -> bool:
        """Whether the values agree once equal fp32 numbers differ by up to a thousandth, towards zero or up from it."""
        generator = torch.Generator().manual_seed(0)

        def apart(part: Tensor) -> Tensor:
            if not part.is_floating_point() or is_rounded(part.dtype):
                return part
            return part + 1e-3 * torch.rand(part.shape, generator=generator) * torch.where(part == 0, 1.0, -part)

        moved = {
            spec.name: tuple(map(apart, variant.data[spec.name]))
            for _, spec, _ in self.wide.task.tensors()
            if spec.data_gen is not None and generators.family(spec.data_gen) not in _WHOLE
            if not all(map(_is_whole, self.wide.sampled(0)[spec.name]))
        }
        other = variant._replace(name=f"{variant.name}, apart", data={**variant.data, **moved})
        return all(code != "stress-value" for code, _ in self._troubles(wide, narrow, other, limits))

    def _reference(self, variant: Variant) -> tuple[list[Data], list[Data]] | None:
        """What the references give, in float64 and in float32; None where they fail."""
        if variant.name not in self._references:
            try:
                self._references[variant.name] = self.wide.reference(), self.narrow.reference()
            except TaskError:
                self._references[variant.name] = None
        return self._references[variant.name]

    def _troubles(self, wide: Case, narrow: Case, variant: Variant, limits: Limits) -> Iterator[tuple[str, str]]:
        """Codes and messages."""
        inputs = self.wide.use_inputs(variant.data), self.narrow.use_inputs(variant.data)
        found = self._reference(variant)
        if found is None:
            return
        try:
            precise = run_case(wide, inputs[0], limits)
            rounded = run_case(narrow, inputs[1], limits) if variant.rounds else precise
            troubles = list(_compared(self.wide.task, variant, *found, precise, rounded))
            if not variant.rounds and troubles:
                rounded = run_case(narrow, inputs[1], limits)
                troubles = list(_compared(self.wide.task, variant, *found, precise, rounded))
        except StepError as error:
            yield "stress-run", f"the program fails: {str(error).splitlines()[0]}"
            return
        if any(code == "stress-value" for code, _ in troubles):
            for last in (False, True):
                with _Ties(last) as ties, suppress(TaskError):
                    truth = self.wide.reference()
                    if ties.open and not any(_compared(self.wide.task, variant, truth, found[1], precise, precise)):
                        return
        yield from troubles


def _compared(
    task: Task,
    variant: Variant,
    truth: Sequence[Data],
    reference: Sequence[Data],
    precise: Sequence[Data],
    rounded: Sequence[Data],
) -> Iterator[tuple[str, str]]:
    for number, spec in enumerate(task.outputs):
        compared = zip(truth[number], reference[number], precise[number], rounded[number], strict=True)
        for place, parts in enumerate(compared):
            trouble = _trouble(_slack(task, parts[0]), variant, *map(exact, parts))
            if trouble is not None:
                part = f" (component {place})" if len(truth[number]) > 1 else ""
                yield trouble[0], f"output {spec.name}{part} {trouble[1]}"


class _Ties(TorchFunctionMode):
    """Of equal numbers, `topk` and sorts that are not stable take the first, or the last; `open` if there are such."""

    def __init__(self, last: bool) -> None:
        super().__init__()
        self._last = last
        self.open = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, given = getattr(func, "__name__", ""), dict(kwargs or {})
        if name not in ("topk", "sort", "argsort") or given.get("stable") or "out" in given:
            return func(*args, **given)
        self.open = True
        given |= dict(zip(("input", "k") if name == "topk" else ("input",), args, strict=False))
        rest = args[2:] if name == "topk" else args[1:]
        given |= dict(zip(("dim", "largest" if name == "topk" else "descending"), rest, strict=False))
        numbers, dim = given["input"], given.get("dim", -1)
        falling = given.get("largest", True) if name == "topk" else given.get("descending", False)
        values, places = (numbers.flip(dim) if self._last else numbers).sort(dim=dim, descending=falling, stable=True)
        places = numbers.shape[dim] - 1 - places if self._last else places
        if name == "topk":
            return torch.return_types.topk((values.narrow(dim, 0, given["k"]), places.narrow(dim, 0, given["k"])))
        return places if name == "argsort" else torch.return_types.sort((values, places))


def _infinities(case: Case, limits: Limits) -> Iterator[Diagnostic]:
    """The streams that are the first to hold NaN or infinity on the task's own inputs, where its references are finite.

    A function that names an infinity may give one.
    """
    program, instance = case.program, case.instance
    inputs = instance.sample_inputs(0)
    if not all(_all_finite(exact(part)) for output in instance.sampled_reference(0)[1] for part in output):
        return
    every = case._replace(program=replace(program, results=tuple(range(len(case.types)))))
    streams = [tuple(map(exact, data)) for data in run_case(every, inputs, limits)]
    named = {
        fn.func_name for fn in instance.task.fns if _INFINITE.search(fn.apply) or not all(map(isfinite, fn.init or ()))
    }
    for node in program.nodes:
        given = [part for stream in node.inputs for part in streams[stream]]
        if all(map(_all_finite, given)) and not named & {fn.label for fn in node.op.functions()}:
            odd = [part for stream in node.outputs for part in streams[stream] if not _all_finite(part)]
        elif not any(bool(part.isnan().any()) for part in given):
            odd = [part for stream in node.outputs for part in streams[stream] if bool(part.isnan().any())]
        else:
            odd = []
        if odd:
            count = sum(int((~part.isfinite()).sum()) for part in odd)
            message = (
                f"stream {program.name(node.outputs[0])} holds NaN or infinity in"
                f" {count} of {quantity(sum(part.numel() for part in odd), 'number')}, and the results are finite"
            )
            hint = "a chip may trap or saturate there; a function that names `inf` may give it"
            yield Diagnostic("stress", "stress-infinity", message, node.span, (f"at {instance.place}, seed 0",), hint)


def single(part: Tensor) -> Tensor:
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


def tolerated(own: float, largest: float, task: Task, truth: Tensor) -> float:
    """The error that rounding may make of an output, by that of its reference and its largest number."""
    return max(_FACTOR * own, largest * max(_ERROR, _slack(task, truth)))


def _trouble(
    slack: float, variant: Variant, truth: Tensor, reference: Tensor, precise: Tensor, rounded: Tensor
) -> tuple[str, str] | None:
    finite = _all_finite(truth)
    reliable = None if finite else truth.isfinite()
    run = rounded if variant.rounds and _all_finite(reference) else precise
    odd = ~run.isfinite() & (True if reliable is None else reliable)
    if bool(odd.any()):
        both = bool((odd & ~precise.isfinite()).any())
        where = "float64" if run is precise else f"float32{' and in float64' if both else ''}"
        return "stress-undefined" if both and variant.small else "stress-overflow", (
            f"has NaN or infinity in {int(odd.sum())} of {quantity(truth.numel(), 'number')}, computed in {where}; the"
            " reference does not"
        )
    own, off, other = (_error(each, truth, reliable) for each in (reference, precise, rounded))
    # Where the reference's own numbers are what rounding leaves of a sum that cancels, so may the program's be; what
    # grows as rounding does from float64 to float32 is rounding, too.
    if off > max(_OTHER, slack, _FACTOR * own * _FINER) and other <= _FACTOR * off:
        message = f"differs from the reference there, in float64 too: {_furthest(precise, truth, reliable)}"
        return "stress-value", message
    if variant.rounds and other > max(_ERROR, slack, _FACTOR * own):
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


def run_case(case: Case, inputs: Mapping[str, Data], limits: Limits) -> list[Data]:
    program, types, instance = case
    instance.applier.deadline = Deadline.after(limits.seconds)
    with default_dtype(instance.dtype), torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return simulate(program, types, inputs, instance.sizes, instance.applier)


def _variants(instance: TaskInstance) -> Iterator[Variant]:
    """The stress inputs: for each tensor alone, then for all inputs, and for all with the parameters."""
    names = [spec.name for _, spec, _ in instance.task.tensors()]
    inputs = [spec.name for spec in instance.task.inputs]
    groups = [*([name] for name in names if len(names) > 1), inputs, *([names] if len(names) > len(inputs) else [])]
    sampled = {name: tuple(map(single, parts)) for name, parts in instance.sampled(0).items()}
    changed = {
        name: {kind: tuple(map(single, parts)) for kind, parts in _changes(instance, name).items()} for name in names
    }
    seen = {_digest(sampled)}
    for group in groups:
        for kind, (_, rounds, alone) in KINDS.items():
            if len(group) == 1 and len(names) > 1 and not alone:
                continue
            data = {**sampled, **{name: changed[name][kind] for name in group}}
            digest = _digest(data)
            if digest not in seen:
                seen.add(digest)
                small = all(_largest(data[name]) <= max(1.0, _largest(sampled[name])) for name in group)
                # In float32 all inputs together; of one alone, what overflows does so in float64 too.
                rounded = rounds and group in (inputs, names)
                yield Variant(_named({name: sampled[name] for name in group}, data, kind), data, rounded, small)


def _digest(data: Mapping[str, Data]) -> int:
    parts = chain(*data.values())
    return hash(tuple(part.contiguous().view(torch.uint8).numpy().tobytes() for part in parts))


def _largest(data: Data) -> float:
    return max((float(exact(part).abs().max()) for part in data if part.numel()), default=0.0)


def _named(sampled: Mapping[str, Data], data: Mapping[str, Data], kind: str) -> str:
    """What each changed tensor holds."""
    held: dict[str, list[str]] = {}
    for name, before in sampled.items():
        if not all(map(torch.equal, before, data[name])):
            ends = {float(end) for part in data[name] for end in exact(part).aminmax()}
            held.setdefault(f"all {ends.pop() + 0.0:g}" if len(ends) == 1 else kind, []).append(name)
    return " and ".join(f"{', '.join(names)} {what}" for what, names in held.items())


def _changes(instance: TaskInstance, name: str) -> dict[str, Data]:
    """A tensor as each kind has it."""
    ((spec, stream),) = ((spec, stream) for _, spec, stream in instance.task.tensors() if spec.name == name)
    # Only what an expression gives has to show of itself what it keeps, and only what is bounded its range.
    shows = spec.data_gen is not None and generators.family(spec.data_gen) in ("expression", *_BOUNDED)
    samples = [instance.sampled(seed)[name] for seed in range(SAMPLES if shows else 1)]
    parts = zip(zip(*samples, strict=True), components_of(stream.dtype), strict=True)
    made = [_of(of_part, element, spec, instance) for of_part, element in parts]
    return {kind: tuple(each[kind] for each in made) for kind in KINDS}


def _of(samples: Sequence[Tensor], element: Element, spec: TensorSpec, instance: TaskInstance) -> dict[str, Tensor]:
    """A component as each kind has it, within the range of its format."""
    if isinstance(element, Multihot):
        return {kind: _routed(samples[0], spec, kind) for kind in KINDS}
    found = {}
    numbers, text = [exact(sample) for sample in samples], spec.data_gen or ""
    family = generators.family(text)
    kept: set[str] = {*spec.assumes}
    ends: tuple[float, float] | None = None
    if family == "expression":
        if not is_magnitude(numbers) or is_unstressed(spec, numbers):
            return dict.fromkeys(KINDS, samples[0])
        kept |= set(_shown(numbers))
        bounded = not spec.assumes and generators.reach(text) == "bounded" and "fixed" not in kept
    else:
        bounded = family in _BOUNDED
    if bounded:
        whole = generators.whole_range(text, instance.sizes)
        drawn = torch.stack(numbers)
        ends = (whole[0], whole[-1]) if whole else (float(drawn.min()), float(drawn.max()))
    for kind, (change, _, _) in KINDS.items():
        if family in ("torch.ones", "one_hot"):
            found[kind] = _placed(samples[0], kind) if family == "one_hot" else samples[0]
            continue
        changed = change(numbers[0])
        if ends is not None:
            changed = (changed.round() if family in _WHOLE else changed).clamp(*ends)
        changed = _keeping(kept, changed, numbers)
        changed = changed.sort(-1).values if generators.is_sorted(text) or "sorted" in kept else changed
        if not element.format.wide:
            changed = changed.clamp(element.format.least, element.format.most).to(samples[0].dtype)
        found[kind] = changed
    return found


def _placed(part: Tensor, kind: str) -> Tensor:
    """One-hot rows: all at the first place, or all at the last."""
    place = {"all 0": 0, "all above 1,000,000": part.shape[-1] - 1}.get(kind)
    return part if place is None else torch.zeros_like(part).index_fill_(-1, torch.tensor(place), 1)


def _routed(part: Tensor, spec: TensorSpec, kind: str) -> Tensor:
    """As few bits as may be, or as many, the first ones: one expert gets all."""
    length = part.shape[-1]
    least, most = spec.min or 0, min(length if spec.max is None else spec.max, length)
    count = {"all 0": least, "all above 1,000,000": most, "one-hot": min(max(least, 1), most)}.get(kind)
    if count is None:
        return part
    bits = torch.zeros_like(part)
    bits[..., :count] = 1
    return bits


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
