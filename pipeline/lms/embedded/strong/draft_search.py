"""Samples drafts: function first, then its operands, until every function is used.

A finished draft applies every function and leaves only its outputs. A draft without a next move, or with too many
moves, is a dead end.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from pipeline.lms.embedded.dependence.dependences import Dependences
from pipeline.lms.embedded.draft import Draft, Move, Routing
from pipeline.lms.embedded.operands import Callee, Operands
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.retrieval.applications import How, how_folded
from pipeline.lms.embedded.retrieval.precedents import Precedents
from pipeline.lms.embedded.retrieval.recommender import Recommender, choose_order
from pipeline.lms.embedded.retrieval.skill_guide import SkillGuide
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.strong.dependence_guide import DependenceGuide
from pipeline.lms.embedded.strong.dim_guide import DimGuide
from pipeline.lms.embedded.strong.edge_model import EdgeModel
from pipeline.lms.embedded.strong.move_builder import MoveBuilder
from pipeline.lms.embedded.strong.operand_ranking import OperandRanking
from pipeline.lms.embedded.strong.output_binding import OutputBinder
from pipeline.lms.embedded.strong.reference_guide import Hint, ReferenceGuide
from pipeline.lms.embedded.strong.repetition import analogy, meets_itself
from pipeline.lms.embedded.strong.routing_choice import choose_callees
from pipeline.lms.embedded.strong.slicing import backward_slice, trimmed
from pipeline.lms.embedded.strong.ways import MoveMemory
from pipeline.lms.embedded.symbolic.interpretation import Interpretation
from pipeline.lms.embedded.task_view import TaskView
from pipeline.lms.embedded.types.coercions import cut, dims_of, without_ones
from pipeline.lms.embedded.types.type_table import TypeTable
from step_runtime.base.functions import Fn

# Scores, in the units of the softmax at sharpness 1.
_APPLIED_AGAIN = -2.8
_TOO_EARLY = -6.0
"""For applying a function again where others have not been applied at all."""
_SUPPORTED = 3.0
"""For a step along the interpretation with a perfect precedent."""
_LISTED = 3.0
"""For branches in the order of the numbers in their code, or else in the order in which they are listed."""
_KEEN = 5.0
"""How strongly the better one of several precedents is preferred."""
_WITH_ITSELF = -6.0
"""For applying a function to a stream twice, each element with itself."""
# Probabilities.
_FOLLOWED = 0.97
"""How often an open step of the interpretation is taken."""
_DETOURS = 0.4
"""How often a term that the reference does not compute itself may be a step towards it."""
_GIVES_UP = 0.5
"""How often a draft is abandoned that has used every function but has streams left over."""
_ENDS = 0.5
"""How often a draft ends whose results depend on the inputs in another way than the outputs."""
_SIMILAR = 0.99
_PROPOSED = 4
"""Steps that comparing a possible step counts for, for each function of the task and a few more."""
_ITEMS = 6
_WAYS = 2
"""The number of functions, and of ways to apply each, among which the dependences choose."""
_MISFIT = -8.0
"""For a step to something that depends on the inputs in another way than the reference."""
_STUCK = -4.0
"""For each dim of a step's result that nothing is left to remove."""
_PREMATURE = -4.0
"""For each function that is not applied yet and whose result no other function that is left can take."""
_MOST_USES = 3
_TURN = 100
_SCANNED = 2
"""Steps that looking for a next move counts for, and pairs of a stream and a component that count as one more."""
_ALONG = 0.5
"""The part of a draft's limit of moves that a step along the interpretation takes, as such steps are finite."""


@dataclass(frozen=True)
class LearnedEdges:
    """What was learned, weighted by relevance to one task."""

    edge_model: EdgeModel
    precedents: Precedents
    memory: MoveMemory = field(default_factory=MoveMemory, compare=False)
    """What follows from both about moves, as far as it is known."""


def _supported(hint: Hint, recommender: Recommender) -> float:
    """How well precedents support a step along the interpretation."""
    support = recommender.support(hint.callee, hint.routing, hint.operands)
    return max((s for how, s in support.items() if hint.scan in (None, how.startswith("Scan"))), default=0.0)


