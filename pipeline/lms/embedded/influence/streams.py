"""What the elements of streams depend on: primitives on sources, at one set of sizes.

Nothing is kept of data: a stream is an array of sets of positions of the inputs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.lms.embedded.formulas.residues import Residues
from pipeline.lms.embedded.formulas.tape import Formulas
from pipeline.lms.embedded.influence.arrays import Array, Unread, unknown
from pipeline.lms.embedded.influence.functions import Flat, Functions, Work
from pipeline.lms.embedded.types.coercions import cut
from step_runtime.base.errors import RuleError
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Sizes, evaluate
from step_runtime.base.types import Multihot
from step_runtime.primitives import (
    Accum,
    Bufferize,
    Copy,
    Flatten,
    Identity,
    Map,
    Merge,
    Partition,
    Primitive,
    Promote,
    Repeat,
    RepeatRef,
    Reshape,
    Scan,
    Streamify,
    Zip,
)

UNREAD = 0
"""The number of a stream of which nothing is known."""


class Stream(NamedTuple):
    """A stream's components, in the order of PyTorch's dims: the stream's, outermost first, then the element's.

    Attributes:
        parts: The components.
        ranks: The number of the element's dims, of each component.
        base: The number of dims of what a Buffer holds.
        routed: The outer dims of a piece of a routed stream, merged into one.
    """

    parts: tuple[Array, ...]
    ranks: tuple[int, ...]
    base: int
    routed: tuple[int, ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The stream's own dims, outermost first."""
        return self.parts[0].shape[: self.parts[0].ndim - self.ranks[0]]

    def reshaped(self, shape: Sequence[int]) -> Stream:
        """The same elements in a stream of another shape."""
        parts = (
            part.through(lambda data: data.reshape(*shape, *data.shape[data.ndim - rank :]))  # noqa: B023
            for part, rank in zip(self.parts, self.ranks, strict=True)
        )
        return self._replace(parts=tuple(parts))

    def flat(self) -> Flat:
        """All elements in a row."""
        count = prod(self.shape)
        if len(self.parts) == 1:
            (part,) = self.parts
            formulas = None if part.formulas is None else part.formulas.nodes.reshape(count, -1)
            return Flat(part.sources.reshape(count, -1), part.values.reshape(count, -1), formulas)
        known = [part.formulas.nodes.reshape(count, -1) for part in self.parts if part.formulas is not None]
        return Flat(
            np.concatenate([part.sources.reshape(count, -1) for part in self.parts], axis=1),
            np.concatenate([part.values.reshape(count, -1) for part in self.parts], axis=1),
            np.concatenate(known, axis=1) if len(known) == len(self.parts) else None,
        )


