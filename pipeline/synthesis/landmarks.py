"""Landmarks: values that the reference computes on its way, and that a program is likely to compute, too.

The reference runs once for each of two inputs while every tensor that its operators make is recorded. Where one
expression runs several times, in a loop, its tensors together are a landmark, too: a Scan emits them. A value that does
not depend on the inputs, that an input or an output already has, or that holds little information, is not a landmark.
A stream has a landmark's value if one of its components holds the same numbers in any order, as streams and tensors may
differ in the order of their dims.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from math import prod
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pipeline.synthesis.value_blocks import RowLayout, close
from step_runtime.verification.instance import TaskInstance

MOST = 200
"""Landmarks of one task, the first to be computed."""
_MOST_NUMBERS = 2**18
_MOST_CALLS = 256
"""The calls of one expression that are recorded."""
_DISTINCT = 3
"""Different numbers that a landmark has at least, if they are whole."""
_LOOSE = 1e-6

_Site = tuple[object, ...]


class ReferenceRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records what the operators of an author's code give, by the place in the code."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.made: dict[_Site, list[Tensor]] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Otherwise torch imports its compiler, which takes a second, to keep it from compiling this class.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        place = _place()
        if not place:
            return result
        for number, tensor in enumerate(result if isinstance(result, tuple | list) else [result]):
            if isinstance(tensor, Tensor) and 0 < tensor.numel() <= _MOST_NUMBERS:
                calls = self.made.setdefault((place, str(func), number), [])
                if len(calls) < _MOST_CALLS:
                    # A later operator may write into it.
                    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
                    calls.append(real.detach().to(torch.float64).flatten().clone())
        return result


def _place() -> _Site:
    """The chain of calls in the author's code, which has file names such as `<task: global>`; empty outside it."""
    found = []
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if ": " in frame.f_code.co_filename:
            found.append((frame.f_code.co_filename, frame.f_code.co_name, frame.f_lasti))
        frame = frame.f_back
    return tuple(found)


def reference_values(instance: TaskInstance, seed: int) -> list[Tensor]:
    """What the reference computes for one input, each value flat: single results, then those of a loop together.

    Raises:
        TaskCodeError: The reference fails.
    """
    instance.sample_inputs(seed)
    with ReferenceRecorder() as recorder:
        instance.reference()
    values = []
    for calls in recorder.made.values():
        values.append(calls[-1])
        if len(calls) > 1:
            values += [calls[0], torch.cat(calls)]
    return values


class Landmarks:
    """The landmarks of a task that no stream has been found for yet.

    Args:
        values: What the reference computes for the observed input.
        others: The same for another input, in the same order; shorter or longer where the code took another way.
        known: Values that are no landmarks, flat.
    """

    def __init__(self, values: Sequence[Tensor], others: Sequence[Tensor], known: Iterable[Tensor]) -> None:
        self._sorted: dict[int, list[Tensor]] = {}
        seen: dict[int, list[Tensor]] = {}
        for value in known:
            seen.setdefault(value.numel(), []).append(_ordered(value))
        changed = [
            value
            for place, value in enumerate(values)
            if len(values) != len(others) or not torch.equal(value, others[place])
        ]
        for value in changed:
            ordered = _ordered(value)
            same = seen.setdefault(len(ordered), [])
            if self.count < MOST and _informative(ordered) and not any(_same(ordered, other) for other in same):
                same.append(ordered)
                self._sorted.setdefault(len(ordered), []).append(ordered)
        self.finite = all(bool(torch.isfinite(value).all()) for value in values)
        self._found: set[tuple[object, int, int]] = set()

    @property
    def count(self) -> int:
        """The number of landmarks."""
        return sum(map(len, self._sorted.values()))

    def wanted(self, layout: RowLayout) -> bool:
        """Whether a component of such streams may have a landmark's value."""
        return any(prod(shape) in self._sorted for shape in layout.shapes)

    def reached(self, kind: object, layout: RowLayout, values: Tensor) -> Iterator[int]:
        """The rows of a block with a landmark that no stream of this kind had before; one for each."""
        for part in layout.unpack(values):
            flat = part.reshape(len(values), -1)
            targets = self._sorted.get(flat.shape[1], [])
            if not targets:
                continue
            clean = _finite(flat)
            sums, squares, scale = clean.sum(1), clean.square().sum(1), clean.abs().sum(1)
            for number, target in enumerate(targets):
                key = (kind, flat.shape[1], number)
                if key in self._found:
                    continue
                total, square = target.sum(), target.square().sum()
                near = ((sums - total).abs() <= _LOOSE * scale) & ((squares - square).abs() <= _LOOSE * square)
                for row in near.nonzero().flatten().tolist():
                    if _same(_ordered(flat[row]), target):
                        self._found.add(key)
                        yield row
                        break


def _finite(values: Tensor) -> Tensor:
    return torch.nan_to_num(values, nan=0.5, posinf=7.0, neginf=-7.0)


def _ordered(values: Tensor) -> Tensor:
    return _finite(values.flatten()).sort().values


def _same(one: Tensor, other: Tensor) -> bool:
    return bool(close(one.unsqueeze(0), other.unsqueeze(0)).all())


def _informative(ordered: Tensor) -> bool:
    whole = bool((ordered == ordered.round()).all())
    return not whole or int((ordered.diff() != 0).sum()) + 1 >= _DISTINCT


def landmarks_of(instance: TaskInstance, seed: int) -> Landmarks:
    """The landmarks of a task on the data of a seed; its inputs and outputs are none.

    Raises:
        TaskCodeError: The reference fails.
    """
    others = reference_values(instance, seed + 1)
    values = reference_values(instance, seed)
    inputs = [part for parts in instance.sample_inputs(seed).values() for part in parts]
    outputs = [part for parts in instance.reference() for part in parts]
    return Landmarks(values, others, [part.to(torch.float64).flatten() for part in (*inputs, *outputs)])
