"""What a search observes of a task: its data of the seed that tells most, and of a second one for landmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from pipeline.synthesis.batch_execution import BatchExecutor
from pipeline.synthesis.landmarks import Landmarks
from pipeline.synthesis.lowering import ProgramBuilder
from pipeline.synthesis.reference_values import ReferenceValue, reference_values
from pipeline.synthesis.terms import InputTerm, SeedStream, Term, TermWriter
from pipeline.synthesis.value_blocks import close, digests, finite, sane
from step_runtime.base.errors import StepError
from step_runtime.base.types import StreamType
from step_runtime.execution.applier import Applier
from step_runtime.execution.deadline import Deadline
from step_runtime.tasks.task import Task
from step_runtime.verification.check import infer_types
from step_runtime.verification.instance import TaskInstance, instances
from step_runtime.verification.simulate import simulate

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
