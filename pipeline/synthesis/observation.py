"""What a search observes of a task: its data of one seed, and of a second one where a value may agree by chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torch import Tensor

from pipeline.synthesis.batch_execution import BatchExecutor
from pipeline.synthesis.landmarks import landmarks_of
from pipeline.synthesis.lowering import ProgramBuilder
from pipeline.synthesis.seed_streams import SeedStream
from pipeline.synthesis.terms import InputTerm, Term, TermWriter
from pipeline.synthesis.value_blocks import close, sane
from step_runtime.base.errors import StepError
from step_runtime.base.types import StreamType
from step_runtime.execution.applier import Applier
from step_runtime.execution.deadline import Deadline
from step_runtime.tasks.task import Task
from step_runtime.verification.check import infer_types
from step_runtime.verification.instance import TaskInstance, instances
from step_runtime.verification.simulate import simulate

SEED = 0
"""The seed of the data on which values are observed; landmarks also hold at the next one, and the verifier has more."""


def least_instance(task: Task) -> TaskInstance:
    """The task at the sizes at which its inputs hold the fewest numbers."""
    return min(instances(task), key=_numbers)


def _numbers(instance: TaskInstance) -> int:
    """Numbers in all inputs."""
    return sum(part.numel() for parts in instance.sample_inputs(SEED).values() for part in parts)


class Observation:
    """A task's inputs, the values of its outputs, and its landmarks.

    Attributes:
        inputs: The streams of the inputs.
        wanted: The outputs' values, each one row.
        landmarks: Values that the reference computes.
        sane_only: Whether neither the outputs nor what the reference computes has infinite or huge numbers.

    Raises:
        TaskCodeError: The reference fails.
    """

    def __init__(self, instance: TaskInstance, executor: BatchExecutor) -> None:
        self._instance, self._executor = instance, executor
        self._applier = Applier(instance.dtype, Deadline.at(executor.deadline))
        self.landmarks = landmarks_of(instance, SEED)
        data, scope = instance.sample_inputs(SEED), instance.scope
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

    def is_output(self, stream: SeedStream) -> bool:
        """Whether a stream has the numbers of an output."""
        outputs = zip(self._instance.scope.outputs, self.wanted, strict=True)
        return any(type_ == stream.type and bool(close(stream.values, value)) for type_, value in outputs)

    def reached(self, type_: StreamType, values: Tensor, term: Callable[[int], Term]) -> Iterator[int]:
        """The rows of a block of streams, made by these terms, that have landmarks for both seeds.

        The only output is not a landmark: nothing is left to search for behind it.
        """
        outputs = self._instance.scope.outputs
        for row in self.landmarks.reached(
            type_, self._executor.layout(type_), values, lambda row: self._at_next_seed(type_, term(row))
        ):
            if outputs != (type_,) or not bool(close(values[row : row + 1], self.wanted[0])):
                yield row

    def _at_next_seed(self, type_: StreamType, term: Term) -> Tensor | None:
        """The values of a stream for another input; None where it fails."""
        builder = ProgramBuilder(self._instance.scope)
        program = builder.program((TermWriter(builder).stream(term),))
        types = infer_types(program, self._instance.scope)[0]
        try:
            data = simulate(
                program, types, self._instance.sample_inputs(SEED + 1), self._instance.sizes, self._applier
            )[0]
        except StepError:
            return None
        finally:
            self._instance.sample_inputs(SEED)
        return self._executor.layout(type_).pack(data, 1)
