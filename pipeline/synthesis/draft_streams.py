"""The streams of failed programs, for a search to start from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pipeline.synthesis.batch_execution import BatchExecutor
from pipeline.synthesis.search_budget import OutOfBudget
from pipeline.synthesis.seed_streams import SeedStream
from pipeline.synthesis.terms import DraftTerm
from pipeline.synthesis.value_blocks import ROWS, SeenValues, operand
from step_runtime.base.errors import RunError, StepError
from step_runtime.base.types import StreamType
from step_runtime.language.parser import parse
from step_runtime.primitives import Operand
from step_runtime.program.graph import Program, StreamId

MOST = 40
"""Streams of all drafts together, those of the nearest failures first."""


def draft_streams(executor: BatchExecutor, drafts: Iterable[str], inputs: Sequence[SeedStream]) -> list[SeedStream]:
    """The streams of drafts that differ in value, as far as the drafts run.

    Args:
        executor: Runs the drafts on the observed data.
        drafts: The programs, the nearest to a right one first.
        inputs: The task's inputs.

    Raises:
        OutOfBudget: The time is up.
    """
    found: list[SeedStream] = []
    seen: dict[StreamType, SeenValues] = {}
    for stream in inputs:
        seen.setdefault(stream.type, SeenValues()).new(stream.values)
    for text in drafts:
        program, wrong = parse(text, executor.space.scope)
        for stream in () if wrong else streams_of(executor, program, inputs):
            if len(found) < MOST and len(seen.setdefault(stream.type, SeenValues()).new(stream.values)):
                found.append(stream)
    return found


def streams_of(executor: BatchExecutor, program: Program, inputs: Sequence[SeedStream]) -> Iterator[SeedStream]:
    """The streams that a program's functions make, up to the first primitive that fails.

    Raises:
        OutOfBudget: The time is up.
    """
    streams: dict[StreamId, Operand] = {
        place: operand(stream.type, executor.layout(stream.type), stream.values) for place, stream in enumerate(inputs)
    }
    for node in program.nodes:
        executor.spend(1 if node.op.functions() else 0)
        if any(stream not in streams for stream in node.inputs):
            continue
        try:
            made = executor.add(node.op, *(streams[stream] for stream in node.inputs))
        except RunError as error:
            if error.code == "time-limit":
                raise OutOfBudget("time") from None
            return
        except StepError:
            return
        streams |= zip(node.outputs, made, strict=True)
        for number, result in zip(node.outputs, made, strict=True):
            *shape, rows = result.type.shape
            # A routed stream has one dim, in which the rows of a block are no longer apart.
            if node.op.functions() and rows == ROWS:
                type_ = StreamType(result.type.dtype, tuple(shape))
                values = executor.layout(type_).pack(tuple(result.data), 1)
                yield SeedStream(type_, values, DraftTerm(program, number), 1)
