"""Runs a whole program on tokens, primitive after primitive."""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch

from step_runtime import primitives as p
from step_runtime.base.shapes import Sizes, evaluate, torch_shape
from step_runtime.base.types import Buffer, StreamType, components_of
from step_runtime.program.graph import Program
from tests.support.tokens import transformers as t
from tests.support.tokens.sequence import (
    Stop,
    Token,
    Tokens,
    Value,
    check_shape,
    decode,
    encode,
    gather,
    join,
    nest,
    split,
)


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
        for result, out in zip(_transform(node.op, spelled, ins, outs, sizes), outs, strict=True):
            streams.append(join(result))
            check_shape(streams[-1], out, sizes)
    return streams


def _known(types: Sequence[StreamType | None], number: int) -> StreamType:
    stream = types[number]
    if stream is None:
        raise ValueError("a program is run only after its check")
    return stream


def _transform(
    op: p.Primitive,
    streams: list[Iterator[Token]],
    ins: Sequence[StreamType],
    outs: Sequence[StreamType],
    sizes: dict[str, int],
) -> Sequence[Iterable[Token]]:
    match op:
        case p.Copy():
            tokens = list(streams[0])
            return [tokens, tokens]
        case p.Partition():
            return _partition(streams, ins, outs, sizes)
        case p.Merge(fn=fn):
            *data, index = streams
            blank = list(nest((torch.zeros(torch_shape(ins[0].shape[:-1], sizes)),), ins[0].rank))
            return [t.merge(fn, blank, data, index)]
        case p.Map(fn=fn):
            return [t.map_values(fn, functools.reduce(t.zip_streams, streams))]
        case p.Zip():
            return [t.zip_streams(*streams)]
        case p.Accum(fn=fn, b=b):
            return [t.accum(fn, b, streams[0])]
        case p.Scan(fn=fn, b=b):
            return [t.scan(fn, b, streams[0])]
        case p.RepeatRef():
            return [t.repeat_ref(*streams)]
    return [_reshaped(op, streams[0], ins[0], sizes)]


def _reshaped(op: p.Primitive, stream: Iterable[Token], kind: StreamType, sizes: Sizes) -> Iterable[Token]:
    match op:
        case p.Identity():
            return stream
        case p.Promote(b=b):
            return t.promote(b, stream)
        case p.Flatten(L=dims):
            return t.flatten(dims[0], dims[-1], stream)
        case p.Reshape(L=dims, S=size):
            # From the outermost on, so that the indices of those left stay as they are.
            for index in sorted(dims, reverse=True):
                stream = t.reshape(index, evaluate(size, sizes), stream)
            return stream
        case p.Repeat(n=n):
            return t.repeat(evaluate(n, sizes), stream)
        case p.Bufferize(a=a):
            return _bufferize(a, stream, kind, sizes)
        case p.Streamify():
            return t.streamify(len(kind.dtype.dims) if isinstance(kind.dtype, Buffer) else 0, stream)
    raise ValueError(f"no meaning is known for {op.name}")


def _bufferize(a: int, stream: Iterable[Token], kind: StreamType, sizes: Sizes) -> Iterator[Token]:
    shape = torch_shape(kind.shape[:a], sizes)
    for item in t.buffers(a, stream):
        yield item if isinstance(item, Stop) else gather(item, shape, components_of(kind.dtype), sizes)


def _partition(
    streams: list[Iterator[Token]], ins: Sequence[StreamType], outs: Sequence[StreamType], sizes: dict[str, int]
) -> list[Tokens]:
    rank = ins[0].rank - ins[1].rank
    results = t.partition(rank, len(outs), *streams)
    for result, out in zip(results, outs, strict=True):
        sizes[str(out.shape[-1])] = len(list(t.slices(rank, result))) - 1
    return results
