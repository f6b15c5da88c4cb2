"""A draft's progress along the interpretation: the terms that its streams hold, and the steps that are open."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pipeline.lms.embedded.draft import Draft, Routing
from pipeline.lms.embedded.operands import Callee, Operands, find_operands
from pipeline.lms.embedded.step_limit import StepLimit
from pipeline.lms.embedded.symbolic.interpretation import Interpretation, Terms
from pipeline.lms.embedded.task_view import TaskView
from step_runtime.base.functions import Fn
from step_runtime.base.types import DType

_INTERPRETED = 10
"""Steps that interpreting the application of a function counts for, and again for each of its arguments,"""
_ROUTED = 400
"""and for each branch of a routing."""
_PAIR = 2


class Hint(NamedTuple):
    """A step that leads to something the reference computes."""

    callee: Callee
    operands: Operands
    scan: bool | None
    routing: Routing | None
    branches: tuple[Fn | None, ...]
    terms: Terms
    distance: float
    """How far the sources are from what they serve."""
    detour: bool = False
    """Whether, by the interpretation, the reference does not compute it itself."""


class ReferenceGuide:
    """Follows one draft. `hints` are open steps; a step whose result exists already is not offered again."""

    def __init__(
        self,
        view: TaskView,
        interpretation: Interpretation,
        draft: Draft,
        callees: Sequence[Callee],
        routings: Sequence[Routing],
        steps: StepLimit,
        *,
        detours: bool = False,
    ) -> None:
        self._steps_left = steps
        self._view = view
        self._interpretation = interpretation
        self._draft = draft
        self._callees = callees
        self._routings = routings
        self._detours = detours
        self._terms: list[Terms] = []
        self._known: list[int] = []
        self._made: set[tuple[Terms, DType]] = set()
        self._open: list[Hint] = []
        for stream, terms in enumerate(interpretation.inputs):
            self._arrive(stream, terms)

    def advance(self) -> None:
        """Records the draft's last move."""
        move = self._draft.moves[-1]
        arguments = tuple(itertools.chain.from_iterable(self._terms[source] for source in move.sources))
        if move.routing is not None:
            terms = self._interpretation.routed(move.routing, move.fns, arguments[:-1], arguments[-1])
        else:
            how = "Map" if move.fold is None else "Scan" if move.fold.scan else "Accum"
            terms = self._interpretation.value(next(move.functions()), arguments, how)
        self._arrive(len(self._draft.streams) - 1, terms)

    def hints(self) -> list[Hint]:
        """The steps that are open now: detours only of unused functions, if nothing else is left."""
        self._open = [hint for hint in self._open if self._new(hint)]
        direct = [hint for hint in self._open if not hint.detour]
        if direct:
            return direct
        used = {fn for move in self._draft.moves for fn in move.functions()}
        return [hint for hint in self._open if hint.callee.fn not in used]

    def reads(self, stream: int, output: int) -> bool:
        """Whether a stream has the content of an output."""
        return self._terms[stream] == self._interpretation.outputs[output]

    def _new(self, hint: Hint) -> bool:
        output = hint.routing.merge.output if hint.routing else hint.callee.fn.output
        return (hint.terms, output) not in self._made

    def _arrive(self, stream: int, terms: Terms) -> None:
        self._terms.append(terms)
        if not (self._interpretation.wanted(terms) or self._useful(terms)):
            return
        self._known.append(stream)
        self._made.add((terms, self._view.table.types[self._draft.streams[stream]].dtype))
        for callee in self._callees:
            for operands in self._operands(callee, stream):
                self._open += self._steps(callee, operands)
        for routing in self._routings:
            callee = self._view.routing_callees[id(routing)]
            for operands in self._operands(callee, stream):
                self._open += self._routes(callee, routing, operands)

    def _useful(self, terms: Terms) -> bool:
        return self._detours and self._interpretation.useful(terms)

    def _distance(self, callee: Callee, operands: Operands) -> float:
        """How far the sources are from what they are to serve."""
        places = itertools.accumulate(operands.counts[:-1], initial=0)
        fits = (
            callee.fit(self._draft.streams[source], place)
            for source, place in zip(operands.sources, places, strict=True)
        )
        return sum(distance for _, distance in fits)

    def _operands(self, callee: Callee, newest: int) -> Iterator[Operands]:
        """Operands for a callee among the streams that the guide follows, the newest one among them.

        Terms have no shapes, so many streams seem to fit: a stream must serve without an invented dim, and only once
        where a function takes several.
        """
        once = len(callee.need) > _PAIR
        return find_operands(self._draft.streams, self._known, callee, newest, self._steps_left, once=once)

    def _steps(self, callee: Callee, operands: Operands) -> Iterator[Hint]:
        arguments = self._held(operands)
        for scan in (False, True) if callee.fn.stateful else (None,):
            how = "Map" if scan is None else "Scan" if scan else "Accum"
            self._steps_left.spend_once((callee.fn.label, how, *arguments), _INTERPRETED * (1 + len(arguments)))
            terms = self._interpretation.value(callee.fn, arguments, how)
            only_picked = len(arguments) > 1 and all(term in arguments for term in terms)
            if only_picked:
                continue
            wanted = self._interpretation.wanted(terms)
            if wanted or self._useful(terms):
                yield Hint(callee, operands, scan, None, (), terms, self._distance(callee, operands), not wanted)

    def _routes(self, callee: Callee, routing: Routing, operands: Operands) -> Iterator[Hint]:
        *data, index = self._held(operands)
        for order in routing.orders():
            self._steps_left.spend_once((id(routing), order, *data, index), _ROUTED * routing.bits)
            terms = self._interpretation.routed(routing, order, tuple(data), index)
            if self._interpretation.wanted(terms):
                yield Hint(callee, operands, None, routing, order, terms, self._distance(callee, operands))

    def _held(self, operands: Operands) -> Terms:
        """The terms of the components that the sources give together."""
        return tuple(itertools.chain.from_iterable(self._terms[source] for source in operands.sources))
