"""The possible next actions, one primitive at a time, for the small proposer.

An `Action` applies one primitive to existing streams; only a Partition, the functions of its branches and the Merge
form one action together. Types alone decide which actions there are: only the declared types of a function
are considered, and nothing of the reference. A structural primitive is available where it is the first on some path to
streams that a function could take, or to an output; a program need not follow the rest of that path.
All answers depend on types only, so they are cached per task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from pipeline.lms.embedded.draft import Routing
from pipeline.lms.embedded.kinds import ROUTE, Context, Kind, map_kind, structure_kind
from pipeline.lms.embedded.operands import Callee, find_operands
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.task_view import TaskView
from pipeline.lms.embedded.types.coercions import ONE
from pipeline.lms.embedded.types.type_table import Join, TypeId, TypeTable
from step_runtime.base.functions import Fn
from step_runtime.base.types import StreamType
from step_runtime.primitives import (
    Accum,
    Map,
    Primitive,
    Promote,
    RepeatRef,
    Rules,
    Scan,
)

_MOST_JOINS = 2
"""For streams that can come to one shape in more ways than these, only the cheapest are considered."""
_JOINED = 50
"""Steps that finding how operands of some types join counts for."""
_MOST_STREAMS = 4
"""If there are more streams, only the newest and those not used yet are combined with others."""


class Action(NamedTuple):
    """One primitive, or one routing, on streams by number."""

    op: Primitive | None
    sources: tuple[int, ...]
    result: TypeId
    kind: Kind
    fns: tuple[Fn, ...] = ()
    routing: Routing | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """Actions of one key make the same."""
        return (self.op, self.sources, self.result)


class Goal(NamedTuple):
    """A function, or a routing, and the streams to apply it to; `counts` has the components that each serves."""

    callee: Callee
    routing: Routing | None
    sources: tuple[int, ...]
    counts: tuple[int, ...]

    def moved(self, source: int, to: int) -> Goal:
        """The same on another stream."""
        return self._replace(sources=tuple(to if stream == source else stream for stream in self.sources))


ActionTemplate: TypeAlias = tuple[Primitive | None, int | None, TypeId, Kind]
"""As an action, but its operand is the place of one source among several, or None for all of them."""


class ActionTable:
    """The actions of one task's programs. Threads may share it, as a `TypeTable`."""

    def __init__(self, view: TaskView) -> None:
        self.view = view
        self.table: TypeTable = view.table
        self.context = Context.of(view.scope.outputs, frozenset())
        self.arity = {callee.fn: len(callee.need) for callee in view.callees}
        routes = [(view.routing_callees[id(routing)], routing) for routing in view.routings]
        self.callees_given: list[tuple[Callee, Routing | None]] = [
            *((callee, None) for callee in view.callees),
            *routes,
        ]
        self._rules = Rules(view.scope.sizes)
        self._known: dict[tuple[int, tuple[TypeId, ...], tuple[int, ...]], tuple[ActionTemplate, ...]] = {}
        self._endings: dict[TypeId, tuple[ActionTemplate, ...]] = {}

    def with_newest(self, streams: Sequence[TypeId], uses: Sequence[int], limit: StepLimit) -> Iterator[Action]:
        """The actions that take the last of these streams, alone or with others."""
        newest = len(streams) - 1
        company = [stream for stream in range(newest + 1) if not uses[stream] or stream > newest - _MOST_STREAMS]
        found: dict[tuple[object, ...], Action] = {}
        for action in self._all(streams, company, newest, limit):
            found.setdefault((action.op, action.sources, action.routing and id(action.routing)), action)
        return iter(found.values())

    def _all(
        self, streams: Sequence[TypeId], company: Sequence[int], newest: int, limit: StepLimit
    ) -> Iterator[Action]:
        yield from self._references(streams, company, newest)
        for goal in self.goals(streams, company, newest, limit):
            types = tuple(streams[source] for source in goal.sources)
            limit.spend_once((id(goal.callee), types, goal.counts), _JOINED)
            yield from self.towards(goal, streams)

    def goals(self, streams: Sequence[TypeId], company: Sequence[int], newest: int, limit: StepLimit) -> Iterator[Goal]:
        """What could be applied to streams including the newest, now or after structural primitives."""
        for callee, routing in self.callees_given:
            for operands in find_operands(streams, company, callee, newest, limit):
                yield Goal(callee, routing, *operands)

    def towards(self, goal: Goal, streams: Sequence[TypeId]) -> Iterator[Action]:
        """The next actions towards an application: structural ones on its sources, or itself."""
        types = tuple(streams[source] for source in goal.sources)
        for op, place, result, kind in self._templates(goal.callee, goal.routing, types, goal.counts):
            if place is not None:
                yield Action(op, (goal.sources[place],), result, kind)
                continue
            fns = (goal.callee.fn,) if goal.routing is None else (*goal.routing.branches, goal.routing.merge)
            yield Action(op, goal.sources, result, kind, fns, goal.routing)

    def _references(self, streams: Sequence[TypeId], company: Sequence[int], newest: int) -> Iterator[Action]:
        types = self.table.types
        others = [other for other in company if other != newest]
        for data, reference in [*((newest, other) for other in others), *((other, newest) for other in others)]:
            source, shape = types[streams[data]], types[streams[reference]].shape
            if shape[1:] == source.shape and shape[0] != ONE:
                made = StreamType(source.dtype, shape)
                kind = structure_kind(RepeatRef(), source, self.context, made)
                yield Action(RepeatRef(), (data, reference), self.table.intern(made), kind)

    def towards_outputs(self, stream: int, type_: TypeId) -> Iterator[Action]:
        """The structural primitives with which a stream may become an output."""
        known = self._endings.get(type_)
        if known is None:
            coercions = [
                coercion
                for output in self.table.outputs
                for coercion in self.table.coercions(type_, output)[:1]
                if coercion.ops
            ]
            known = self._endings[type_] = tuple(dict.fromkeys(self._structural(p.ops[0], 0, type_) for p in coercions))
        for op, _, result, kind in known:
            yield Action(op, (stream,), result, kind)

    def _structural(self, op: Primitive, place: int, type_: TypeId) -> ActionTemplate:
        source = self.table.types[type_]
        result = op.infer((source,), self._rules)[0]
        return op, place, self.table.intern(result), structure_kind(op, source, self.context, result)

    def _templates(
        self, callee: Callee, routing: Routing | None, types: tuple[TypeId, ...], counts: tuple[int, ...]
    ) -> tuple[ActionTemplate, ...]:
        key = (id(callee), types, counts)
        known = self._known.get(key)
        if known is None:
            number = callee.number
            joins = self.table.plain_joins(types, callee.operand_types(counts), number)[:_MOST_JOINS]
            if joins and not callee.fn.stateful and not any(coercion.ops for coercion in joins[0].coercions):
                joins = joins[:1]
            found = [way for join in joins for way in self._along(callee.fn, routing, types, join)]
            if routing is not None:
                found += self._sliced(callee, routing, types, counts)
            known = self._known[key] = tuple(found)
        return known

    def _along(self, fn: Fn, routing: Routing | None, types: Sequence[TypeId], join: Join) -> Iterator[ActionTemplate]:
        """The next actions of a join: for each source not in form yet, the next primitive; else the function."""
        waiting = [(place, coercion.ops[0]) for place, coercion in enumerate(join.coercions) if coercion.ops]
        if waiting:
            yield from (self._structural(op, place, types[place]) for place, op in waiting)
        elif routing is not None:
            yield None, None, self.table.intern(StreamType(fn.output, join.shape)), ROUTE
        elif not fn.stateful:
            yield Map(fn), None, self.table.intern(StreamType(fn.output, join.shape)), map_kind(fn)
        for fold in self.table.folds(join.shape) if fn.stateful and not waiting and routing is None else ():
            if fold.placeholder:
                ranks = [(place, len(self.table.types[type_].shape)) for place, type_ in enumerate(types)]
                yield from (self._structural(Promote(rank), place, types[place]) for place, rank in ranks)
                continue
            shape = join.shape if fold.scan else join.shape[fold.b :]
            op = Scan(fn, fold.b) if fold.scan else Accum(fn, fold.b)
            kind = self.context.fold_kind(fold.scan, fn, fold.inner)
            yield op, None, self.table.intern(StreamType(fn.output, shape)), kind

    def _sliced(
        self, callee: Callee, routing: Routing, types: Sequence[TypeId], counts: tuple[int, ...]
    ) -> Iterator[ActionTemplate]:
        """A routing whose index has the outer dims of its data only."""
        operand_types, known = callee.operand_types(counts), [self.table.types[type_] for type_ in types]
        data, index = known[0].shape, known[-1].shape
        ready = all(stream.dtype == dtype for stream, dtype in zip(known, operand_types, strict=True))
        ready = ready and len({stream.shape for stream in known[:-1]}) == 1 and len(index) < len(data)
        if ready and data[len(data) - len(index) :] == index:
            yield None, None, self.table.intern(StreamType(routing.merge.output, data)), ROUTE
