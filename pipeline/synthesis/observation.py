"""What a search observes of a task: its data of the seed that tells most, and of a second one for landmarks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import torch
from torch import Tensor

from pipeline.synthesis.batch_execution import BatchExecutor
from pipeline.synthesis.lowering import ProgramBuilder
from pipeline.synthesis.reference_values import ReferenceValue, reference_values
from pipeline.synthesis.rules import InputTerm, SeedStream, Term, TermWriter
from pipeline.synthesis.value_blocks import RowLayout, close, digests, finite, sane
from step_runtime.base.errors import StepError
from step_runtime.base.types import StreamType
from step_runtime.execution.applier import Applier
from step_runtime.execution.deadline import Deadline
from step_runtime.tasks.task import Task
from step_runtime.verification.check import infer_types
from step_runtime.verification.instance import TaskInstance, instances
from step_runtime.verification.simulate import simulate

MOST = 200
"""Landmarks of one task, the first to be computed."""
_DISTINCT = 3
"""Different numbers that a landmark has at least, if they are whole and in any order."""
_FEWEST_BITS = 8
"""Numbers that a landmark of fewer different ones has at least."""
_LOOSE = 1e-6
_HUGE = 1e20
"""Numbers from which on one counts as infinite."""
_FEWEST = 4
"""Numbers that a landmark has at least for its multiples to count."""
_MOST_ORDERS = 3
"""Streams of one type that count for a landmark, if they differ: its transpose has its numbers in another order."""
_MOST_TOGETHER = 2**20
"""Pairs of a row and a landmark that are compared at a time, by their sums and norms."""
_MOST_CHANCES = 16
"""Streams that are tried for the other input before a landmark no longer counts, for each of them."""

_Place: TypeAlias = tuple[int, int]
"""A landmark's size, and its number among those of this size."""
_Key: TypeAlias = tuple[object, int, int, bool]
"""A kind of streams, a landmark's size and number, and whether the stream has the landmark itself or a multiple."""


@dataclass(frozen=True)
class _Mark:
    """A landmark: its numbers, ascending unless they are `in_order` of the value, with their sum and norm.

    `other` is the same for another input, if that says enough.
    """

    numbers: Tensor
    in_order: bool
    total: float
    norm: float
    line: str
    other: _Mark | None

    @classmethod
    def of(cls, value: Tensor, line: str = "", other: Tensor | None = None) -> _Mark | None:
        """The landmark of a flat value, computed in a line; None if it says too little to be one."""
        ordered = _ordered(value)
        different = int((ordered.diff() != 0).sum()) + 1
        whole = bool((ordered == ordered.round()).all())
        in_order = whole and different < _DISTINCT
        if (different < 2 and whole) or (in_order and len(ordered) < _FEWEST_BITS):
            return None
        numbers = _plain(value) if in_order else ordered
        total, norm = float(numbers.sum()), float(numbers.square().sum().sqrt())
        return cls(numbers, in_order, total, norm, line, None if other is None else cls.of(other))

    def holds(self, value: Tensor, ratio: float) -> bool:
        """Whether a value of the other input has the landmark, too; or any multiple, if it had one other than 1."""
        found = self.other.ratio(value) if self.other else ratio
        return found == 1 if ratio == 1 else bool(found)

    def ratio(self, value: Tensor) -> float:
        """What a value is a multiple of the landmark by, 1 for the same; 0 if it is none."""
        if self.in_order:
            return float(_same(_plain(value), self.numbers))
        ordered = _ordered(value)
        if _same(ordered, self.numbers):
            return 1.0
        size = float(ordered.square().sum().sqrt()) / self.norm if self.norm else 0.0
        if len(self.numbers) >= _FEWEST and 0 < size < math.inf:
            for ratio, scaled in ((size, self.numbers * size), (-size, (self.numbers * -size).flip(0))):
                if _same(ordered, scaled):
                    return ratio
        return 0.0


