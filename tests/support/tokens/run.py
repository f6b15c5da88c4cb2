"""Runs a whole program on tokens, primitive after primitive."""

from collections.abc import Mapping, Sequence

from step_runtime.base.types import StreamType
from step_runtime.program.graph import Program
from tests.support.tokens.sequence import Tokens, Value, check_shape, decode, encode, join, split
from tests.support.tokens.transformers import transformed


def run_tokens(
    program: Program, types: Sequence[StreamType | None], inputs: Mapping[str, Value], sizes: Mapping[str, int]
) -> list[Value]:
    """The results' tensors, each of torch shape `reversed(shape) + layout`, in float64.

    `types` are those of all streams, as the check infers them; `inputs` hold float64 tensors in the same form
    as the results.

    Raises:
        RunError: the data breaks a rule.
        ValueError: a stream does not follow its type's shape, which a checked program cannot bring about.
    """
    sizes = dict(sizes)
    streams = trace_tokens(program, types, inputs, sizes)
    return [decode(streams[stream], _known(types, stream), sizes) for stream in program.results]


def trace_tokens(
    program: Program, types: Sequence[StreamType | None], inputs: Mapping[str, Value], sizes: dict[str, int]
) -> list[Tokens]:
    """The tokens of every stream, by its number; `sizes` gains those of the dims that the data decides.

    Raises:
        RunError: the data breaks a rule.
        ValueError: a stream does not follow its type's shape, which a checked program cannot bring about.
    """
    streams = [encode(inputs[name], _known(types, number).rank) for number, name in enumerate(program.inputs)]
    for node in program.nodes:
        ins = [_known(types, number) for number in node.inputs]
        outs = [_known(types, number) for number in node.outputs]
        spelled = [split(streams[number], stream.rank) for number, stream in zip(node.inputs, ins, strict=True)]
        for result, out in zip(transformed(node.op, spelled, ins, outs, sizes), outs, strict=True):
            streams.append(join(result))
            check_shape(streams[-1], out, sizes)
    return streams


def _known(types: Sequence[StreamType | None], number: int) -> StreamType:
    stream = types[number]
    if stream is None:
        raise ValueError("a program is run only after its check")
    return stream
