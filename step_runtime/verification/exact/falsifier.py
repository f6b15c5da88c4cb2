"""An input on which a program and its reference differ in floats, searched for beyond the task's generators."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from step_runtime.base.errors import StepError
from step_runtime.base.types import Element, Multihot, components_of
from step_runtime.execution.applier import Data
from step_runtime.program.graph import Program
from step_runtime.program.limits import Limits
from step_runtime.tasks.generators import family
from step_runtime.tasks.task import TensorSpec
from step_runtime.verification.check import Types
from step_runtime.verification.exact.inputs import whole_numbers
from step_runtime.verification.exact.trace import without_compiler
from step_runtime.verification.instance import TaskInstance
from step_runtime.verification.stress import Case, run_case

_NOISE = 2.0**-40
"""The relative noise that shows how far rounding may carry: 4096 times that of float64."""
_CARRIED = 2
"""The multiple of the spread under noise that rounding may explain, which the noise exceeds."""
_STEADY = 1e-3
"""A number that noise changes by more than this share, as by another choice, shows nothing."""
_CLOSE = 1e-9
_REPEATS = 3

Generator = torch.Generator
Kind = Callable[[Tensor, Generator], Tensor]


def _normal(like: Tensor, generator: Generator) -> Tensor:
    return torch.randn(like.shape, dtype=torch.float64, generator=generator)


def _chosen(*numbers: float) -> Kind:
    def draw(like: Tensor, generator: Generator) -> Tensor:
        places = torch.randint(len(numbers), like.shape, generator=generator)
        return torch.tensor(numbers, dtype=torch.float64)[places]

    return draw


def _rows(like: Tensor, generator: Generator) -> Tensor:
    """Rows that are all 0, all 1 and all -1."""
    rows = torch.randint(-1, 2, (*like.shape[:-1], 1), generator=generator) if like.dim() else torch.zeros(1)
    return rows.double().expand(like.shape)


_TIES = _chosen(-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)
_KINDS: Mapping[str, Kind] = {
    "of any sign": _normal,
    "positive": lambda like, generator: _normal(like, generator).abs() + 0.1,
    "of few values, with ties": _TIES,
    "with rows of one value": _rows,
    "of powers of 2": _chosen(*(sign * 2.0**exponent for exponent in range(-24, 25) for sign in (1, -1))),
    "huge and tiny": lambda like, generator: (
        _normal(like, generator) * _chosen(1e-12, 1e-6, 1e6, 1e12)(like, generator)
    ),
}
_FAR = (_KINDS["of powers of 2"], _KINDS["huge and tiny"])
"""Points at which right programs may overflow."""
POINTS = len(_KINDS)


def difference(
    instance: TaskInstance, program: Program, types: Types, limits: Limits, *, proved: bool, ties: bool
) -> tuple[str, bool] | None:
    """Where both differ in float64 by more than rounding, or one alone is finite; None if nowhere seen.

    In words; and whether both are finite there.

    Inputs keep what the task says of them: signs, ranges, numbers of ones. What is not proved is tried for real inputs
    only, and where both are finite; without `ties`, numbers are distinct.
    """
    for seed, (name, kind) in enumerate(_KINDS.items()):
        if (kind in (_rows, _TIES) and not ties) or (seed > 1 and not proved):
            continue
        try:
            data = _drawn(instance, kind, seed, proved=proved)
            run = functools.partial(_run, Case(program, types, instance), limits, data)
            found = _differs(run, instance, proved=proved, overflows=kind in _FAR)
        except (StepError, RuntimeError, MemoryError):
            found = None
        finally:
            instance.sample_inputs(0)
        if found is not None:
            return f"{found[0]}, on inputs {name}", found[1]
    return None


def _drawn(instance: TaskInstance, kind: Kind, seed: int, *, proved: bool) -> Mapping[str, Data]:
    generator = torch.Generator().manual_seed(seed)

    def redrawn(part: Tensor, spec: TensorSpec, element: Element) -> Tensor:
        """Numbers of the kind, within what the task says of them."""
        numbers, name = kind(part, generator), family(spec.data_gen) if spec.data_gen else ""
        if isinstance(element, Multihot):
            least, most = spec.min or 0, part.shape[-1] if spec.max is None else min(spec.max, part.shape[-1])
            sign = numbers[..., :1].sign()
            ones = torch.where(sign > 0, most, torch.where(sign < 0, least, (least + most) // 2))
            return (torch.rand(part.shape, generator=generator).argsort(-1).argsort(-1) < ones).to(part.dtype)
        if part.dtype == torch.bool or name == "binary":
            return (numbers > 0).to(part.dtype)
        if whole := whole_numbers(spec, instance.sizes):
            own = torch.randint(whole[0], whole[-1] + 1, part.shape, generator=generator)
            return torch.where(numbers.abs() > 0.5, torch.where(numbers > 0, whole[-1], whole[0]), own).to(part.dtype)
        if name == "uniform":
            return torch.where(numbers > 1, part.amax(), torch.where(numbers < -1, part.amin(), part))
        kept = "sums_to_1" in spec.assumes or name in ("one_hot", "torch.ones", "sorted")
        unsaid = not proved and (spec.assumes or name not in ("torch.rand", "torch.randn"))
        if kept or unsaid or not part.dtype.is_floating_point or not element.format.wide:
            return part
        if "positive" in spec.assumes:
            numbers = numbers.abs() + torch.finfo(part.dtype).tiny
        return (numbers.abs() if "nonnegative" in spec.assumes else numbers).to(part.dtype)

    return {
        spec.name: tuple(
            redrawn(part, spec, element)
            for part, element in zip(instance.sampled(seed % 2)[spec.name], components_of(stream.dtype), strict=True)
        )
        for _, spec, stream in instance.task.tensors()
    }


def _differs(
    run: Callable[[], tuple[Sequence[Data], Sequence[Data]]], instance: TaskInstance, *, proved: bool, overflows: bool
) -> tuple[str, bool] | None:
    results, expected = run()
    # Numbers that are both finite and apart, and those of which one alone is finite.
    suspects = [
        one.isfinite() & other.isfinite() & ((one - other).abs() > _CLOSE * torch.maximum(one.abs(), other.abs()))
        for one, other in _pairs(results, expected)
    ]
    apart = [(one.isfinite() != other.isfinite()) & proved for one, other in _pairs(results, expected)]
    if not any(bool(each.any()) for each in (*suspects, *apart)):
        return None
    spreads = [torch.zeros(each.shape, dtype=torch.float64) for each in suspects]
    for seed in range(_REPEATS):
        with without_compiler(), _Noise(seed) as noise:
            again = _pairs(*run())
        for spread, alone, before, after in zip(spreads, apart, _pairs(results, expected), again, strict=True):
            for one, other in zip(before, after, strict=True):
                torch.maximum(spread, (one - other).abs().nan_to_num(torch.inf, torch.inf).double(), out=spread)
                alone.logical_and_((one.isfinite() == other.isfinite()) & (not overflows or not noise.endless))
    names = [spec.name for spec, result in zip(instance.task.outputs, results, strict=True) for _ in result]
    pairs = _pairs(results, expected)
    for name, (one, other), suspect, alone, spread in zip(names, pairs, suspects, apart, spreads, strict=True):
        steady = spread <= _STEADY * torch.maximum(one.abs(), other.abs())
        # What overflows and is inverted is 0.
        told = torch.tensor(not (overflows and noise.endless)) | (one * other != 0)
        bad = alone | (suspect & steady & told & ((one - other).abs() > _CARRIED * spread))
        if bool(bad.any()):
            at = tuple(bad.nonzero()[0].tolist())
            shown = f"output {name} at {list(at)} is {float(one[at]):.9g}, expected {float(other[at]):.9g}"
            return shown, not bool(alone[at])
    return None


def _pairs(results: Sequence[Data], expected: Sequence[Data]) -> list[tuple[Tensor, Tensor]]:
    return [
        (one.double(), other.double())
        for result, reference in zip(results, expected, strict=True)
        for one, other in zip(result, reference, strict=True)
    ]


class _Noise(TorchDispatchMode):
    """Multiplies what operators give in float64 by random numbers about 1; `endless` if any of it is infinite."""

    def __init__(self, seed: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._generator = torch.Generator().manual_seed(seed)
        self.endless = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func.overloadpacket.__name__
        if name.startswith(_INSIDE):
            args = [self._noisy(one) for one in args]
        found = func(*args, **(kwargs or {}))
        return found if func.is_view or func._schema.is_mutable else self._noisy(found)

    def _noisy(self, found: Any) -> Any:
        if not isinstance(found, Tensor) or found.dtype != torch.float64 or not found.numel():
            return found
        self.endless |= bool(found.isinf().any())
        noise = torch.rand(found.shape, dtype=torch.float64, generator=self._generator) * 2 - 1
        return found * (1 + _NOISE * noise)


_INSIDE = ("native_", "_scaled_dot", "sum", "mean", "var", "std", "mm", "bmm", "mv", "dot", "addmm", "baddbmm")
"""Operators that also round inside, where what they add cancels: as if their operands were rounded."""


def _run(case: Case, limits: Limits, data: Mapping[str, Data]) -> tuple[Sequence[Data], Sequence[Data]]:
    """The results of the program and of the reference."""
    inputs = case.instance.use_inputs(data)
    reference = case.instance.reference()
    return run_case(case, inputs, limits), reference
