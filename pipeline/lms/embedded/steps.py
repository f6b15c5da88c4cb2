"""What can be done next, one primitive at a time: for the small proposer.

A `Step` applies one primitive to streams that are there; only a Partition, the functions of its branches and the Merge
are one step together. Types alone decide which steps there are: nothing of a function but its declared types is
looked at here, and nothing of the reference. Structural primitives are offered where they are the first on some way
to streams that a function could take, or to an output; nothing holds a program to the rest of that way.
All answers depend on types, so they are kept per task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from pipeline.lms.embedded.layout import ONE
from pipeline.lms.embedded.meeting import meetings
from pipeline.lms.embedded.moves import Routing
from pipeline.lms.embedded.scoring import Context, Kind, kind_of
from pipeline.lms.embedded.space import Join, Space, TypeId
from pipeline.lms.embedded.task_view import Offer, TaskView
from step_runtime.base.functions import Fn
from step_runtime.base.types import StreamType
from step_runtime.primitives import (
    Accum,
    Bufferize,
    Flatten,
    Map,
    Primitive,
    Promote,
    Repeat,
    RepeatRef,
    Rules,
    Scan,
)

ROUTE: Kind = ("Route",)
_MOST_JOINS = 2
"""For streams that can come to one shape in more ways than these, the cheapest are offered."""
_MOST_STREAMS = 4
"""Of more streams only the newest are combined with others, and those that nothing takes yet."""


class Step(NamedTuple):
    """One primitive, or one routing, on streams by number."""

    op: Primitive | None
    sources: tuple[int, ...]
    result: TypeId
    kind: Kind
    fns: tuple[Fn, ...] = ()
    routing: Routing | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """Steps of one key make the same."""
        return (self.op, self.sources, self.result)


class Aim(NamedTuple):
    """A function, or a routing, and the streams that it shall take; each serves so many components (`counts`)."""

    offer: Offer
    routing: Routing | None
    sources: tuple[int, ...]
    counts: tuple[int, ...]

    def moved(self, source: int, to: int) -> Aim:
        """The same on another stream."""
        return self._replace(sources=tuple(to if stream == source else stream for stream in self.sources))


Way: TypeAlias = tuple[Primitive | None, int | None, TypeId, Kind]
"""As a step, but its operand is the place of one source among several, or None for all of them."""


class Steps:
    """The steps of one task's programs. Threads may share it, as a `Space`."""

    def __init__(self, view: TaskView) -> None:
        self.view = view
        self.space: Space = view.space
        self.context = Context.of(view.scope.outputs, frozenset())
        self.arity = {offer.fn: len(offer.need) for offer in view.offers}
        routes = [(view.routing_offers[id(routing)], routing) for routing in view.routings]
        self.offered: list[tuple[Offer, Routing | None]] = [*((offer, None) for offer in view.offers), *routes]
        self._rules = Rules(view.scope.sizes)
        self._known: dict[tuple[int, tuple[TypeId, ...], tuple[int, ...]], tuple[Way, ...]] = {}
        self._endings: dict[TypeId, tuple[Way, ...]] = {}

    def with_newest(self, streams: Sequence[TypeId], uses: Sequence[int]) -> Iterator[Step]:
        """The steps that take the last of these streams, alone or with others."""
        newest = len(streams) - 1
        company = [stream for stream in range(newest + 1) if not uses[stream] or stream > newest - _MOST_STREAMS]
        found: dict[tuple[object, ...], Step] = {}
        for step in self._all(streams, company, newest):
            found.setdefault((step.op, step.sources, step.routing and id(step.routing)), step)
        return iter(found.values())

    def _all(self, streams: Sequence[TypeId], company: Sequence[int], newest: int) -> Iterator[Step]:
        yield from self._references(streams, company, newest)
        for aim in self.aims(streams, company, newest):
            yield from self.towards(aim, streams)

    def aims(self, streams: Sequence[TypeId], company: Sequence[int], newest: int) -> Iterator[Aim]:
        """What could be applied to streams in company of the newest, now or after structural primitives."""
        for offer, routing in self.offered:
            for meeting in meetings(self.space, streams, company, offer, newest):
                yield Aim(offer, routing, *meeting)

    def towards(self, aim: Aim, streams: Sequence[TypeId]) -> Iterator[Step]:
        """The steps that come next if something is to be applied: structural ones on its sources, or itself."""
        types = tuple(streams[source] for source in aim.sources)
        for op, place, result, kind in self._ways(aim.offer, aim.routing, types, aim.counts):
            if place is not None:
                yield Step(op, (aim.sources[place],), result, kind)
                continue
            fns = (aim.offer.fn,) if aim.routing is None else (*aim.routing.branches, aim.routing.merge)
            yield Step(op, aim.sources, result, kind, fns, aim.routing)

    def _references(self, streams: Sequence[TypeId], company: Sequence[int], newest: int) -> Iterator[Step]:
        types = self.space.types
        others = [other for other in company if other != newest]
        for data, reference in [*((newest, other) for other in others), *((other, newest) for other in others)]:
            source, shape = types[streams[data]], types[streams[reference]].shape
            if shape[1:] == source.shape and shape[0] != ONE:
                made = StreamType(source.dtype, shape)
                kind = structure_kind(RepeatRef(), source, self.context, made)
                yield Step(RepeatRef(), (data, reference), self.space.intern(made), kind)

    def towards_outputs(self, stream: int, type_: TypeId) -> Iterator[Step]:
        """The structural primitives with which a stream may become an output."""
        known = self._endings.get(type_)
        if known is None:
            plans = [plan for output in self.space.outputs for plan in self.space.plans(type_, output)[:1] if plan.ops]
            known = self._endings[type_] = tuple(dict.fromkeys(self._structural(p.ops[0], 0, type_) for p in plans))
        for op, _, result, kind in known:
            yield Step(op, (stream,), result, kind)

    def _structural(self, op: Primitive, place: int, type_: TypeId) -> Way:
        source = self.space.types[type_]
        result = op.infer((source,), self._rules)[0]
        return op, place, self.space.intern(result), structure_kind(op, source, self.context, result)

    def _ways(
        self, offer: Offer, routing: Routing | None, types: tuple[TypeId, ...], counts: tuple[int, ...]
    ) -> tuple[Way, ...]:
        key = (id(offer), types, counts)
        known = self._known.get(key)
        if known is None:
            number = offer.suffixes[0][1]
            joins = self.space.joins(types, offer.served(counts), number)[:_MOST_JOINS]
            if joins and not offer.fn.stateful and not any(plan.ops for plan in joins[0].plans):
                joins = joins[:1]
            found = [way for join in joins for way in self._along(offer.fn, routing, types, join)]
            if routing is not None:
                found += self._sliced(offer, routing, types, counts)
            known = self._known[key] = tuple(found)
        return known

    def _along(self, fn: Fn, routing: Routing | None, types: Sequence[TypeId], join: Join) -> Iterator[Way]:
        """What a join asks for next: of each source that is not there yet the next primitive, else the function."""
        waiting = [(place, plan.ops[0]) for place, plan in enumerate(join.plans) if plan.ops]
        if waiting:
            yield from (self._structural(op, place, types[place]) for place, op in waiting)
        elif routing is not None:
            yield None, None, self.space.intern(StreamType(fn.output, join.shape)), ROUTE
        elif not fn.stateful:
            yield Map(fn), None, self.space.intern(StreamType(fn.output, join.shape)), map_kind(fn)
        for fold in self.space.folds(join.shape) if fn.stateful and not waiting and routing is None else ():
            if fold.placeholder:
                ranks = [(place, len(self.space.types[type_].shape)) for place, type_ in enumerate(types)]
                yield from (self._structural(Promote(rank), place, types[place]) for place, rank in ranks)
                continue
            shape = join.shape if fold.scan else join.shape[fold.b :]
            op = Scan(fn, fold.b) if fold.scan else Accum(fn, fold.b)
            kind = self.context.fold_kind(fold.scan, fn, fold.inner)
            yield op, None, self.space.intern(StreamType(fn.output, shape)), kind

    def _sliced(
        self, offer: Offer, routing: Routing, types: Sequence[TypeId], counts: tuple[int, ...]
    ) -> Iterator[Way]:
        """A routing whose index has the outer dims of its data only."""
        served, known = offer.served(counts), [self.space.types[type_] for type_ in types]
        data, index = known[0].shape, known[-1].shape
        ready = all(stream.dtype == dtype for stream, dtype in zip(known, served, strict=True))
        ready = ready and len({stream.shape for stream in known[:-1]}) == 1 and len(index) < len(data)
        if ready and data[len(data) - len(index) :] == index:
            yield None, None, self.space.intern(StreamType(routing.merge.output, data)), ROUTE


def map_kind(fn: Fn) -> Kind:
    """The kind of a Map."""
    return ("Map", kind_of(fn.input), kind_of(fn.output))


def structure_kind(op: Primitive, source: StreamType, context: Context, result: StreamType) -> Kind:
    """The kind of a structural primitive: by what becomes of the dims."""
    match op:
        case Promote(b=b):
            return (op.name, "outside" if b == len(source.shape) else "inside")
        case Repeat() | RepeatRef():
            return (op.name, "kept" if result.shape[0] in context.kept else "gone")
        case Flatten():
            return (op.name, "padding" if ONE in source.shape else "dims")
        case Bufferize(a=a):
            return (op.name, str(a))
    return (op.name,)
