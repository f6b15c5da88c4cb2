"""Every primitive as a transformer of tokens.

All streams here are spelled out (see `sequence.split`): `Sk` closes exactly the `k`th dim, counted from 1 at the
innermost, and the last token closes the outermost. A value is what an item of the innermost dim is; an item of
dim index `i` ends with `Si`, so that a value may be read as `S0`.
"""

import functools
from collections.abc import Iterable, Iterator, Sequence

import torch

from step_runtime import primitives as p
from step_runtime.base.errors import RunError, quantity
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Sizes, evaluate, torch_shape
from step_runtime.base.types import Buffer, StreamType, components_of
from tests.support.tokens.sequence import FLOAT, Stop, Token, Tokens, Value, gather, level_of, nest


class Misaligned(RunError):
    """Two streams that go together have their stops at different places."""

    def __init__(self, left: Token, right: Token) -> None:
        names = [str(token) if isinstance(token, Stop) else "a value" for token in (left, right)]
        super().__init__("misaligned", f"one stream has {names[0]} where the other has {names[1]}")


def call(fn: Fn, *args: Value) -> Value:
    """`fn` on one element, or on a state and an element; it may write into what it is given."""
    results = fn.apply(*([part.clone() for part in arg] for arg in args))
    return tuple(torch.as_tensor(part, dtype=FLOAT) for part in results)


def initial(fn: Fn) -> Value:
    """The state that a fold begins with."""
    return tuple(torch.as_tensor(part, dtype=FLOAT) for part in fn.getInit())


def map_values(fn: Fn, stream: Iterable[Token]) -> Iterator[Token]:
    """`fn` on every value; stops pass."""
    for token in stream:
        yield token if isinstance(token, Stop) else call(fn, token)


def zip_streams(left: Iterable[Token], right: Iterable[Token]) -> Iterator[Token]:
    """Values side by side; stops must meet equal stops."""
    for one, other in zip(left, right, strict=True):
        if isinstance(one, Stop) or isinstance(other, Stop):
            if one != other:
                raise Misaligned(one, other)
            yield one
        else:
            yield one + other


def accum(fn: Fn, b: int, stream: Iterable[Token]) -> Iterator[Token]:
    """Folds values until `Sb`, which gives way to the state; lower stops vanish, higher ones lose `b` levels."""
    state = initial(fn)
    for token in stream:
        if not isinstance(token, Stop):
            state = call(fn, state, token)
        elif token.level == b:
            yield state
            state = initial(fn)
        elif token.level > b:
            yield Stop(token.level - b)


def scan(fn: Fn, b: int, stream: Iterable[Token]) -> Iterator[Token]:
    """The state after every value; `Sb` begins again, and all stops pass."""
    state = initial(fn)
    for token in stream:
        if not isinstance(token, Stop):
            state = call(fn, state, token)
            yield state
        else:
            if token.level == b:
                state = initial(fn)
            yield token


def promote(b: int, stream: Iterable[Token]) -> Iterator[Token]:
    """A stop after every item of dim `b - 1`: it is alone in its new dim. Higher stops gain a level."""
    for token in stream:
        yield Stop(token.level + 1) if isinstance(token, Stop) and token.level > b else token
        if level_of(token) == b:
            yield Stop(b + 1)


def flatten(first: int, last: int, stream: Iterable[Token]) -> Iterator[Token]:
    """Without the stops `S<first>` to `S<last>`, which set items of the merged dims apart."""
    for token in stream:
        if level_of(token) < first:
            yield token
        elif level_of(token) > last:
            yield Stop(level_of(token) - (last - first + 1))


def reshape(index: int, size: int, stream: Iterable[Token]) -> Iterator[Token]:
    """A stop after every `size` items of dim `index`; higher stops gain a level."""
    count = 0
    for token in stream:
        level = level_of(token)
        if level <= index:
            yield token
        else:
            if count:
                raise RunError(
                    "reshape-divides", f"Reshape: a dim ends {quantity(count, 'item')} after a multiple of {size}"
                )
            yield Stop(level + 1)
        if level == index:
            count += 1
            if count == size:
                yield Stop(index + 1)
                count = 0


def repeat(times: int, stream: Iterable[Token]) -> Iterator[Token]:
    """Every value so many times, then `S1`; stops gain a level."""
    for token in stream:
        if isinstance(token, Stop):
            yield Stop(token.level + 1)
        else:
            yield from [token] * times
            yield Stop(1)


def repeat_ref(data: Iterable[Token], reference: Iterable[Token]) -> Iterator[Token]:
    """The reference with each value replaced by the data's, which moves on by a token at every stop."""
    source = iter(data)
    held = next(source)
    for token in reference:
        if not isinstance(token, Stop):
            if isinstance(held, Stop):
                raise Misaligned(held, token)
            yield held
            continue
        if level_of(held) != token.level - 1:
            raise Misaligned(held, token)
        yield token
        held = next(source, Stop(token.level))


def buffers(a: int, stream: Iterable[Token]) -> Iterator[Stop | list[Value]]:
    """The values up to every `Sa` as one list, which becomes one buffer; higher stops lose `a` levels."""
    values: list[Value] = []
    for token in stream:
        if not isinstance(token, Stop):
            values.append(token)
        elif token.level == a:
            yield values
            values = []
        elif token.level > a:
            yield Stop(token.level - a)


