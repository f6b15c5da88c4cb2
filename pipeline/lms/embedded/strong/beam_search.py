"""A beam search over drafts: several drafts grow side by side, and those with the best outlook are kept.

Drafts share their streams (`StreamPool`). A draft is a set of streams; its score is the sum of theirs, which does not
depend on the order of its moves, and of what it leaves to be done (`Outlook`).
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from pipeline.lms.embedded.draft import Draft, Move, Routing
from pipeline.lms.embedded.operands import Callee, Operands
from pipeline.lms.embedded.randomness import SeededChoice
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.strong.dim_guide import DimGuide
from pipeline.lms.embedded.strong.draft_properties import DraftProperties
from pipeline.lms.embedded.strong.draft_ranking import DraftRanking
from pipeline.lms.embedded.strong.edge_model import EdgeModel
from pipeline.lms.embedded.strong.finishing import Finishing
from pipeline.lms.embedded.strong.joining import joined
from pipeline.lms.embedded.strong.levels import COMPLETE, Child, Levels, State
from pipeline.lms.embedded.strong.lifting import Lifted, Lifting
from pipeline.lms.embedded.strong.list_order import ListOrder
from pipeline.lms.embedded.strong.move_builder import MoveBuilder
from pipeline.lms.embedded.strong.move_scores import FITTED
from pipeline.lms.embedded.strong.operand_beam import OperandBeam
from pipeline.lms.embedded.strong.outlook import Outlook
from pipeline.lms.embedded.strong.replay import Replay
from pipeline.lms.embedded.strong.search_style import ANY, SearchStyle
from pipeline.lms.embedded.strong.stream_pool import StreamPool
from pipeline.lms.embedded.strong.ways import MoveMemory
from pipeline.lms.embedded.task_view import TaskView
from pipeline.lms.embedded.types.type_table import TypeId
from step_runtime.base.functions import Fn

_LEFT = 1
"""The number of lengths more than functions to apply that the steps are to suffice for."""
_COMPLETE_CONTINUED = 6
"""The number of drafts of one length that apply all functions and are continued nevertheless."""
_DEEPER = 12
"""How many moves more than functions a draft may have."""
_AFTER = (1, 3)
"""How many moves longer drafts may be than the shortest that depends on the inputs as the reference does: one of these
at random, as that one may be wrong, and a right one apply functions again."""
_AFTER_ANY = 5
_EXACT = 0.999
_MOST_USES = 3

# Scores, in the units of the softmax at sharpness 1.
_AGAIN = -0.96
"""For applying a function again,"""
_AGAIN_ALIKE = -0.85
"""where it is to an unused stream of the kind of an earlier operand,"""
_SAME_AGAIN = -1.14
"""and for doing so to the same streams."""
_OWN_RESULT = -1.11
"""For applying a function to nothing but its own results."""
_REPLAYED = -1.1
"""For repeating a section,"""
_REPLAYED_BY_LOOP = -0.03
"""and where a loop of the reference says how often."""
_RIVAL = -0.6
"""For each better draft that applies the same functions, where these are applied in any order."""
_BETTER = 0.5
"""How much more than its state and its operands a draft may promise, when ways to continue are looked for."""
_NOISE = 0.4
_LIFTED_WAYS = 4
"""The number of ways to apply a function to the same streams where some are made again at a larger shape."""

# Steps, by what they cost in time.
_CONSIDERED = 5
_EXPANDED = 8
_CONTINUED = 15


_PROMISE = attrgetter("promise")


class Option(NamedTuple):
    """Operands of one function more, or of a routing, for a draft.

    Attributes:
        promise: What the draft promises then, but for the way in which the function is applied.
        state: The draft.
        callee: What is applied,
        routing: as part of this routing, if any.
        operands: Its operands.
        own: Their score.
    """

    promise: float
    state: State
    callee: Callee
    routing: Routing | None
    operands: Operands
    own: float


class BeamSearch:
    """One beam search, in a style.

    Attributes:
        style: What it takes for granted, and how much it considers.
        finished: The drafts that apply all functions and give the outputs, also where the steps were exhausted.
    """

    def __init__(
        self,
        view: TaskView,
        edge_model: EdgeModel,
        choice: SeededChoice,
        steps: StepLimit,
        routings: Sequence[Routing],
        *,
        style: SearchStyle = ANY,
        memory: MoveMemory | None = None,
    ) -> None:
        self.style = style
        self.finished: list[Draft] = []
        self._view = view
        self._choice = choice
        self._steps = steps
        self._given = view.callees_given(routings)
        self._dims = DimGuide(view.influence, steps)
        self._pool = StreamPool(view.table, view.dependences, self._dims, steps, style.trust, step_dims=view.step_dims)
        self._order = ListOrder(view.fns, self._pool.first) if style.ordered else None
        self._builder = MoveBuilder(view, edge_model, choice, steps, read=True, memory=memory, scores=FITTED)
        self._outlook = Outlook(view, [callee for callee, _ in self._given])
        self._operands = OperandBeam(view, self._pool, self._outlook, steps, style)
        self._lifting = Lifting(view, self._pool, self._operands.serving, steps)
        self._lifts: dict[int, Lifted] = {}
        """The operands of streams for which these are made again at a larger shape."""
        self._replay = Replay(view.table, self._pool.draft, view.rounds)
        self._finishing = Finishing(view, self._pool, self._dims, choice, steps)
        self._number = {fn: place for place, fn in enumerate(view.fns)}
        self._lefts: dict[tuple[int, ...], frozenset[Fn]] = {}
        self._built: dict[tuple[int, Operands], list[int]] = {}
        self._most = max((_MOST_USES, *view.rounds))

    def run(self) -> None:
        """Fills `finished`.

        Raises:
            StepsExhausted: The sample has used all its steps.
        """
        ranking = DraftRanking(DraftProperties(self._view, self._pool, self.style), self._steps)
        levels = Levels(self._pool, 0.0 if self._order else _RIVAL, ranking)
        growing = [State(tuple(range(self._pool.first)), frozenset(), (0,) * len(self._view.fns), 0.0)]
        complete: list[State] = []
        last, level, width = len(self._view.fns) + (0 if self.style.once else _DEEPER), 0, self.style.drafts.most
        known: set[frozenset[int]] = set()
        after = self._choice.any_of(_AFTER)
        while level <= last:
            for state in complete:
                similarity = self._finish(state)
                if self.finished and self.finished[-1].computes:
                    return
                if self.finished:
                    alike = similarity > _EXACT and (self._dims.needs is None or self.finished[-1].read)
                    last = min(last, level + (after if alike else _AFTER_ANY))
            before, continued = self._steps.used, (*growing, *complete[:_COMPLETE_CONTINUED]) if level < last else ()
            level += 1
            self._continue(continued, levels, level, width)
            width = self._width(growing, (self._steps.used - before) / max(1, len(continued)))
            # A draft that repeats a section may be found again, move by move.
            children = levels.best(level, width)
            together = self._joined(children)
            within = {(child.parent.streams, stream) for child in together for stream in child.fresh}
            alone = (child for child in children if (child.parent.streams, *child.fresh) not in within)
            states = [child.state(self._pool) for child in (*together, *alone)]
            states = [state for state in states if frozenset(state.streams) not in known]
            known.update(frozenset(state.streams) for state in states)
            growing = [state for state in states if not state.complete]
            complete = [state for state in states if state.complete]
            if self._computed(growing):
                return

    def _joined(self, children: Sequence[Child]) -> list[Child]:
        """The drafts of several moves that do not exclude each other."""
        found = joined(self._pool, children)
        return [self._child(one.parent, one.fresh, one.own)._replace(ranked=one.ranked) for one in found]

    def _width(self, growing: Sequence[State], cost: float) -> int:
        """How many drafts of the next length can be continued until all functions are applied, at these steps each."""
        left = _LEFT + min((state.applied.count(0) for state in growing), default=0)
        fewest, most, grows = self.style.drafts
        affordable = (self._steps.most - self._steps.used) / (left * max(1.0, grows * cost))
        return max(fewest, min(most, int(affordable)))

    def _continue(self, states: Sequence[State], levels: Levels, level: int, width: int) -> None:
        """Adds to a level what some states can become: the most promising options first, until enough are better."""
        if not self.style.once:
            for state in states:
                self._repeat(state, levels, level)
        options = itertools.chain.from_iterable(map(self._options, states))
        bars = {True: [-math.inf] * COMPLETE, False: [-math.inf] * width}
        rivals = Counter[tuple[int, ...]]()
        for option in sorted(options, key=_PROMISE, reverse=True):
            applied = self._with(option.state.applied, option.callee.made_of)
            best, behind = bars[all(applied)], levels.rival * rivals[applied]
            if option.promise + behind + _BETTER < best[0]:
                continue
            self._steps.spend(_EXPANDED)
            for stream in self._applications(option.callee, option.routing, option.operands):
                score = self._lifting_score(stream)
                hope = option.promise + score + self._pool.scores[stream] + behind + _BETTER
                if stream in option.state.streams or hope < best[0]:
                    continue
                child = self._child(option.state, (stream,), option.own + score, self._lifts.get(stream))
                levels.offer(level, child)
                heapq.heappushpop(best, child.promise(self._pool) + behind)
            rivals[applied] += 1

    def _repeat(self, state: State, levels: Levels, level: int) -> None:
        """Adds what a state becomes where a section of it is repeated."""
        loose = [stream for stream in state.streams if stream not in state.used]
        for made, looped in self._replay.repeated(state.streams, loose, self._rebuild):
            fresh = tuple(stream for stream in made if stream not in state.streams)
            if fresh:
                own = _REPLAYED_BY_LOOP if looped else _REPLAYED
                levels.offer(level, self._child(state, fresh, own, replayed=True))

    def _child(
        self, state: State, new: tuple[int, ...], own: float, lifted: Lifted | None = None, *, replayed: bool = False
    ) -> Child:
        """What a state becomes with new streams, for some of which operands are lifted."""
        pool = self._pool
        self._steps.spend(_CONTINUED + len(self._view.fns) ** 2 // 32)
        replaced = lifted.replaced if lifted else ()
        fresh = (*(stream for stream in lifted.made if stream not in state.streams), *new) if lifted else new
        taken = {source for stream in fresh for source in pool.move(stream).sources}.union(replaced, state.used)
        unused = [pool.type_of(stream) for stream in (*state.streams, *fresh) if stream not in taken]
        fns = (fn for stream in new for fn in pool.move(stream).functions())
        counts = self._with(state.applied, fns)
        outlook = self._outlook.score(unused, self._left(counts)) + _NOISE * self._choice.noise()
        outlook += self._order.skipped(counts) if self._order else 0.0
        return Child(state, fresh, counts, own, outlook, replayed, replaced)

    def _with(self, applied: tuple[int, ...], fns: Iterable[Fn]) -> tuple[int, ...]:
        """How often each function is applied with these applications more."""
        counts = list(applied)
        for fn in fns:
            counts[self._number[fn]] += 1
        return tuple(counts)

    def _left(self, applied: tuple[int, ...]) -> frozenset[Fn]:
        """The functions that are not applied."""
        known = self._lefts.get(applied)
        if known is None:
            left = frozenset(fn for fn, count in zip(self._view.fns, applied, strict=True) if not count)
            known = self._lefts[applied] = left
        return known

    def _options(self, state: State) -> Iterator[Option]:
        """The choices of operands for one function more, or a routing."""
        types = self._pool.draft.streams
        made, taken = set[tuple[Fn, tuple[int, ...]]](), defaultdict[Fn, set[tuple[int, TypeId]]](set)
        for stream in state.streams[self._pool.first :]:
            move = self._pool.move(stream)
            for fn in move.functions():
                made.add((fn, move.sources))
                taken[fn].update(enumerate([types[source] for source in move.sources]))
        for callee, routing in self._given:
            if self._order and self._order.premature(callee, state.applied):
                continue
            count = state.applied[self._number[callee.fn]]
            if count >= (1 if routing or self.style.once else self._most):
                continue
            found = self._operands.best(callee, state.streams, state.used)
            self._steps.spend(_CONSIDERED * len(found))
            for score, operands in found:
                own = score + (self._again(state, taken[callee.fn], operands) if count else 0.0)
                own += _SAME_AGAIN * ((callee.fn, operands.sources) in made) + self._by_list(callee, operands)
                own += _OWN_RESULT * (count > 0 and self._takes_its_own(callee, operands))
                yield Option(state.score + state.outlook + own, state, callee, routing, operands, own)

    def _again(self, state: State, taken: Collection[tuple[int, TypeId]], operands: Operands) -> float:
        """The score for applying a function again: more likely to what nothing takes yet, like its earlier operand.

        `taken` are the places and types of what it was applied to.
        """
        types = self._pool.draft.streams
        fresh = ((place, types[s]) for place, s in enumerate(operands.sources) if s not in state.used)
        return _AGAIN_ALIKE if any(one in taken for one in fresh) else _AGAIN

    def _takes_its_own(self, callee: Callee, operands: Operands) -> bool:
        """Whether a function would take nothing but its own results."""
        first = self._pool.first
        return all(s >= first and callee.fn in self._pool.move(s).functions() for s in operands.sources)

    def _by_list(self, callee: Callee, operands: Operands) -> float:
        """The score of operands by the order of lists, where that is trusted."""
        if self._order is None:
            return 0.0
        first = self._pool.first
        makers = [[*self._pool.move(source).functions()] if source >= first else [] for source in operands.sources]
        return self._order.taking(callee, operands, makers)

    def _rebuild(self, move: Move, sources: tuple[int, ...], wanted: TypeId) -> int | None:
        """The stream of the same application on other sources, with a result of a type."""
        callee, routing = next(pair for pair in self._given if (pair[1] or pair[0].fn) is move.maker)
        operands = self._operands.serving(callee, sources)
        for stream in self._applications(callee, routing, operands) if operands else ():
            other = self._pool.move(stream)
            if stream in self._lifts:
                continue
            if other.result != wanted or other.fns != move.fns or (other.fold is None) != (move.fold is None):
                continue
            if not (other.fold and move.fold) or (other.fold.scan, other.fold.b) == (move.fold.scan, move.fold.b):
                return stream
        return None

    def _applications(self, callee: Callee, routing: Routing | None, operands: Operands) -> list[int]:
        """The streams that the best ways to apply something to some streams give."""
        key = (id(callee), operands)
        known = self._built.get(key)
        if known is None:
            known = self._ways(callee, routing, operands)
            larger = []
            for lifted in self._lifting.choices(callee, operands, joined=bool(known)):
                effort = self._eased(callee, operands) - self._eased(callee, lifted.operands) if known else 0.0
                for stream in self._ways(callee, routing, lifted.operands, grown=False)[:_LIFTED_WAYS]:
                    self._lifts.setdefault(stream, lifted._replace(score=lifted.score + effort))
                    larger.append(stream)
            if larger:
                scores = self._pool.scores
                known = sorted([*known, *larger], key=lambda stream: -scores[stream] - self._lifting_score(stream))
            self._built[key] = known
        return known

    def _eased(self, callee: Callee, operands: Operands) -> float:
        return self._builder.eased(self._pool.draft.streams, callee, operands)

    def _ways(self, callee: Callee, routing: Routing | None, operands: Operands, *, grown: bool = True) -> list[int]:
        """The streams that the best ways to apply something to some streams as they are give."""
        streams = self._pool.draft.streams
        if routing is None:
            ways = self._builder.variants(streams, callee, operands, grown=grown)
        else:
            ways = self._builder.route_variants(streams, callee, routing, operands)
        return [self._pool.add(move, score) for move, score in ways]

    def _lifting_score(self, stream: int) -> float:
        """The score of making the operands of a stream again at a larger shape."""
        lifted = self._lifts.get(stream)
        return lifted.score if lifted else 0.0

    # --- ends ---

    def _finish(self, state: State) -> float:
        """Records a state whose streams give the outputs; how similar these are to the reference's."""
        end = self._finishing.draft_of(state)
        if end is not None:
            self.finished.append(end)
        return end.similarity if end else 0.0

    def _computed(self, states: Sequence[State]) -> bool:
        """Whether one of some states, which need not apply all functions, computes the outputs, and is recorded."""
        for state in states:
            if self._pool.ended(state.streams):
                end = self._finishing.draft_of(state, partly=True)
                if end is not None and end.computes:
                    self.finished.append(end)
                    return True
        return False
