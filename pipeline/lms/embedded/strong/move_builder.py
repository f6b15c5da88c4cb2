"""Builds a move from a function and its operands: coercions to one shape, and how the function folds them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from pipeline.lms.embedded.draft import Draft, Move, Routing
from pipeline.lms.embedded.operands import Callee, Operands
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.retrieval.applications import How, form_of
from pipeline.lms.embedded.retrieval.habits import Habits
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.strong.edge_model import EdgeModel
from pipeline.lms.embedded.strong.move_scores import BY_HAND, MoveScores
from pipeline.lms.embedded.strong.ways import MoveMemory, Way, Ways
from pipeline.lms.embedded.task_view import TaskView
from pipeline.lms.embedded.types.coercions import ONE, cut, factors, without_ones
from pipeline.lms.embedded.types.type_table import FoldSpec, Join, TypeId, TypeTable
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Dim
from step_runtime.base.types import DType, StreamType, STuple, components_of

# Scores, in the units of the softmax at sharpness 1, of moves that are sampled one by one.
_STUCK = -4.0
"""For each dim of a fold's result that nothing is left to remove."""
_CROSSED = 3.0
"""For a stream whose elements all meet where the reference brings elements of one value together."""
_LOST = -5.0
"""For folding a dim that the outputs have, where no function is left that could fold."""
_APART = -8.0
"""For each pair of tuples that a function takes together and that can't be brought to one shape."""
_FORM = 8.0
"""For a form in which a like function is applied in a solved task of full relevance."""
_EASED = 0.6
"""The part of the best way's effort that is not counted, as the function must be applied some time."""
_JOINED = 80
"""Steps that bringing a stream to a shape counts for, and again for each of its dims that can be split."""
_VARIANTS, _COUNTED = 8, 4
"""The number of shapes and folds with which a function is applied to the same streams, more where steps are counted,"""
_MUCH_WORSE = 6.0
"""and how much worse these may be than the best: of 582 moves of oracles, all are within 4.8."""


_Places: TypeAlias = tuple[int, ...] | None


