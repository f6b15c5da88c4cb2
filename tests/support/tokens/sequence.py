"""Token sequences, their two spellings, and how tensors become such sequences and come back.

A stream of dims `[d0, …, da]`, innermost first, holds values and stops `S1` … `Sa`: `Sk` closes the `k` inner
dims, and the end of the sequence closes the outermost. As the stream is written, a stop speaks for those below
it too:

    [[1, 2], [3, 4]]   with dims [2, 2]      1, 2, S1, 3, 4, S1
    [[[1, 2], [3, 4]]] with dims [2, 2, 1]   1, 2, S1, 3, 4, S2

So `Sk` closes every dim up to the `k`th that something is in. Where nothing is in any of them, it closes the
`k`th alone, which is empty. That tells one row without elements from no row at all:

    [[[]]] with dims [0, 1, 1]   S1, S2
    [[]]   with dims [d, 0, 1]   S2

`split` spells every closing out, the end of the sequence included, and `join` is its inverse. Spelled out,
`Sk` closes exactly the `k`th dim, which is what the primitives read.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from step_runtime.base.shapes import Sizes, evaluate, torch_shape
from step_runtime.base.types import Element, StreamType, components_of, layout

FLOAT = torch.float64
"""What every value is computed in."""

Value: TypeAlias = tuple[Tensor, ...]
"""One element: a tensor for each component of its type."""


@dataclass(frozen=True)
class Stop:
    """The stop token `S<level>`."""

    level: int

    def __str__(self) -> str:
        return f"S{self.level}"


Token: TypeAlias = Value | Stop
Tokens: TypeAlias = list[Token]


def level_of(token: Token) -> int:
    """How many inner dims the token closes: none for a value."""
    return token.level if isinstance(token, Stop) else 0


def split(tokens: Iterable[Token], rank: int) -> Iterator[Token]:
    """Every closing as a stop of its own: `1, 2, S1, 3, 4, S1` gives `1, 2, S1, 3, 4, S1, S2` for rank 1."""
    lowest: float = math.inf  # the lowest level that something is in
    for token in [*tokens, Stop(rank + 1)]:
        level = level_of(token)
        for below in range(int(min(lowest, level)), level):
            yield Stop(below)
        yield token
        lowest = level + 1


def join(closings: Iterable[Token]) -> Tokens:
    """The stream as it is written, from every closing as a stop of its own: the inverse of `split`."""
    tokens: Tokens = []
    lowest: float = math.inf
    filled = False
    *closings, _end = closings
    for token in closings:
        level = level_of(token)
        # A stop takes the place of the one right below it, unless that one closed an empty dim.
        if filled and level == level_of(tokens[-1]) + 1:
            tokens.pop()
        filled = lowest <= level
        lowest = level + 1
        tokens.append(token)
    return tokens


def nest(value: Value, levels: int) -> Iterator[Token]:
    """A tensor's elements in row-major order, the closing of each of its `levels` leading dims spelled out."""
    if levels == 0:
        yield value
        return
    for row in zip(*value, strict=True):
        yield from nest(row, levels - 1)
    yield Stop(levels)


def gather(values: Sequence[Value], leading: tuple[int, ...], elements: Sequence[Element], sizes: Sizes) -> Value:
    """Values put into tensors of shape `leading + layout`, one for each component."""
    shapes = [(*leading, *(evaluate(dim, sizes) for dim in layout(element))) for element in elements]
    if not values:
        return tuple(torch.zeros(shape, dtype=FLOAT) for shape in shapes)
    return tuple(
        torch.stack(parts).reshape(shape) for parts, shape in zip(zip(*values, strict=True), shapes, strict=True)
    )


def encode(data: Value, rank: int) -> Tokens:
    """The tokens of tensors whose `rank + 1` leading dims are stream dims, outermost first."""
    return join(nest(data, rank + 1))


def decode(tokens: Tokens, stream: StreamType, sizes: Sizes) -> Value:
    """The stream as tensors of torch shape `reversed(shape) + layout`.

    Raises:
        ValueError: values and stops do not follow the stream's shape.
    """
    check_shape(tokens, stream, sizes)
    values = [token for token in tokens if not isinstance(token, Stop)]
    return gather(values, torch_shape(stream.shape, sizes), components_of(stream.dtype), sizes)


def check_shape(tokens: Tokens, stream: StreamType, sizes: Sizes) -> None:
    """Holds the order of values and stops to the stream's shape.

    Raises:
        ValueError: they differ.
    """
    expected = encode((torch.zeros(torch_shape(stream.shape, sizes)),), stream.rank)
    if list(map(level_of, expected)) != list(map(level_of, tokens)):
        raise ValueError(f"a stream of shape {stream} should read {render(expected)}, and reads {render(tokens)}")


def render(tokens: Iterable[Token]) -> str:
    """A stream as text, such as `1, 2, S1, [3, 4], S2`; the components of a tuple stand in parentheses."""
    return ", ".join(str(token) if isinstance(token, Stop) else _shown(token) for token in tokens)


def _shown(value: Value) -> str:
    parts = [_number(part) if part.dim() == 0 else f"[{', '.join(_shown((row,)) for row in part)}]" for part in value]
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


def _number(value: Tensor) -> str:
    return f"{float(value):g}"
