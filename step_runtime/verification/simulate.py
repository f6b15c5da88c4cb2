"""Runs a checked program on data: a functional simulator on torch (paper, Section 4.3).

Large streams that only an Accum reads are computed in parts, so that they are never held whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import torch

from step_runtime.base.errors import Diagnostic, RuleError, Span, StepError, out_of_memory
from step_runtime.base.shapes import Sizes, try_evaluate
from step_runtime.base.types import StreamType, components_of
from step_runtime.execution.applier import Applier, Data, StreamData, element_layout
from step_runtime.primitives import Frame, Operand
from step_runtime.program.graph import Program
from step_runtime.program.limits import PART, part_axis, part_size
from step_runtime.verification.check import Types


class NodeError(StepError):
    """An error at one primitive of a run; `cause` is the error, `span` the primitive's place."""

    def __init__(self, cause: StepError, span: Span | None) -> None:
        self.cause = cause
        self.span = span
        super().__init__(str(cause))

    def diagnostic(self, where: str) -> Diagnostic:
        """The finding; `where` names sizes and seed of the run."""
        cause = self.cause
        if isinstance(cause, RuleError):
            return Diagnostic("run", cause.code, cause.message, self.span, (*cause.details, where), cause.hint)
        hint = "this is the task's own code, not the program"
        code = "memory-limit" if out_of_memory(cause.__cause__) else "task-function"
        return Diagnostic("run", code, str(cause), self.span, (where,), hint)


def large_pipelines(program: Program, types: Sequence[StreamType], sizes: Sizes, itemsize: int) -> dict[int, list[int]]:
    """The nodes that run with an Accum, by its number: where one of their streams is larger than a part.

    Streams whose dims depend on the data count nothing.
    """
    feeding: dict[int, list[int]] = {}
    for index, reader in sorted(program.pipelined.items()):
        feeding.setdefault(reader, []).append(index)
    return {
        reader: nodes
        for reader, nodes in feeding.items()
        if max(_bytes(types[program.nodes[index].outputs[0]], sizes, itemsize) for index in nodes) > PART
    }


def run_in_parts(
    program: Program,
    types: Sequence[StreamType],
    values: Sequence[StreamData],
    feeding: Sequence[int],
    reader: int,
    frame: Frame,
) -> tuple[Data, ...]:
    """The results of an Accum whose input the nodes `feeding` compute, for a part of its outer dims at a time.

    Raises:
        NodeError: A function failed, or the time limit was exceeded.
    """
    chain = [*(program.nodes[index] for index in feeding), program.nodes[reader]]
    made = {stream for node in chain[:-1] for stream in node.outputs}
    taken = {stream for node in chain for stream in node.inputs} - made
    result = types[chain[-1].outputs[0]]
    kept = values[next(iter(taken))][0].shape[: len(result.shape)]
    axis = part_axis(kept)
    itemsize = (frame.applier.dtype or torch.get_default_dtype()).itemsize
    largest = max(_bytes(types[stream], frame.sizes, itemsize) for stream in made)
    step = part_size(largest, kept)
    parts: list[Data] = []
    for start in range(0, kept[axis], step):
        length = min(step, kept[axis] - start)
        here = {stream: tuple(part.narrow(axis, start, length) for part in values[stream]) for stream in taken}
        now: dict[int, StreamData] = dict(here)
        for node in chain:
            operands = [Operand(types[stream], now[stream]) for stream in node.inputs]
            try:
                found = node.op.run(operands, [types[stream] for stream in node.outputs], frame)
            except StepError as error:
                raise NodeError(error, node.span) from error
            now |= dict(zip(node.outputs, found, strict=True))
        parts.append(tuple(now[chain[-1].outputs[0]]))
    return (tuple(torch.cat(column, axis) for column in zip(*parts, strict=True)),)


def _bytes(stream: StreamType, sizes: Sizes, itemsize: int) -> int:
    """The bytes of a stream stored whole; 0 where its dims depend on the data."""
    count = itemsize
    for dim in stream.shape:
        if (size := try_evaluate(dim, sizes)) is None:
            return 0
        count *= size
    return count * sum(prod(element_layout(part, sizes)) for part in components_of(stream.dtype))


def simulate(
    program: Program,
    types: Types,
    inputs: Mapping[str, Data],
    sizes: Sizes,
    applier: Applier,
    enter: Callable[[int], None] | None = None,
) -> list[Data]:
    """The results' tensors, each of torch shape `reversed(shape) + layout`.

    Every primitive runs, whether or not its results are used, as all of them would on the chip. Streams that no later
    primitive needs are dropped as soon as they are consumed; large ones that only an Accum reads are computed with it,
    in parts. `enter` is called with each primitive's number before it runs.

    Raises:
        NodeError: The data broke a rule, a function failed, or the time limit was exceeded.
    """
    known = [stream for stream in types if stream is not None]
    if len(known) < len(types):
        raise RuleError("unchecked", "a program is simulated only after its check")
    frame = Frame(dict(sizes), applier)
    values: list[StreamData] = [inputs[name] for name in program.inputs]
    feeding = large_pipelines(program, known, sizes, (applier.dtype or torch.get_default_dtype()).itemsize)
    deferred = {index for nodes in feeding.values() for index in nodes}
    for index, node in enumerate(program.nodes):
        try:
            if enter is not None:
                enter(index)
            if index in deferred:
                values += [() for _ in node.outputs]
                continue
            if index in feeding:
                values += run_in_parts(program, known, values, feeding[index], index, frame)
            else:
                operands = [Operand(known[stream], values[stream]) for stream in node.inputs]
                values += node.op.run(operands, [known[stream] for stream in node.outputs], frame)
        except NodeError:
            raise
        except StepError as error:
            raise NodeError(error, node.span) from error
        for stream in program.dropped[index]:
            values[stream] = ()
        for early in feeding.get(index, ()):
            for stream in program.dropped[early]:
                values[stream] = ()
    return [tuple(values[stream]) for stream in program.results]