class MoveBuilder:
    """Turns a function and its sources into a move, for one sample.

    `read` says whether the sample may use the interpretation of the functions' code; `habits` are those of solved
    tasks. Builders that share a `memory` have the same task, edge model and habits.
    """

    def __init__(
        self,
        view: TaskView,
        edge_model: EdgeModel,
        choice: SeededChoice,
        steps: StepLimit,
        *,
        read: bool,
        habits: Habits | None = None,
        memory: MoveMemory | None = None,
        scores: MoveScores = BY_HAND,
    ) -> None:
        self._scores = scores
        self._memory = memory or MoveMemory()
        self._works: list[tuple[int, int]] = []
        self._steps = steps
        self._view = view
        self._table: TypeTable = view.table
        self._edge_model = edge_model
        self._habits = habits
        self._choice = choice
        self._read = read
        self._fold_scores: dict[tuple[str, FoldSpec], float] = {}
        self._batch = view.table.batch_dims - view.mixed
        self._form_scores: dict[tuple[object, ...], float] = {}

    def apply(
        self,
        draft: Draft,
        callee: Callee,
        operands: Operands,
        scan: bool | None = None,
        left: frozenset[Fn] | None = None,
    ) -> Move | None:
        """A function on its sources; None if they cannot be joined.

        `scan` says how it folds, if that is decided; `left` are the functions that are then left to apply, if the
        sample looks ahead.
        """
        types = tuple([draft.streams[source] for source in operands.sources])
        # A step along the reading may well take a stream twice.
        places = _places(operands) if left is not None else None
        key = (self._read, self._habits is not None, callee, operands.counts, types)
        if callee.fn.stateful:
            shapes = tuple(dict.fromkeys(map(self._view.shape_number, draft.streams)))
            found = self._remembered(
                (*key, shapes, scan, left), lambda: self._folds(callee, operands.counts, types, shapes, scan, left)
            )
        else:
            found = self._remembered((*key, places), lambda: self._maps(callee, operands.counts, types, places))
        scores = found.scores
        if left is not None and isinstance(callee.fn.output, STuple):
            others = self._unused_tuples(draft, operands)
            scores = [
                score + _APART * sum(self._view.apart(fn, way.result, other) for fn in left for other in others)
                for way, score in zip(found.ways, scores, strict=True)
            ]
        if not found.ways:
            return None
        way = self._choice.pick(found.ways, scores)
        return Move((callee.fn,), operands.sources, way.coercions, way.result, way.fold)

    def variants(
        self, streams: Sequence[TypeId], callee: Callee, operands: Operands, *, grown: bool = True
    ) -> list[tuple[Move, float]]:
        """The best ways to apply a function to its sources, each with its score, best first.

        Folds may also be at the shape of an input or an output, to which the sources are then `grown`.
        """
        types = tuple([streams[source] for source in operands.sources])
        places = _places(operands)
        found = self._remembered(
            (self._read, callee, operands.counts, types, places, grown),
            lambda: self._variants(callee, operands.counts, types, places, grown=grown),
        )
        return [
            (Move((callee.fn,), operands.sources, way.coercions, way.result, way.fold), score)
            for way, score in zip(found.ways, found.scores, strict=True)
        ]

    def _remembered(self, key: tuple[object, ...], find: Callable[[], list[tuple[Way, float]]]) -> Ways:
        """The ways that were found for a key before, or are found now; either takes the same steps."""
        known = self._memory.ways.get(key)
        if known is not None:
            for work, steps in known.works:
                self._steps.spend_once(work, steps)
            return known
        self._works = []
        found = find()
        same = self._memory.same
        ways, scores = [same.get(way) or same.keep(way, way) for way, _ in found], [score for _, score in found]
        return self._memory.ways.keep(key, Ways(ways, scores, tuple(self._works)))

    def _maps(
        self, callee: Callee, counts: tuple[int, ...], types: tuple[TypeId, ...], places: _Places
    ) -> list[tuple[Way, float]]:
        """The ways to apply a function without a state."""
        return [
            (
                Way(join.coercions, self._type(callee.fn, join.shape)),
                self._scores.cost * join.cost
                + self._meeting(join, places, _CROSSED)
                + self._form_score(callee.fn, types, join),
            )
            for join in self._joins(types, callee.operand_types(counts), callee.number)
        ]

    def _folds(
        self,
        callee: Callee,
        counts: tuple[int, ...],
        types: tuple[TypeId, ...],
        shapes: Sequence[int],
        scan: bool | None,
        left: frozenset[Fn] | None,
    ) -> list[tuple[Way, float]]:
        """The ways to fold with a function, also at the larger ones of some shapes: a fold may count what is repeated.

        `scan` says how it folds, if that is decided; `left` are the functions that are then left to apply.
        """
        joins, larger = self._joins_at(callee, counts, types, map(self._view.shape_numbered, shapes))
        return [
            (
                Way(join.coercions, self._type(callee.fn, _folded(join, fold)), fold),
                self._fold_score(callee.fn, join, fold, grown=grown)
                + self._leftover(callee.fn, join, fold, left, alone=len(types) == 1)
                + self._form_score(callee.fn, types, join, fold),
            )
            for join, grown in [*((join, False) for join in joins), *((join, True) for join in larger)]
            for fold in self._table.folds(join.shape)
            if scan in (None, fold.scan)
        ]

    def _variants(
        self, callee: Callee, counts: tuple[int, ...], types: tuple[TypeId, ...], places: _Places, *, grown: bool
    ) -> list[tuple[Way, float]]:
        """The best ways to apply a function to streams of these types at these `places`."""
        found = []
        if not callee.fn.stateful:
            joins = self._joins(types, callee.operand_types(counts), callee.number)
            eased = self._eased(types, joins)
            for join in joins:
                met = self._meeting(join, places, self._scores.met)
                way = Way(join.coercions, self._type(callee.fn, join.shape))
                found.append((way, self._effort(types, join) + eased + met))
            return _best(found)
        joins, larger = self._joins_at(callee, counts, types, self._view.outer_shapes if grown else ())
        eased = self._eased(types, joins)
        for join, to_other in [*((join, False) for join in joins), *((join, True) for join in larger)]:
            for fold in self._table.folds(join.shape):
                if (to_other and not self._counts(types, join, fold)) or (fold.scan and join.crossed is not None):
                    continue
                score = self._fold_score(callee.fn, join, fold, grown=to_other) - self._scores.cost * join.cost
                score += self._effort(types, join, grown=to_other) + eased + self._meeting(join, places, 0.0)
                score += self._scores.unordered * (fold.scan and not self._view.sequential)
                found.append((Way(join.coercions, self._type(callee.fn, _folded(join, fold)), fold), score))
        return _best(found, _VARIANTS + _COUNTED * bool(larger and self._view.step_dims))

    def _counts(self, types: Sequence[TypeId], join: Join, fold: FoldSpec) -> bool:
        """Whether a fold reduces the dims that only count steps, unless sources or outputs have them."""
        steps = self._view.step_dims.intersection(join.shape).difference(
            *map(self._view.parts, (*types, *self._table.outputs))
        )
        return not steps or (not fold.scan and steps.issubset(fold.inner))

    def eased(self, streams: Sequence[TypeId], callee: Callee, operands: Operands) -> float:
        """What is not counted of the effort of applying a function to its sources."""
        types = tuple([streams[source] for source in operands.sources])
        return self._eased(types, self._joins(types, callee.operand_types(operands.counts), callee.number))

    def _eased(self, types: Sequence[TypeId], joins: Sequence[Join]) -> float:
        """What is not counted of the effort."""
        return -_EASED * max((self._effort(types, join) for join in joins), default=0.0)

    def _joins_at(
        self, callee: Callee, counts: tuple[int, ...], types: tuple[TypeId, ...], shapes: Iterable[tuple[Dim, ...]]
    ) -> tuple[tuple[Join, ...], tuple[Join, ...]]:
        """The joins of streams, and those at the larger ones of some shapes."""
        operand_types, number = callee.operand_types(counts), callee.number
        joins = self._joins(types, operand_types, number)
        larger = tuple(
            join
            for dims in shapes
            for join in self._joins(types, operand_types, number, dims)
            if joins and len(join.shape) > len(joins[0].shape)
        )
        return joins, larger

    def route_variants(
        self, streams: Sequence[TypeId], callee: Callee, routing: Routing, operands: Operands
    ) -> list[tuple[Move, float]]:
        """As `variants`, for a routing with its branches in the order that its functions' code suggests."""
        order = self._view.branch_order(routing)
        types = tuple([streams[source] for source in operands.sources])
        found = self._remembered(
            (self._read, callee, operands.counts, types),
            lambda: _best(
                (Way(join.coercions, self._type(routing.merge, join.shape)), self._effort(types, join))
                for join in self._index_joins(callee, operands, types)
            ),
        )
        return [
            (Move(order, operands.sources, way.coercions, way.result, routing=routing), score)
            for way, score in zip(found.ways, found.scores, strict=True)
        ]

    def route(self, draft: Draft, routing: Routing, operands: Operands, branches: tuple[Fn | None, ...]) -> Move | None:
        """A routing on its data's sources and, last, its index; `branches` in the order of the bits."""
        types = [draft.streams[source] for source in operands.sources]
        joins = [*self._index_joins(self._view.routing_callees[id(routing)], operands, types)]
        if not joins:
            return None
        join = self._choice.pick(joins, [self._scores.cost * join.cost for join in joins])
        return Move(branches, operands.sources, join.coercions, self._type(routing.merge, join.shape), routing=routing)

    def _leftover(self, fn: Fn, join: Join, fold: FoldSpec, left: frozenset[Fn] | None, *, alone: bool) -> float:
        """The score for dims that a fold leaves over, and for repeating a Buffer along its own dims.

        What is folded `alone` may meet its result, so that dims return which a fold removes.
        """
        removable = None if left is None else self._view.removable(left)
        if left is None or removable is None:
            return 0.0
        own = {dim for part in components_of(fn.input) for dim in cut(part)[1]}
        score = self._scores.repeated * sum(dim in own for dim in without_ones(join.shape)) if own else 0.0
        if not fold.scan and not (alone and self._view.joins(left)):
            score += _LOST * sum(dim in self._table.always_kept for dim in fold.inner)
        return score + _STUCK * sum(dim not in removable for dim in without_ones(_folded(join, fold)))

    def _unused_tuples(self, draft: Draft, operands: Operands) -> set[TypeId]:
        """The types of tuples that nothing takes yet: some can never meet those that a function takes with them."""
        return {
            type_
            for stream, type_ in enumerate(draft.streams)
            if not draft.uses[stream] and stream not in operands.sources
            if isinstance(self._table.types[type_].dtype, STuple)
        }

    def _type(self, fn: Fn, shape: tuple[Dim, ...]) -> TypeId:
        return self._table.intern(StreamType(fn.output, shape))

    def _joins(
        self, types: Sequence[TypeId], operand_types: Sequence[DType], number: int, towards: tuple[Dim, ...] = ()
    ) -> tuple[Join, ...]:
        splits = sum(bool(factors(dim)) for type_ in types for dim in self._view.plain_shape(type_))
        work = self._table.join_number(types, len(operand_types), number, towards), _JOINED * (len(types) + 2 * splits)
        self._works.append(work)
        self._steps.spend_once(*work)
        return self._table.joins(types, operand_types, number, towards, self._view.pairing)

    def _meeting(self, join: Join, places: _Places, met: float) -> float:
        """The score of a stream that meets itself: element by element, or `met` elements of other places."""
        if places is None:
            return 0.0
        if len(set(zip(places, join.coercions, strict=True))) < len(places):
            return self._scores.alone
        return met * (join.crossed is not None and self._crosses(join))

    def _crosses(self, join: Join) -> bool:
        """Whether the reference lets streams meet as well along the dim along which a join does, if any."""
        return self._view.crosses or join.crossed in self._view.pairing

    def _effort(self, types: Sequence[TypeId], join: Join, *, grown: bool = False) -> float:
        """The score of what bringing streams to one shape needs: repeating along a dim of another one is common.

        A shape may be `grown` to that of a stream that is met later, or by steps, which count once for all of them.
        """
        score = (
            self._scores.cost * (join.cost - sum(coercion.cost for coercion in join.coercions))
            + self._scores.grown * grown
        )
        score += self._scores.across * (join.crossed is not None and not self._crosses(join))
        held = frozenset[Dim]().union(*map(self._view.parts, types))
        counted = self._view.step_dims.intersection(join.shape) - held if grown else frozenset()
        score += self._scores.broadcast * len(counted)
        for coercion in join.coercions:
            for dim in coercion.repeats:
                if dim not in counted:
                    score += self._scores.broadcast if grown or dim in held else self._scores.invented
            score += self._scores.reshaped * coercion.reshapes + self._scores.recut * coercion.recuts
        return score

    def _index_joins(self, callee: Callee, operands: Operands, types: Sequence[TypeId]) -> Iterator[Join]:
        operand_types, number = callee.operand_types(operands.counts), callee.number
        yield from self._joins(types, operand_types, number)
        for join in self._joins(types[:-1], operand_types[:-1], number):
            # An index may route whole slices: then it has the outer dims only.
            for inner in range(1, len(join.shape)):
                target = self._table.intern(StreamType(operand_types[-1], join.shape[inner:]))
                for coercion in self._table.coercions(types[-1], target)[:1]:
                    yield Join(join.shape, (*join.coercions, coercion), join.cost + coercion.cost)

    def _fold_score(self, fn: Fn, join: Join, fold: FoldSpec, *, grown: bool) -> float:
        key = (fn.label, fold)
        known = self._fold_scores.get(key)
        if known is None:
            known = self._fold_scores[key] = self._score_fold(fn, fold)
        return known + self._scores.cost * join.cost + self._scores.repeated * (grown and not fold.scan)

    def _form_score(self, fn: Fn, types: Sequence[TypeId], join: Join, fold: FoldSpec | None = None) -> float:
        """The score by the forms in which solved tasks apply like functions."""
        if self._habits is None:
            return 0.0
        key = (fn.label, *types, join.shape, fold)
        known = self._form_scores.get(key)
        if known is None:
            form = form_of(join.shape, fold.inner if fold else (), [self._table.types[type_] for type_ in types])
            how: How = "Map" if fold is None else "Scan" if fold.scan else "Accum"
            known = self._form_scores[key] = _FORM * self._habits.form(fn, how, form)
        return known

    def _score_fold(self, fn: Fn, fold: FoldSpec) -> float:
        gone = sum((dim not in self._table.kept_dims) - (dim in self._table.always_kept) for dim in fold.inner)
        score = self._scores.deeper * (fold.b - 1) + self._scores.placeholder * fold.placeholder
        score += self._scores.batch * sum(dim in self._batch for dim in fold.inner)
        if self._read and self._view.emits(fn):
            score += self._scores.emits if fold.scan else self._scores.emitted
        score += self._scores.scan - 0.5 * self._scores.gone * gone if fold.scan else self._scores.gone * gone
        counted = self._view.counted_after(fn)
        if counted:
            symbols = {symbol for dim in fold.inner for symbol in dim.free_symbols}
            score += (
                self._scores.counted
                if not fold.scan and any(dims == symbols for dims in counted)
                else -self._scores.counted
            )
        return score + self._scores.habit * self._edge_model.fold_bias(fold.scan, fn, fold.inner, self._view.context)


def _places(operands: Operands) -> _Places:
    """Which operands are the same stream: the first place of each; None if all are different."""
    places = tuple(map(operands.sources.index, operands.sources))
    return places if len(set(places)) < len(places) else None


def _best(ways: Iterable[tuple[Way, float]], most: int = _VARIANTS) -> list[tuple[Way, float]]:
    """The best of some ways, best first, without those that are much worse than the best one."""
    found = heapq.nlargest(most, ways, key=lambda pair: pair[1])
    return [way for way in found if way[1] > found[0][1] - _MUCH_WORSE]


def _folded(join: Join, fold: FoldSpec) -> tuple[Dim, ...]:
    """The shape after a fold; the placeholder outside a folded dim stays: alone after Accum, outermost after Scan."""
    return (*join.shape, *(ONE,) * fold.placeholder)[0 if fold.scan else fold.b :]