class Landmarks:
    """The landmarks of a task that no stream has been found for yet.

    Args:
        values: What the reference computes for the observed input.
        others: The same for another input, in the same order; shorter or longer where the code took another way.
        known: Values that are no landmarks, flat.
    """

    def __init__(
        self, values: Sequence[ReferenceValue], others: Sequence[ReferenceValue], known: Iterable[Tensor]
    ) -> None:
        self._marks: dict[int, list[_Mark]] = {}
        seen: dict[int, list[_Mark]] = {}
        for value in known:
            if mark := _Mark.of(value):
                seen.setdefault(len(value), []).append(mark)
        alike = len(values) == len(others)
        for place, (line, value) in enumerate(values):
            other = others[place].value if alike else None
            if other is not None and torch.equal(value, other):
                continue
            mark, same = _Mark.of(value, line, other), seen.setdefault(len(value), [])
            if mark and self.count < MOST and not any(known.ratio(value) == 1 for known in same):
                same.append(mark)
                self._marks.setdefault(len(value), []).append(mark)
        self.finite = all(bool(torch.isfinite(value).all()) for _, value in values)
        self._found: dict[_Key, set[int]] = {}
        self._chances: Counter[_Key] = Counter()
        self._figures = {
            size: torch.tensor([(abs(mark.total), mark.norm) for mark in marks], dtype=torch.float64).T.unsqueeze(2)
            for size, marks in self._marks.items()
        }
        self._ratios: dict[tuple[int, int, int, int], float] = {}
        self._passed_on: dict[_Place, int] = {}
        self._exact: set[_Place] = set()

    @property
    def count(self) -> int:
        """The number of landmarks."""
        return sum(map(len, self._marks.values()))

    def missed(self) -> tuple[str, ...]:
        """The lines of the reference none of whose values a stream has had, in order."""
        lines: dict[str, bool] = {}
        for size, marks in self._marks.items():
            for number, mark in enumerate(marks):
                if mark.line:
                    lines[mark.line] = lines.get(mark.line, False) or (size, number) in self._passed_on
        return tuple(line for line, found in lines.items() if not found)

    def wanted(self, layout: RowLayout) -> bool:
        """Whether a component of such streams may have a landmark's value."""
        return any(prod(shape) in self._marks for shape in layout.shapes)

    def reached(
        self,
        kind: object,
        layout: RowLayout,
        values: Tensor,
        elsewhere: Callable[[int], Tensor | None] = lambda row: None,
    ) -> Iterator[int]:
        """The rows of a block that have a landmark, or a multiple of it, that few streams of this kind had before.

        A component of a tuple, and a stream that repeats numbers, count only for a landmark that no stream has had
        that repeats them as rarely: functions pass components on.
        `elsewhere` gives the value of a row for the other input, or None if there is none: what is a landmark by
        chance is none there.
        """
        for component, part in enumerate(layout.unpack(values)):
            flat = part.reshape(len(values), -1)
            for place, times, rows in self._near(flat, part_only=len(layout.shapes) > 1):
                mark = self._marks[place[0]][place[1]]
                near = flat[rows]
                for row, digest, own in zip(rows, digests(near).tolist(), near, strict=True):
                    # Most were here in another round. Digests do not tell small numbers apart beside a mask's.
                    judged = *place, times, hash(own.numpy().tobytes())
                    if judged not in self._ratios:
                        once = _once(own, times)
                        self._ratios[judged] = 0.0 if once is None else mark.ratio(once)
                    ratio = self._ratios[judged]
                    key = (kind, *place, ratio == 1)
                    if not ratio or not self._may_count(key, digest):
                        continue
                    self._chances[key] += 1
                    other = elsewhere(row)
                    other = None if other is None else _once(layout.unpack(other)[component].reshape(-1), times)
                    if other is None or mark.holds(other, ratio):
                        self._found.setdefault(key, set()).add(digest)
                        self._passed_on[place] = min(times, self._passed_on.get(place, times))
                        self._exact |= {place} if ratio == 1 else set()
                        yield row

    def _near(self, flat: Tensor, *, part_only: bool) -> Iterator[tuple[_Place, int, list[int]]]:
        """Landmarks, each with how often rows hold each of its numbers, and the rows that sums and norms allow."""
        if not (sizes := [own for own in self._marks if flat.shape[1] % own == 0]):
            return
        clean = _plain(flat)
        sums, norms, scale = clean.sum(1).abs(), clean.square().sum(1).sqrt(), clean.abs().sum(1)
        together = max(1, _MOST_TOGETHER // len(flat))
        for own in sizes:
            marks, times = self._marks[own], flat.shape[1] // own
            for start in range(0, len(marks), together):
                totals, own_norms = self._figures[own][:, start : start + together]
                # Of numbers that are repeated, the sum grows with the times, the norm with their root.
                gaps = (sums * own_norms - norms * totals * math.sqrt(times)).abs()
                near = gaps <= _LOOSE * scale * own_norms
                for number in near.any(1).nonzero().flatten().tolist():
                    place = own, start + number
                    fresh = (times == 1 and not part_only) or self._passed_on.get(place, times + 1) > times
                    if fresh and (times == 1 or not marks[place[1]].in_order):
                        yield place, times, near[number].nonzero().flatten().tolist()

    def _may_count(self, key: _Key, digest: int) -> bool:
        """Whether a value, or its multiple, may count: few do for each landmark and kind, no multiple after itself."""
        _, size, number, exact = key
        found = self._found.get(key, set())
        most = _MOST_ORDERS if exact else 1
        spent = len(found) == most or self._chances[key] >= most * _MOST_CHANCES
        return not spent and digest not in found and (exact or (size, number) not in self._exact)


def _once(value: Tensor, times: int) -> Tensor | None:
    """The numbers of a value that holds each of them so many times; None if it does not."""
    if times == 1:
        return value
    columns = _ordered(value).reshape(-1, times)
    return columns[:, 0] if _same(columns[:, 0], columns[:, -1]) else None


def _plain(values: Tensor) -> Tensor:
    """The values with fixed numbers in place of NaN, infinities and huge ones."""
    return finite(torch.where(values.abs() >= _HUGE, values.sign() * math.inf, values))


def _ordered(values: Tensor) -> Tensor:
    return _plain(values.flatten()).sort().values


def _same(one: Tensor, other: Tensor) -> bool:
    return bool(close(one.unsqueeze(0), other.unsqueeze(0)).all())


SEEDS = range(8)
"""Those whose data may be observed; the verifier has more."""


def telling_runs(instance: TaskInstance) -> list[tuple[int, list[ReferenceValue]]]:
    """Seeds with what the reference computes on their data, first where most values and inputs differ from each other.

    Where two of them agree by chance, so do different programs: a ReLU of positive numbers, a choice never made.

    Raises:
        TaskCodeError: The reference fails.
    """
    runs = [(seed, reference_values(instance, seed)) for seed in SEEDS]
    return sorted(runs, key=lambda run: -_distinct([*flat_inputs(instance, run[0]), *(value for _, value in run[1])]))


def _distinct(values: Sequence[Tensor]) -> int:
    return len({(len(value), *digests(finite(value).unsqueeze(0))) for value in values})


def flat_inputs(instance: TaskInstance, seed: int) -> list[Tensor]:
    """The numbers of every input."""
    return [part.to(torch.float64).flatten() for parts in instance.sample_inputs(seed).values() for part in parts]


def least_instance(task: Task) -> TaskInstance:
    """The task at the sizes at which its inputs hold the fewest numbers."""
    return min(instances(task), key=_numbers)


def _numbers(instance: TaskInstance) -> int:
    """Numbers in all inputs."""
    return sum(part.numel() for parts in instance.sample_inputs(SEEDS[0]).values() for part in parts)


class Observation:
    """A task's inputs, the values of its outputs, and its landmarks.

    Attributes:
        seed: The seed of the data.
        inputs: The streams of the inputs.
        wanted: The outputs' values, each one row.
        landmarks: Values that the reference computes.
        sane_only: Whether neither the outputs nor what the reference computes has infinite or huge numbers.

    Raises:
        TaskCodeError: The reference fails.
    """

    def __init__(self, instance: TaskInstance, executor: BatchExecutor) -> None:
        self._instance, self._executor = instance, executor
        self._applier = Applier(instance.dtype, Deadline.at(executor.clock))
        (self.seed, values), (self._other, others), *_ = telling_runs(instance)
        self.landmarks = Landmarks(values, others, flat_inputs(instance, self.seed))
        data, scope = instance.sample_inputs(self.seed), instance.scope
        self.wanted = [
            executor.layout(type_).pack(parts, 1)
            for type_, parts in zip(scope.outputs, instance.reference(), strict=True)
        ]
        self.inputs = [
            SeedStream(type_, executor.layout(type_).pack(parts, 1), InputTerm(place), 0)
            for place, (type_, parts) in enumerate(zip(scope.inputs.values(), data.values(), strict=True))
        ]
        self.sane_only = self.landmarks.finite and all(bool(sane(value).all()) for value in self.wanted)

    def has_landmark(self, stream: SeedStream) -> bool:
        """As `reached`, for one stream."""
        return bool(list(self.reached(stream.type, stream.values, lambda _: stream.term)))

    def reached(self, type_: StreamType, values: Tensor, term: Callable[[int], Term]) -> Iterator[int]:
        """The rows of a block of streams, made by these terms, that have landmarks for both seeds.

        The only output is not a landmark: nothing is left to search for behind it.
        """
        outputs = self._instance.scope.outputs
        for row in self.landmarks.reached(
            type_, self._executor.layout(type_), values, lambda row: self._elsewhere(type_, term(row))
        ):
            if outputs != (type_,) or not bool(close(values[row : row + 1], self.wanted[0])):
                yield row

    def _elsewhere(self, type_: StreamType, term: Term) -> Tensor | None:
        """The values of a stream for another input; None where it fails."""
        builder = ProgramBuilder(self._instance.scope)
        program = builder.program((TermWriter(builder).stream(term),))
        types = infer_types(program, self._instance.scope)[0]
        try:
            data = simulate(
                program, types, self._instance.sample_inputs(self._other), self._instance.sizes, self._applier
            )[0]
        except StepError:
            return None
        finally:
            self._instance.sample_inputs(self.seed)
        return self._executor.layout(type_).pack(data, 1)