class DraftSearch:
    """The drafts of one sample; with an `interpretation`, they follow it where they can.

    Attributes:
        best: The most similar finished state of the latest draft, also where its steps were exhausted.
        followed: The share of the latest draft's moves that are steps along the interpretation.
    """

    def __init__(
        self,
        view: TaskView,
        learned: LearnedEdges,
        choice: SeededChoice,
        steps: StepLimit,
        interpretation: Interpretation | None = None,
        dependences: Dependences | None = None,
    ) -> None:
        self._dependences = dependences
        self._steps = steps
        self._view = view
        self._table: TypeTable = view.table
        self._choice = choice
        self._interpretation = interpretation
        self._precedents = learned.precedents
        self._rounds = 1
        self.best: Draft | None = None
        read, habits, memory = interpretation is not None, learned.precedents.habits, learned.memory
        self._dims = DimGuide(view.influence, steps)
        self._operands = MoveBuilder(view, learned.edge_model, choice, steps, read=read, habits=habits, memory=memory)
        self.followed = 0.0

    def sample(self) -> Draft | None:
        """Samples one draft; None for a dead end.

        Raises:
            StepsExhausted: The sample has used all its steps.
        """
        self.best, hinted = None, 0
        draft = Draft.start(self._table.inputs)
        callees_given = choose_callees(self._view, self._precedents.habits, self._choice)
        routings = [routing for _, routing in callees_given if routing is not None]
        callees = [callee for callee, routing in callees_given if routing is None]
        guide = self._guide(draft, callees, routings)
        depends = None if self._dependences is None else DependenceGuide(self._dependences, draft, self._steps)
        ranking = OperandRanking(self._view, draft, read=self._interpretation is not None, dependences=depends)
        recommender = Recommender(self._precedents, draft.streams, callees_given, self._steps)
        self._rounds = self._choice.any_of((1, *self._view.rounds))
        left = (1.0 + self._rounds) * len(self._view.callees) + 3 + (self._rounds == 1) * len(self._view.callees)
        components = sum(len(callee.need) for callee in callees)
        skills = SkillGuide(self._precedents, callees_given, draft.streams, draft.uses, self._choice)
        while left > 0:
            self._steps.spend(_TURN + len(draft.streams) * components // _SCANNED)
            hints = () if guide is None else guide.hints()
            if self._all_applied(draft):
                lean = guide and backward_slice(self._table, draft, guide, set(self._view.fns))
                if lean:
                    lean.similarity = self._dims.compared(lean, 1.0)
                    return lean
                end = self._bound(draft, guide, depends)
                ended = end is not None
                self._keep(end)
                if self._stops(end or draft, depends, ended=ended, open_steps=bool(hints)):
                    return self.best
            move = self._hinted(draft, guide, depends, recommender)
            left -= _ALONG if move else 1
            hinted += move is not None
            self.followed = hinted / (len(draft.moves) + 1)
            move = move or self._recommended(draft, recommender) or self._skilled(draft, skills)
            move = move or self._next(draft, ranking, depends, callees, routings)
            if move is None:
                return self.best
            draft.add(move)
            draft.support.append(recommender.applied(move.maker, self._how(move), move.sources, len(draft.streams) - 1))
            for follower in (guide, depends):
                if follower is not None:
                    follower.advance()
        self._keep(self._bound(draft, guide, depends) if self._all_applied(draft) else None)
        return self.best

    def _keep(self, end: Draft | None) -> None:
        self.best = max((one for one in (self.best, end) if one), key=attrgetter("similarity"), default=None)

    def _bound(self, draft: Draft, guide: ReferenceGuide | None, depends: DependenceGuide | None) -> Draft | None:
        """The draft with its outputs, without what they do not need, compared by what they depend on; None if open."""
        binder = OutputBinder(self._table, draft, guide, self._choice, depends)
        if binder.bind():
            end: Draft | None = draft.copy()
        elif depends is not None and binder.bind(leaving=True):
            ends = tuple(zip(draft.results, draft.output_coercions, strict=True))
            end = trimmed(self._table, draft, ends, set(self._view.fns))
        else:
            return None
        if end is not None:
            end.similarity = self._dims.compared(end, 0.0 if depends is None else depends.similarity(draft))
        return end

    def _stops(self, draft: Draft, depends: DependenceGuide | None, *, ended: bool, open_steps: bool) -> bool:
        """Whether a draft that applies every function is not continued."""
        if ended and (draft.read or not open_steps) and self._choice.happens(self._ends(draft, depends)):
            return True
        return not open_steps and self._choice.happens(_GIVES_UP)

    def _ends(self, draft: Draft, depends: DependenceGuide | None) -> float:
        """How likely a draft with all outputs is not continued."""
        return 1.0 if depends is None or draft.read or draft.similarity > _SIMILAR else _ENDS

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

    def _all_applied(self, draft: Draft) -> bool:
        return len({fn for move in draft.moves for fn in move.functions()}) == len(self._view.callees)

    def _hinted(
        self, draft: Draft, guide: ReferenceGuide | None, depends: DependenceGuide | None, recommender: Recommender
    ) -> Move | None:
        """A step along the interpretation, if one is open."""
        hints = guide.hints() if guide is not None and self._choice.happens(_FOLLOWED) else ()
        if not hints:
            return None
        applied = {fn for move in draft.moves for fn in move.functions()}
        scores = [
            _APPLIED_AGAIN * (hint.callee.fn in applied) - hint.distance + _SUPPORTED * _supported(hint, recommender)
            for hint in hints
        ]
        if depends is not None and len(hints) > 1:
            fits = (depends.fit(hint.callee, hint.routing, hint.operands) for hint in hints)
            scores = [score + _MISFIT * (1 - fit) for score, fit in zip(scores, fits, strict=True)]
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

    def _skilled(self, draft: Draft, skills: SkillGuide) -> Move | None:
        """The next step of a skill."""
        step = skills.next({fn for move in draft.moves for fn in move.functions()})
        if step is None:
            return None
        if step.routing is not None:
            move = self._route(draft, step.routing, step.operands)
        else:
            move = self._operands.apply(draft, step.callee, step.operands, step.scan)
        if move is None or move.key in draft.keys:
            skills.drop()
            return None
        skills.made(len(draft.streams))
        return move

    def _route(self, draft: Draft, routing: Routing, operands: Operands) -> Move | None:
        expected = self._view.branch_order(routing)
        order = choose_order(routing, self._precedents, self._choice, _LISTED, expected)
        return self._operands.route(draft, routing, operands, order)

    def _next(
        self,
        draft: Draft,
        ranking: OperandRanking,
        depends: DependenceGuide | None,
        callees: Sequence[Callee],
        routings: Sequence[Routing],
    ) -> Move | None:
        """A step that types allow; None where there is none."""
        uses = Counter(fn for move in draft.moves for fn in move.functions())
        again = _APPLIED_AGAIN if depends is None or len(uses) == len(self._view.fns) else _TOO_EARLY
        left: list[tuple[Callee | Routing, float]] = [
            (callee, (again if uses[callee.fn] else 0.0) + ranking.readiness(callee))
            for callee in callees
            if uses[callee.fn] < max(_MOST_USES, self._rounds)
        ]
        left += [
            (routing, ranking.readiness(self._view.routing_callees[id(routing)]) if depends else 0.0)
            for routing in routings
            if all(move.routing is not routing for move in draft.moves)
        ]
        while left:
            items = self._several(left, 1 if depends is None else _ITEMS)
            found = self._proposed(draft, items, ranking, depends)
            if found:
                return self._choice.pick([move for move, _ in found], [score for _, score in found])
            left = [pair for pair in left if pair not in items]
        return None

    def _several(
        self, left: Sequence[tuple[Callee | Routing, float]], most: int
    ) -> list[tuple[Callee | Routing, float]]:
        """Some of what may be applied next."""
        rest = list(left)
        items: list[tuple[Callee | Routing, float]] = []
        while rest and len(items) < most:
            items.append(self._choice.pick(rest, [score for _, score in rest]))
            rest.remove(items[-1])
        return items

    def _proposed(
        self,
        draft: Draft,
        items: Sequence[tuple[Callee | Routing, float]],
        ranking: OperandRanking,
        depends: DependenceGuide | None,
    ) -> list[tuple[Move, float]]:
        """A move for each of these, or a few, where types allow it, with its score."""
        found = []
        for item, again in items:
            callee = self._view.routing_callees[id(item)] if isinstance(item, Routing) else item
            for operands, ranked in self._ranked(callee, ranking, depends):
                self._steps.spend(0 if depends is None else _PROPOSED * (8 + len(self._view.callees)))
                # What is applied again may be so for the sake of others that are.
                repeated = any(callee.fn in other.functions() for other in draft.moves)
                left = frozenset(self._view.fns) if repeated else self._left(draft, item)
                move = self._apply(draft, item, operands, None if depends is None else left)
                if not move or move.key in draft.keys:
                    continue
                outlook = 0.0
                if depends is not None:
                    outlook = again - ranking.readiness(callee)
                    outlook += analogy(self._table, draft, move, self._rounds) if repeated else 0.0
                    outlook += self._outlook(draft, item, operands, move, (ranking, depends))
                found.append((move, ranked + outlook))
        return found

    def _ranked(
        self, callee: Callee, ranking: OperandRanking, depends: DependenceGuide | None
    ) -> Iterable[tuple[Operands, float]]:
        """Operands for a callee with their scores: one choice, or some of the best if dependences can compare them."""
        if depends is None:
            one = ranking.choose(callee, self._choice)
            return () if one is None else (one,)
        rest = ranking.best(callee, depends)
        chosen: list[tuple[Operands, float]] = []
        while rest and len(chosen) < _WAYS:
            chosen.append(self._choice.pick(rest, [score for _, score in rest]))
            rest.remove(chosen[-1])
        return chosen

    def _outlook(
        self,
        draft: Draft,
        item: Callee | Routing,
        operands: Operands,
        move: Move,
        follows: tuple[OperandRanking, DependenceGuide],
    ) -> float:
        """The score of a move by what the reference does, and by what can still be done after it."""
        ranking, depends = follows
        routing = item if isinstance(item, Routing) else None
        callee = self._view.routing_callees[id(item)] if isinstance(item, Routing) else item
        left = self._left(draft, item)
        score = _MISFIT * (1 - depends.fit(callee, routing, operands))
        score += _WITH_ITSELF * meets_itself(move)
        score += _PREMATURE * (self._view.stranded(left) + self._lost(draft, move, left, ranking, depends))
        removable = self._view.removable(left)
        if removable is not None:
            score += _STUCK * sum(dim not in removable for dim in without_ones(dims_of(self._table.types[move.result])))
        return score

    def _lost(
        self, draft: Draft, move: Move, left: frozenset[Fn], ranking: OperandRanking, depends: DependenceGuide
    ) -> int:
        """How many streams no function that is left can take after a move, and how many tuples the others then lack."""
        inputs = [s for s in range(len(self._table.inputs)) if not draft.uses[s] and s not in move.sources]
        callees = [callee for callee in self._view.all_callees if not left.isdisjoint(callee.made_of)]
        lost = sum(not any(ranking.takes(callee, stream) for callee in callees) for stream in inputs)
        unused = [s for s in range(len(draft.streams)) if not draft.uses[s] and s not in move.sources]
        made = Counter(self._table.types[type_].dtype for type_ in [*(draft.streams[s] for s in unused), move.result])
        type_ = self._table.types[move.result].dtype
        outputs = [
            place for place, output in enumerate(self._view.scope.outputs) if cut(output.dtype)[0] == cut(type_)[0]
        ]
        useless = bool(left) and not depends.serves(move, callees, outputs)
        return lost + useless + self._view.shortage(left, made)

    def _left(self, draft: Draft, item: Callee | Routing) -> frozenset[Fn]:
        """The functions that are not applied yet, after this one."""
        used = {fn for move in draft.moves for fn in move.functions()}
        used |= {item.merge, *item.branches} if isinstance(item, Routing) else {item.fn}
        return frozenset(fn for fn in self._view.fns if fn not in used)

    def _apply(
        self, draft: Draft, item: Callee | Routing, operands: Operands, left: frozenset[Fn] | None
    ) -> Move | None:
        if isinstance(item, Routing):
            return self._route(draft, item, operands)
        if len(operands.sources) > 1 and self._view.projects(item.fn):
            return None
        return self._operands.apply(draft, item, operands, left=left)
