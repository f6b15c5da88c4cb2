"""Runs a checked program on data: a functional simulator on torch (paper, Section 4.3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from step_runtime.batching import Applier, Data, StreamData
from step_runtime.check import Types
from step_runtime.errors import RuleError, Span, StepError
from step_runtime.primitives import Frame, Operand
from step_runtime.program import Program, StreamId
from step_runtime.shapes import Sizes, StreamType


class NodeError(StepError):
    """What went wrong at one primitive of a run; `cause` is the error, `span` the primitive's place."""

    def __init__(self, cause: StepError, span: Span | None) -> None:
        self.cause = cause
        self.span = span
        super().__init__(str(cause))


def simulate(program: Program, types: Types, inputs: Mapping[str, Data], sizes: Sizes, applier: Applier) -> list[Data]:
    """The results' tensors, each of torch shape `reversed(shape) + layout`.

    Every primitive runs, used or not, as all of them would on the chip. Streams that no later primitive
    needs are dropped as soon as they are consumed.

    Raises:
        NodeError: a rule was broken by the data, a function failed, or the time was up.
    """
    frame = Frame(dict(sizes), applier)
    values: dict[StreamId, StreamData] = {index: inputs[name] for index, name in enumerate(program.inputs)}
    last_use = {stream: index for index, node in enumerate(program.nodes) for stream in node.inputs}
    kept = set(program.results)
    for index, node in enumerate(program.nodes):
        operands = [Operand(_known(types, stream), values[stream]) for stream in node.inputs]
        outputs = [_known(types, stream) for stream in node.outputs]
        try:
            results = node.op.run(operands, outputs, frame)
        except StepError as error:
            raise NodeError(error, node.span) from error
        values |= dict(zip(node.outputs, results, strict=True))
        for stream in node.inputs:
            if last_use[stream] == index and stream not in kept:
                values.pop(stream, None)
    return [tuple(values[stream]) for stream in program.results]


def _known(types: Sequence[StreamType | None], stream: StreamId) -> StreamType:
    known = types[stream]
    if known is None:
        raise RuleError("unchecked", "a program is simulated only after its check")
    return known