def streamify(dims: int, stream: Iterable[Token]) -> Iterator[Token]:
    """A buffer's elements with the stops of its dims; stops gain as many levels."""
    for token in stream:
        if isinstance(token, Stop):
            yield Stop(token.level + dims)
        else:
            yield from nest(token, dims)


def slices(rank: int, stream: Iterable[Token]) -> Iterator[Tokens]:
    """The stream cut after every item of dim `rank`; a stop of the dims outside is a piece of its own."""
    piece: Tokens = []
    for token in stream:
        piece.append(token)
        if level_of(token) >= rank:
            yield piece
            piece = []


def partition(rank: int, count: int, data: Iterable[Token], index: Iterable[Token]) -> list[Tokens]:
    """Every item of dim `rank` goes to the streams that its index element marks; outer stops vanish."""
    outputs: list[Tokens] = [[] for _ in range(count)]
    for piece, mark in zip(slices(rank, data), index, strict=True):
        if level_of(piece[-1]) - rank != level_of(mark):
            raise Misaligned(piece[-1], mark)
        if not isinstance(mark, Stop):
            for number in chosen(mark):
                outputs[number] += piece
    return [[*output, Stop(rank + 1)] for output in outputs]


def merge(fn: Fn, blank: Tokens, streams: Sequence[Iterable[Token]], index: Iterable[Token]) -> Iterator[Token]:
    """For every index element the fold, value by value, of the next item of each stream that it marks.

    `blank` is an item with anything for values: the fold's beginning.
    """
    rank = level_of(blank[-1])
    sources = [slices(rank, stream) for stream in streams]
    for mark in index:
        if isinstance(mark, Stop):
            yield Stop(mark.level + rank)
            continue
        states = [token if isinstance(token, Stop) else initial(fn) for token in blank]
        for number in chosen(mark):
            piece = next(sources[number])
            if level_of(piece[-1]) > rank:
                raise RunError("merge-count", f"Merge: stream {number} runs short")
            states = [_folded(fn, state, token) for state, token in zip(states, piece, strict=True)]
        yield from states
    for number, source in enumerate(sources):
        if level_of(next(source)[-1]) == rank:
            raise RunError("merge-count", f"Merge: stream {number} has slices left at the end")


def _folded(fn: Fn, state: Token, token: Token) -> Token:
    if isinstance(state, Stop) or isinstance(token, Stop):
        if state != token:
            raise Misaligned(state, token)
        return state
    return call(fn, state, token)


def chosen(mark: Value) -> list[int]:
    """The numbers of the streams whose bit is 1, ascending."""
    return [number for number, bit in enumerate(mark[0].tolist()) if bit]


def transformed(
    op: p.Primitive,
    streams: list[Iterator[Token]],
    ins: Sequence[StreamType],
    outs: Sequence[StreamType],
    sizes: dict[str, int],
) -> Sequence[Iterable[Token]]:
    """A primitive's results on spelled-out streams; `sizes` gains those of the dims that the data decides."""
    match op:
        case p.Copy():
            tokens = list(streams[0])
            return [tokens, tokens]
        case p.Partition():
            return _partition(streams, ins, outs, sizes)
        case p.Merge(fn=fn):
            *data, index = streams
            blank = list(nest((torch.zeros(torch_shape(ins[0].shape[:-1], sizes)),), ins[0].rank))
            return [merge(fn, blank, data, index)]
        case p.Map(fn=fn):
            return [map_values(fn, functools.reduce(zip_streams, streams))]
        case p.Zip():
            return [zip_streams(*streams)]
        case p.Accum(fn=fn, b=b):
            return [accum(fn, b, streams[0])]
        case p.Scan(fn=fn, b=b):
            return [scan(fn, b, streams[0])]
        case p.RepeatRef():
            return [repeat_ref(*streams)]
    return [_reshaped(op, streams[0], ins[0], sizes)]


def _reshaped(op: p.Primitive, stream: Iterable[Token], kind: StreamType, sizes: Sizes) -> Iterable[Token]:
    match op:
        case p.Identity():
            return stream
        case p.Promote(b=b):
            return promote(b, stream)
        case p.Flatten(L=dims):
            return flatten(dims[0], dims[-1], stream)
        case p.Reshape(L=dims, S=size):
            # From the outermost on, so that the indices of those left stay as they are.
            for index in sorted(dims, reverse=True):
                stream = reshape(index, evaluate(size, sizes), stream)
            return stream
        case p.Repeat(n=n):
            return repeat(evaluate(n, sizes), stream)
        case p.Bufferize(a=a):
            return _bufferize(a, stream, kind, sizes)
        case p.Streamify():
            return streamify(len(kind.dtype.dims) if isinstance(kind.dtype, Buffer) else 0, stream)
    raise ValueError(f"no meaning is known for {op.name}")


def _bufferize(a: int, stream: Iterable[Token], kind: StreamType, sizes: Sizes) -> Iterator[Token]:
    shape = torch_shape(kind.shape[:a], sizes)
    for item in buffers(a, stream):
        yield item if isinstance(item, Stop) else gather(item, shape, components_of(kind.dtype), sizes)


def _partition(
    streams: list[Iterator[Token]], ins: Sequence[StreamType], outs: Sequence[StreamType], sizes: dict[str, int]
) -> list[Tokens]:
    rank = ins[0].rank - ins[1].rank
    results = partition(rank, len(outs), *streams)
    for result, out in zip(results, outs, strict=True):
        sizes[str(out.shape[-1])] = len(list(slices(rank, result))) - 1
    return results
