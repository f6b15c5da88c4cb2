"""Whether both ends of a dim matter to a fold: the elements there, and the changes that they cause.

A recurrence that decays by 1e-4 a step depends on its first elements by less than the comparison's tolerance after two
steps: a program that reads the last two elements alone passes. No check of whole inputs sees that, as they change much.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from step_runtime.base.errors import TaskCodeError, TaskWarning
from step_runtime.base.shapes import Dim
from step_runtime.base.types import Buffer, Element, StreamType, components_of
from step_runtime.execution.invocation import Data
from step_runtime.execution.number_formats import exact, is_rounded
from step_runtime.tasks.task import Task, TensorSpec
from step_runtime.verification.compare import matches
from step_runtime.verification.instance import TaskInstance

_SAMPLES = 5
"""Inputs at all of which a change has to be negligible."""
_NOISE = 1e-13
"""Changes, relative to the largest number of an output, that rounding may make."""
_SHORT = 2
"""The size of a dim up to which a fold may read all of it and still be short."""
_LARGEST = 2**20
"""The most numbers of a task's data with which checks of it may run its references often."""

_Reach = list[tuple[Tensor, Tensor]]
"""Which parts of each output a change reaches: at all, and beyond the tolerance."""


def negligible_ends(task: Task, tried: Sequence[TaskInstance]) -> Iterator[TaskWarning]:
    """The inputs of which one end of a dim changes part of an output by less than the tolerance, at all sizes.

    A part is what an output has at one index of the same dim, and all of an output without that dim.
    """
    able = [_Trials(one) for one in sorted(tried, key=_numbers) if is_small(one)]
    for index, (spec, stream) in enumerate(zip(task.inputs, task.input_types, strict=True)):
        for axis, dim in enumerate(_dims(stream)):
            longer = [one for one in able if one.data(spec.name, 0)[0].shape[axis] > _SHORT]
            for end, name in ((0, "first"), (-1, "last")):
                if longer and all(one.forgotten(index, axis, end) for one in longer):
                    message = (
                        f"the {name} elements of input {spec.name} along {dim} change part of an output, and by less"
                        " than the comparison's tolerance: a program that leaves them out there passes"
                    )
                    yield TaskWarning("negligible-input", message, ("inputs", index))


def is_small(instance: TaskInstance) -> bool:
    """Whether the references take so little data that they may run often."""
    return _numbers(instance) <= _LARGEST


def _numbers(instance: TaskInstance) -> int:
    """The numbers of all data of a sample."""
    return sum(part.numel() for data in instance.sampled(0).values() for part in data)


class _Trials:
    """What the references of an instance make of other numbers at the ends of its inputs' dims."""

    def __init__(self, instance: TaskInstance) -> None:
        self._instance = instance
        self._values: dict[int, list[Data]] = {}

    def data(self, name: str, seed: int) -> Data:
        """The data of an input at a seed."""
        return self._instance.sampled(seed)[name]

    def forgotten(self, index: int, axis: int, end: int) -> bool:
        """Whether elements towards one end of a dim of an input change a part of an output by less than the tolerance.

        Where those at the end change nothing at all, others are tried, at powers of two from the other end: numbers
        may be lost in rounding on their way, or an output does without some.
        """
        size = self.data(self._instance.task.inputs[index].name, 0)[0].shape[axis]
        first = self._reach(index, axis, end, 0)
        if any(bool(changed.any()) for changed, _ in first):
            return self._negligible(index, axis, end, first)
        distances = [2**power for power in range(size.bit_length()) if 2**power < size]
        positions = [size - 1 - distance if end == 0 else distance for distance in distances]
        return any(self._negligible(index, axis, position) for position in positions)

    def _negligible(self, index: int, axis: int, position: int, first: _Reach | None = None) -> bool:
        """Whether what is at a position of a dim changes a part of an output, and beyond tolerance at no sample.

        `first` is what it changes at the first sample, if that is known.
        """
        first = first or self._reach(index, axis, position, 0)
        doubtful = [changed & ~beyond for changed, beyond in first]
        for seed in range(1, _SAMPLES):
            if not any(bool(one.any()) for one in doubtful):
                return False
            reach = self._reach(index, axis, position, seed)
            doubtful = [one & ~beyond for one, (_, beyond) in zip(doubtful, reach, strict=False)]
        return any(bool(one.any()) for one in doubtful)

    def _reach(self, index: int, axis: int, position: int, seed: int) -> _Reach:
        """What other numbers at a position of a dim change; nothing where the reference fails on them."""
        task = self._instance.task
        spec, dim = task.inputs[index], _dims(task.input_types[index])[axis]
        pairs = zip(self.data(spec.name, seed), self.data(spec.name, seed + _SAMPLES), strict=True)
        mixed = tuple(_with_other(one, other, axis, position) for one, other in pairs)
        try:
            values, others = self._reference(seed), self._reference(seed, (spec, mixed))
        except TaskCodeError:  # data that is not of its kind any more
            return []
        finally:
            self._instance.sample_inputs(0)
        return [
            pair
            for one, other, stream in zip(values, others, task.output_types, strict=True)
            for pair in _parts(one, other, _axis(stream, dim))
        ]

    def _reference(self, seed: int, replaced: tuple[TensorSpec, Data] | None = None) -> list[Data]:
        """The outputs' references at a seed, with the data of one input replaced."""
        if replaced is None and seed in self._values:
            return self._values[seed]
        self._instance.sample_inputs(seed)
        if replaced is not None:
            self._instance.replace_input(*replaced)
            return self._instance.reference()
        return self._values.setdefault(seed, self._instance.reference())


def _axis(stream: StreamType, dim: Dim) -> int | None:
    """The axis of an output's tensor that is a dim; None if none is."""
    dims = _dims(stream)
    return dims.index(dim) if dim in dims else None


def _dims(stream: StreamType) -> tuple[Dim, ...]:
    """The dims of a stream's tensors: its own, and those of its Buffers, where all components have the same."""
    own = tuple(reversed(stream.shape))
    inner = {_buffered(element) for element in components_of(stream.dtype)}
    return (*own, *inner.pop()) if len(inner) == 1 else own


def _buffered(element: Element) -> tuple[Dim, ...]:
    """The dims of a Buffer; none of other elements."""
    return tuple(reversed(element.dims)) if isinstance(element, Buffer) else ()


def _parts(one: Data, other: Data, axis: int | None) -> Iterator[tuple[Tensor, Tensor]]:
    """Which parts of an output differ: at all, and beyond the tolerance; rounded formats are left out."""
    for before, after in zip(one, other, strict=True):
        if not is_rounded(before.dtype) and before.shape == after.shape:
            yield _by_part(_differ(before, after), axis), _by_part(~matches(before, after), axis)


def _by_part(changed: Tensor, axis: int | None) -> Tensor:
    """Whether each part has an element of which it holds."""
    return (
        changed.any().reshape(1) if axis is None else changed.movedim(axis, 0).reshape(changed.shape[axis], -1).any(1)
    )


def _with_other(data: Tensor, other: Tensor, axis: int, position: int) -> Tensor:
    mixed = data.clone()
    mixed.select(axis, position).copy_(other.select(axis, position))
    return mixed


def _differ(one: Tensor, other: Tensor) -> Tensor:
    """Where two values differ by more than rounding makes of them."""
    before, after = exact(one), exact(other)
    scale = before.abs().nan_to_num(0.0, 0.0, 0.0).max() if before.numel() else 0.0
    return (before - after).abs() > _NOISE * scale
