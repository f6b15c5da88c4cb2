"""Streams of tuples at larger shapes: their makers are applied again there, to operands that are repeated before.

A tuple can't be collected in Buffers, so a stream of tuples is only ever repeated innermost. Where it must be repeated
along an outer dim, or meet itself at all places of a dim, the function that makes it is applied to repeated operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from pipeline.lms.embedded.draft import Move
from pipeline.lms.embedded.operands import Callee, Operands
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.strong.move_scores import FITTED
from pipeline.lms.embedded.strong.stream_pool import StreamPool
from pipeline.lms.embedded.task_view import TaskView
from pipeline.lms.embedded.types.coercions import Coercion, without_ones
from pipeline.lms.embedded.types.type_table import FoldSpec
from step_runtime.base.shapes import Dim
from step_runtime.base.types import DType, StreamType, STuple

_LIFTED = -0.82
"""The score of making a stream again for each dim along which it is then repeated."""
_DEEPEST = 3
"""The number of functions that are applied again, one to the results of the other, for one stream."""
_LOOKED_AT = 60
"""Steps that looking for such streams among some operands counts for."""

Serving = Callable[[Callee, tuple[int, ...]], Operands | None]


class Lifted(NamedTuple):
    """Operands some of which are made again at larger shapes.

    Attributes:
        operands: All operands.
        made: The streams that are made for them, in order.
        replaced: The streams in place of which they are taken.
        score: The score of making them.
    """

    operands: Operands
    made: tuple[int, ...]
    replaced: tuple[int, ...]
    score: float


class Lifting:
    """Makes streams of a pool at larger shapes; `serving` gives the operands that streams are for a callee."""

    def __init__(self, view: TaskView, pool: StreamPool, serving: Serving, steps: StepLimit) -> None:
        self._view = view
        self._table = view.table
        self._pool = pool
        self._serving = serving
        self._steps = steps
        self._callees = {callee.fn: callee for callee in view.callees}
        self._known: dict[tuple[int, tuple[Dim, ...]], tuple[int, ...] | None] = {}

    def choices(self, callee: Callee, operands: Operands, *, joined: bool) -> Iterator[Lifted]:
        """Operands with tuples at shapes at which they meet the others; with `joined` ones, at all places of a dim."""
        tuples = [place for place, source in enumerate(operands.sources) if self._made_tuple(source)]
        if not tuples or len(operands.sources) < 2:
            return
        self._steps.spend(_LOOKED_AT)
        yield from self._meeting(callee, operands, tuples)
        if joined:
            yield from self._crossing(operands, tuples)

    def _made_tuple(self, stream: int) -> bool:
        type_ = self._table.types[self._pool.type_of(stream)]
        return isinstance(type_.dtype, STuple) and stream >= self._pool.first

    def _meeting(self, callee: Callee, operands: Operands, tuples: list[int]) -> Iterator[Lifted]:
        """Tuples that can't be brought to one shape with the others are made at it."""
        types = [self._pool.type_of(source) for source in operands.sources]
        served = callee.operand_types(operands.counts)
        for shape in dict.fromkeys(self._table.meetings(types, served)):
            targets = [self._table.intern(StreamType(dtype, shape)) for dtype in served]
            stuck = [p for p, pair in enumerate(zip(types, targets, strict=True)) if not self._table.coercions(*pair)]
            if stuck and set(stuck) <= set(tuples):
                yield from self._replaced(operands, stuck, [self._inside(types[place], shape) for place in stuck])

    def _inside(self, type_: int, shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
        """A shape without the inner dims along which a stream can be repeated as it is."""
        own = self._view.plain_shape(type_)
        return shape[shape.index(own[0]) :] if own and own[0] in shape else ()

    def _crossing(self, operands: Operands, tuples: list[int]) -> Iterator[Lifted]:
        """A tuple is made for each position along a dim that others have, too."""
        for place in tuples:
            own = self._view.plain_shape(self._pool.type_of(operands.sources[place]))
            for index, dim in enumerate(own):
                others = (self._pool.type_of(source) for p, source in enumerate(operands.sources) if p != place)
                if dim not in self._view.pairing or own.count(dim) > 1:
                    continue
                if any(self._view.plain_shape(other).count(dim) == 1 for other in others):
                    yield from self._replaced(operands, [place], [(*own[: index + 1], *own[index:])])

    def _replaced(self, operands: Operands, places: list[int], shapes: list[tuple[Dim, ...]]) -> Iterator[Lifted]:
        """Operands whose streams at some places are made again at these shapes, if they can be."""
        sources, made, score = list(operands.sources), list[int](), 0.0
        for place, shape in zip(places, shapes, strict=True):
            lifted = self._lifted(sources[place], shape)
            if lifted is None:
                return
            score += _LIFTED * (len(shape) - len(self._view.plain_shape(self._pool.type_of(sources[place]))))
            made += [stream for stream in lifted if stream not in made]
            sources[place] = lifted[-1]
        replaced = tuple(operands.sources[place] for place in places)
        if set(sources) & set(replaced):
            score += FITTED.met
        yield Lifted(Operands(tuple(sources), operands.counts), tuple(made), replaced, score)

    def _lifted(self, stream: int, shape: tuple[Dim, ...], depth: int = 1) -> tuple[int, ...] | None:
        """The streams that make one at a larger shape, itself last; None if its maker can't be applied there."""
        key = (stream, shape)
        if key not in self._known:
            self._known[key] = self._find(stream, shape, depth)
        return self._known[key]

    def _find(self, stream: int, shape: tuple[Dim, ...], depth: int) -> tuple[int, ...] | None:
        own, move = self._view.plain_shape(self._pool.type_of(stream)), self._pool.move(stream)
        (fn,) = move.functions() if move.routing is None else (None,)
        operands = None if fn is None else self._serving(self._callees[fn], move.sources)
        if fn is None or operands is None or len(shape) <= len(own) or depth > _DEEPEST:
            return None
        met, fold = self._met(move, shape)
        if met is None:
            return None
        coercions, sources, made = list[Coercion](), list[int](), list[int]()
        for source, dtype in zip(move.sources, self._callees[fn].operand_types(operands.counts), strict=True):
            streams = self._brought(source, dtype, met, depth)
            if streams is None:
                return None
            ways = self._ways(streams[-1], dtype, met)
            # Along a dim that is there twice, the outer one is new.
            coercions.append(ways[-1] if len(set(met)) < len(met) else ways[0])
            made += streams[:-1] if streams[-1] == source else streams
            sources.append(streams[-1])
        result = self._table.intern(StreamType(fn.output, shape))
        made.append(self._pool.again(Move((fn,), tuple(sources), tuple(coercions), result, fold), stream))
        return tuple(made)

    def _brought(self, stream: int, dtype: DType, shape: tuple[Dim, ...], depth: int) -> tuple[int, ...] | None:
        """A stream that can be repeated along the outer dims of a shape, last: itself, or made again."""
        type_ = self._pool.type_of(stream)
        crossed = len(set(shape)) < len(shape) and self._view.plain_shape(type_) != shape
        if self._ways(stream, dtype, shape) and not (crossed and self._made_tuple(stream)):
            return (stream,)
        made = self._lifted(stream, self._inside(type_, shape), depth + 1) if self._made_tuple(stream) else None
        return made if made and self._ways(made[-1], dtype, shape) else None

    def _ways(self, stream: int, dtype: DType, shape: tuple[Dim, ...]) -> tuple[Coercion, ...]:
        return self._table.coercions(self._pool.type_of(stream), self._table.intern(StreamType(dtype, shape)))

    def _met(self, move: Move, shape: tuple[Dim, ...]) -> tuple[tuple[Dim, ...] | None, FoldSpec | None]:
        """The shape at which a function's operands meet for a result at a shape, and how it folds them."""
        if move.fold is None:
            return shape, None
        inner = move.fold.inner
        met = shape if move.fold.scan else (*inner, *shape)
        folds = (fold for fold in self._table.folds(met) if fold.scan == move.fold.scan and fold.inner == inner)
        fold = next(folds, None)
        return (None, None) if fold is None or without_ones(met[: fold.b]) != inner else (met, fold)