class Streams:
    """The streams of one task by number, each made once; a backend of lowering."""

    def __init__(self, functions: Functions, sizes: Sizes) -> None:
        self._functions = functions
        self._sizes = sizes
        self.elements = 0
        """The number of elements of all streams."""
        self._streams: list[Stream | None] = [None]
        self._numbers: dict[Hashable, int] = {}
        self._made: dict[tuple[Primitive, tuple[int, ...]], tuple[int, ...]] = {}
        self._work: dict[tuple[Primitive, tuple[int, ...]], Work] = {}

    def number(self, stream: Stream) -> int:
        """The number of a stream; streams that depend on the same are the same."""
        content = hashlib.blake2b(digest_size=16)
        for part in stream.parts:
            content.update(part.sources.tobytes())
            content.update(part.values.tobytes())
            if part.formulas is not None:
                content.update(part.formulas.nodes.tobytes())
        shapes = tuple((part.shape, part.sources.dtype.char) for part in stream.parts)
        key = (content.digest(), shapes, *stream[1:])
        known = self._numbers.get(key)
        if known is None:
            known = self._numbers[key] = self._added(stream)
        return known

    def _added(self, stream: Stream) -> int:
        self._streams.append(stream)
        self.elements += self.size(len(self._streams) - 1)
        return len(self._streams) - 1

    def stream(self, number: int) -> Stream | None:
        """A stream by its number; None if nothing is known of it."""
        return self._streams[number]

    def size(self, number: int) -> int:
        """The number of elements of a stream's components; 0 if nothing is known of it."""
        stream = self._streams[number]
        return 0 if stream is None else sum(part.sources.size for part in stream.parts)

    def rank(self, number: int) -> int:
        """The number of a stream's own dims; 0 if nothing is known of it."""
        stream = self._streams[number]
        return 0 if stream is None else len(stream.shape)

    def add(self, op: Primitive, *inputs: int) -> tuple[int, ...]:
        """The results of a primitive on streams."""
        key = (op, inputs)
        known = self._made.get(key)
        if known is None:
            work = self._work[key] = Work()
            made = self._results(op, inputs, work)
            known = self._made[key] = made
        return known

    def work(self, op: Primitive, *inputs: int) -> Work:
        """What following a function in a primitive takes that was added."""
        return self._work[op, inputs]

    def _results(self, op: Primitive, inputs: tuple[int, ...], work: Work) -> tuple[int, ...]:
        streams = [stream for number in inputs if (stream := self._streams[number]) is not None]
        count = evaluate(op.N, self._sizes) if isinstance(op, Partition) else 2 if isinstance(op, Copy) else 1
        if len(streams) < len(inputs):
            return (UNREAD,) * count
        try:
            made = self._made_of(op, streams, work)
        except (Unread, RuleError, ValueError, IndexError, ArithmeticError):
            return (UNREAD,) * count
        # What only arranges elements is known by its operands; what functions make may be the same from others.
        number = self.number(made) if isinstance(op, Map | Accum | Scan | Merge) else self._added(made)
        return (number,) * count

    def _made_of(self, op: Primitive, streams: list[Stream], work: Work) -> Stream:
        """The result of a primitive; all results, where there are several."""
        stream = streams[0]
        match op:
            case Copy() | Identity():
                return stream
            case Zip():
                return self._zipped(streams)
            case Map(fn=fn):
                return self._applied(self._zipped(streams), fn, 0, work)
            case Accum(fn=fn, b=b):
                return self._applied(stream, fn, b, work)
            case Scan(fn=fn, b=b):
                return self._applied(stream, fn, b, work, scan=True)
            case Partition():
                return _piece(*streams)
            case Merge(fn=fn):
                return self._merged(fn, streams[:-1], streams[-1], work)
            case RepeatRef():
                return _repeated(stream, streams[1].shape[-1])
        return self._restructured(op, stream)

    def _restructured(self, op: Primitive, stream: Stream) -> Stream:
        shape = stream.shape
        rank = len(shape)
        match op:
            case Promote(b=b):
                return stream.reshaped((*shape[: rank - b], 1, *shape[rank - b :]))
            case Flatten(L=dims):
                first, last = rank - 1 - max(dims), rank - min(dims)
                return stream.reshaped((*shape[:first], prod(shape[first : last + 1]), *shape[last + 1 :]))
            case Reshape(L=dims, S=parts):
                size = evaluate(parts, self._sizes)
                split = [
                    each
                    for axis, whole in enumerate(shape)
                    for each in ((whole // size, size) if rank - 1 - axis in dims else (whole,))
                ]
                return stream.reshaped(split)
            case Repeat(n=n):
                return _repeated(stream, evaluate(n, self._sizes))
            case Bufferize(a=a):
                return stream._replace(ranks=(stream.ranks[0] + a,))
            case Streamify():
                return stream._replace(ranks=(stream.base,))
        raise Unread("a primitive that is not known")

    @staticmethod
    def _zipped(streams: Sequence[Stream]) -> Stream:
        if len(streams) == 1:
            return streams[0]
        if len({(stream.shape, stream.routed) for stream in streams}) > 1:
            raise Unread("streams of several shapes")
        parts = tuple(part for stream in streams for part in stream.parts)
        return Stream(parts, tuple(rank for stream in streams for rank in stream.ranks), 0, streams[0].routed)

    def _applied(self, stream: Stream, fn: Fn, b: int, work: Work, *, scan: bool = False) -> Stream:
        """A function on each element, or folded over the inner `b` dims."""
        shape = stream.shape
        if not b:
            flat = self._functions.mapped(fn.label, stream.flat(), work)
        else:
            if stream.routed and b >= len(shape):
                raise Unread("a fold over elements that data choose")
            steps = prod(shape[len(shape) - b :])
            flat = self._functions.folded(fn.label, stream.flat(), steps, work, scan=scan)
            shape = shape if scan else shape[: len(shape) - b]
        return self._shaped(flat, fn, shape, stream.routed)

    def _shaped(self, flat: Flat, fn: Fn, shape: tuple[int, ...], routed: tuple[int, ...]) -> Stream:
        parts, place = [], 0
        layouts = self._functions.outputs[fn.label]
        for layout in layouts:
            end = place + prod(layout)
            own = None if flat.formulas is None else Formulas(None, flat.formulas[:, place:end])
            whole = Array(flat.sources[:, place:end], flat.values[:, place:end], formulas=own)
            parts.append(whole.through(lambda data: np.ascontiguousarray(data).reshape(*shape, *layout)))  # noqa: B023
            place = end
        base = int(len(layouts) == 1 and isinstance(cut(fn.output)[0], Multihot))
        return Stream(tuple(parts), tuple(map(len, layouts)), base, routed)

    def _merged(self, fn: Fn, pieces: Sequence[Stream], index: Stream, work: Work) -> Stream:
        """What an index gathers: each element may be any of those that are folded."""
        if len({(piece.shape, piece.routed) for piece in pieces}) > 1 or pieces[0].routed != index.shape:
            raise Unread("pieces that were not routed by this index")
        flats = [piece.flat() for piece in pieces]
        several = Flat(
            np.stack([flat.sources for flat in flats], axis=1).reshape(-1, flats[0].sources.shape[1]),
            np.full((len(flats) * len(flats[0].sources), flats[0].sources.shape[1]), np.nan),
        )
        folded = self._functions.folded(fn.label, several, len(flats), work, scan=False)
        shape = (*index.shape, *pieces[0].shape[1:])
        chosen = np.bitwise_or.reduce(index.parts[0].sources, axis=-1).reshape(-1)
        each = len(folded.sources) // len(chosen)
        sources = folded.sources | np.repeat(chosen, each)[:, None]
        formulas = self._gathered(fn, flats, index, each)
        return self._shaped(Flat(sources, np.full(sources.shape, np.nan), formulas), fn, shape, ())

    def _gathered(self, fn: Fn, flats: Sequence[Flat], index: Stream, each: int) -> Residues | None:
        """The formulas of what an index gathers: folded pieces, each if the index has it."""
        (part,) = index.parts
        if part.formulas is None or any(flat.formulas is None for flat in flats):
            return None
        chosen = part.formulas.nodes.reshape(-1, part.shape[-1])
        chosen = np.repeat(chosen, each, axis=0)
        return self._functions.gathered(fn.label, [flat.formulas for flat in flats], chosen)


def _piece(data: Stream, index: Stream) -> Stream:
    outer = len(index.shape)
    if data.shape[:outer] != index.shape or data.routed:
        raise Unread("a routing of another shape")
    piece = data.reshaped((prod(index.shape), *data.shape[outer:]))
    return piece._replace(
        parts=tuple(replace(unknown(part.sources), formulas=part.formulas) for part in piece.parts), routed=index.shape
    )


def _repeated(stream: Stream, count: int) -> Stream:
    at = len(stream.shape)

    def spread(data: NDArray[Any]) -> NDArray[Any]:
        shape = (*data.shape[:at], count, *data.shape[at:])
        return np.broadcast_to(np.expand_dims(data, at), shape)

    return stream._replace(parts=tuple(part.through(spread) for part in stream.parts))
