"""Samples drafts: function first, then its operands, until every function is used.

A finished draft applies every function and leaves only its outputs. A draft without a next move, or with too many
moves, is a dead end.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.lms.embedded.draft import Draft, Move, Routing
from pipeline.lms.embedded.operands import Callee, Operands
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.retrieval.applications import How, how_folded
from pipeline.lms.embedded.retrieval.precedents import Precedents
from pipeline.lms.embedded.retrieval.recommender import Recommender, choose_order
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.strong.edge_model import EdgeModel
from pipeline.lms.embedded.strong.move_builder import MoveBuilder
from pipeline.lms.embedded.strong.operand_ranking import OperandRanking
from pipeline.lms.embedded.strong.output_binding import OutputBinder
from pipeline.lms.embedded.strong.reference_guide import Hint, ReferenceGuide
from pipeline.lms.embedded.strong.slicing import backward_slice
from pipeline.lms.embedded.symbolic.interpretation import Interpretation
from pipeline.lms.embedded.task_view import TaskView
from pipeline.lms.embedded.types.type_table import TypeTable

# Scores, in the units of the softmax at sharpness 1.
_APPLIED_AGAIN = -2.8
_SUPPORTED = 3.0
"""For a step along the interpretation with a perfect precedent."""
_KEEN = 5.0
"""How strongly the better one of several precedents is preferred."""
# Probabilities.
_FOLLOWED = 0.97
"""How often an open step of the interpretation is taken."""
_DETOURS = 0.4
"""How often a term that the reference does not compute itself may be a step towards it."""
_UNROUTED = 0.04
"""How often functions that could be routed are applied on their own."""
_GIVES_UP = 0.5
"""How often a draft is abandoned that has used every function but has streams left over."""

_MOST_USES = 3
_SCANNED = 10
"""The number of pairs of a stream and a component that count as one step when streams are ranked."""
_ALONG = 0.5
"""The part of a draft's limit of moves that a step along the interpretation takes, as such steps are finite."""


@dataclass(frozen=True)
class LearnedEdges:
    """What was learned, weighted by relevance to one task."""

    edge_model: EdgeModel
    precedents: Precedents


def _supported(hint: Hint, recommender: Recommender) -> float:
    """How well precedents support a step along the interpretation."""
    support = recommender.support(hint.callee, hint.routing, hint.operands)
    return max((s for how, s in support.items() if hint.scan in (None, how.startswith("Scan"))), default=0.0)


