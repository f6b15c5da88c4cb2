"""Runs a checked program on data: a functional simulator on torch (paper, Section 4.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from step_runtime.base.errors import RuleError, StepError
from step_runtime.base.shapes import Sizes
from step_runtime.execution.applier import Applier, Data, StreamData
from step_runtime.primitives import Frame, Operand
from step_runtime.program.graph import Program
from step_runtime.verification.check import Types
from step_runtime.verification.pipelines import NodeError, large_pipelines, run_in_parts


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
    last_use = {stream: index for index, node in enumerate(program.nodes) for stream in node.inputs}
    last_use |= dict.fromkeys(program.results, len(program.nodes))
    parts = large_pipelines(program, known, sizes, (applier.dtype or torch.get_default_dtype()).itemsize)
    last_use |= {stream: parts.reader[index] for index in parts.reader for stream in program.nodes[index].inputs}
    for index, node in enumerate(program.nodes):
        try:
            if enter is not None:
                enter(index)
            if index in parts.reader:
                values += [() for _ in node.outputs]
            elif index in parts.feeding:
                values += run_in_parts(program, known, values, parts.feeding[index], index, frame)
            else:
                operands = [Operand(known[stream], values[stream]) for stream in node.inputs]
                values += node.op.run(operands, [known[stream] for stream in node.outputs], frame)
        except NodeError:
            raise
        except StepError as error:
            raise NodeError(error, node.span) from error
        for stream, last in last_use.items():
            if last == index:
                values[stream] = ()
    return [tuple(values[stream]) for stream in program.results]