class DraftSearch:
    """The drafts of one sample; with an `interpretation`, they follow it where they can."""

    def __init__(
        self,
        view: TaskView,
        learned: LearnedEdges,
        choice: SeededChoice,
        steps: StepLimit,
        interpretation: Interpretation | None = None,
    ) -> None:
        self._steps = steps
        self._view = view
        self._table: TypeTable = view.table
        self._choice = choice
        self._interpretation = interpretation
        self._precedents = learned.precedents
        self._operands = MoveBuilder(view, learned.edge_model, choice, read=interpretation is not None)

    def sample(self) -> Draft | None:
        """Samples one draft; None for a dead end.

        Raises:
            StepsExhausted: The sample has used all its steps.
        """
        draft = Draft.start(self._table.inputs)
        routings = self._choose_routings()
        callees_given = self._view.callees_given(routings)
        callees = [callee for callee, routing in callees_given if routing is None]
        guide = self._guide(draft, callees, routings)
        ranking = OperandRanking(self._view, draft, read=self._interpretation is not None)
        recommender = Recommender(self._precedents, draft.streams, callees_given, self._steps)
        left = 2.0 * len(self._view.callees) + 3
        components = sum(len(callee.need) for callee in callees)
        while left > 0:
            self._steps.spend(1 + len(draft.streams) * components // _SCANNED)
            hints = () if guide is None else guide.hints()
            if self._all_applied(draft):
                lean = guide and backward_slice(self._table, draft, guide, set(self._view.fns))
                if lean:
                    return lean
                ended = OutputBinder(self._table, draft, guide, self._choice).bind()
                if ended and (draft.read or not hints):
                    return draft
                if not hints and self._choice.happens(_GIVES_UP):
                    return None
            move = self._hinted(draft, guide, recommender)
            left -= _ALONG if move else 1
            move = move or self._recommended(draft, recommender)
            move = move or self._next(draft, ranking, callees, routings)
            if move is None:
                return None
            draft.add(move)
            draft.support.append(recommender.applied(move.maker, self._how(move), move.sources, len(draft.streams) - 1))
            if guide is not None:
                guide.advance()
        ended = self._all_applied(draft) and OutputBinder(self._table, draft, guide, self._choice).bind()
        return draft if ended else None

    def _guide(self, draft: Draft, callees: Sequence[Callee], routings: Sequence[Routing]) -> ReferenceGuide | None:
        if self._interpretation is None:
            return None
        detours = self._choice.happens(_DETOURS)
        return ReferenceGuide(self._view, self._interpretation, draft, callees, routings, self._steps, detours=detours)

    def _how(self, move: Move) -> How:
        if move.fold is None:
            return "Map" if move.routing is None else "Route"
        shape = self._table.types[move.result].shape
        return how_folded(move.fold.scan, shape[move.fold.b :] if move.fold.scan else shape)

    def _choose_routings(self) -> tuple[Routing, ...]:
        if not self._view.routings or self._choice.happens(_UNROUTED):
            return ()
        return (self._choice.any_of(self._view.routings),)

    def _all_applied(self, draft: Draft) -> bool:
        return len({fn for move in draft.moves for fn in move.functions()}) == len(self._view.callees)

    def _hinted(self, draft: Draft, guide: ReferenceGuide | None, recommender: Recommender) -> Move | None:
        """A step along the interpretation, if one is open."""
        hints = guide.hints() if guide is not None and self._choice.happens(_FOLLOWED) else ()
        if not hints:
            return None
        applied = {fn for move in draft.moves for fn in move.functions()}
        scores = [
            _APPLIED_AGAIN * (hint.callee.fn in applied) - hint.distance + _SUPPORTED * _supported(hint, recommender)
            for hint in hints
        ]
        hint = self._choice.pick(hints, scores)
        if hint.routing is not None:
            return self._operands.route(draft, hint.routing, hint.operands, hint.branches)
        return self._operands.apply(draft, hint.callee, hint.operands, hint.scan)

    def _recommended(self, draft: Draft, recommender: Recommender) -> Move | None:
        """What a precedent recommends next, with a probability by its quality."""
        recommendations = recommender.recommendations()
        if not recommendations or not self._choice.happens(max(each.support for each in recommendations)):
            return None
        chosen = self._choice.pick(recommendations, [_KEEN * math.log(each.support) for each in recommendations])
        if chosen.routing is not None:
            return self._route(draft, chosen.routing, chosen.operands)
        return self._operands.apply(draft, chosen.callee, chosen.operands, chosen.scan)

    def _route(self, draft: Draft, routing: Routing, operands: Operands) -> Move | None:
        order = choose_order(routing, self._precedents, self._choice)
        return self._operands.route(draft, routing, operands, order)

    def _next(
        self, draft: Draft, ranking: OperandRanking, callees: Sequence[Callee], routings: Sequence[Routing]
    ) -> Move | None:
        """A step that types allow; None where there is none."""
        uses = Counter(fn for move in draft.moves for fn in move.functions())
        left: list[tuple[Callee | Routing, float]] = [
            (callee, _APPLIED_AGAIN * bool(uses[callee.fn]) + ranking.readiness(callee))
            for callee in callees
            if uses[callee.fn] < _MOST_USES
        ]
        left += [(routing, 0.0) for routing in routings if not uses[routing.merge]]
        while left:
            chosen = self._choice.pick(left, [score for _, score in left])
            left.remove(chosen)
            move = self._apply(draft, ranking, chosen[0])
            if move is not None and move.key not in draft.keys:
                return move
        return None

    def _apply(self, draft: Draft, ranking: OperandRanking, item: Callee | Routing) -> Move | None:
        callee = self._view.routing_callees[id(item)] if isinstance(item, Routing) else item
        operands = ranking.choose(callee, self._choice)
        if operands is None:
            return None
        if isinstance(item, Routing):
            return self._route(draft, item, operands)
        if len(operands.sources) > 1 and self._view.projects(callee.fn):
            return None
        return self._operands.apply(draft, callee, operands)
