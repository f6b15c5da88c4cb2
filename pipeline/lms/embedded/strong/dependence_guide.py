"""How the streams of a growing draft depend on the inputs, compared with the reference."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

from pipeline.lms.embedded.dependence.dependences import Composed, Dependences, Flows
from pipeline.lms.embedded.dependence.paths import NOTHING
from pipeline.lms.embedded.draft import Draft, Move, Routing
from pipeline.lms.embedded.operands import Callee, Operands
from pipeline.lms.embedded.step_limit import StepLimit
from step_runtime.base.functions import Fn

_FITS = 0.5
"""From this fit on, a stream may be an operand,"""
_LIKE_OUTPUT = 0.5
"""and from this similarity on, an output."""
_COMPOSED = 25
"""Steps that finding the dependences of some operands of a function counts for,"""
_APPLIED = 60
"""and of all of them."""


class DependenceGuide:
    """Follows one draft."""

    def __init__(self, dependences: Dependences, draft: Draft, steps: StepLimit) -> None:
        self._dependences = dependences
        self._draft = draft
        self._steps = steps
        self._flows: list[Flows] = list(dependences.inputs)
        self._numbers = [dependences.number(flows) for flows in self._flows]

    def advance(self) -> None:
        """Records the draft's last move."""
        move = self._draft.moves[-1]
        flows = self._result(move.maker, move.fns, move.sources)
        self._flows.append(flows)
        self._numbers.append(self._dependences.number(flows))

    def fit_of(self, stream: int) -> float:
        """How well the reference agrees with a stream: from 0 to 1."""
        return self._dependences.fits(self._flows[stream])

    def passes(self, stream: int) -> float:
        """How much of a stream the reference computes on its way, by its dependences."""
        return self._dependences.passes(self._flows[stream])

    def resembles(self, stream: int) -> float:
        """As `Dependences.resembles`."""
        return self._dependences.resembles(self._flows[stream])

    def depends(self, stream: int) -> bool:
        """Whether a stream depends on an input, and not on positions alone."""
        return any(self._dependences.of_data(flow) for flow in self._flows[stream])

    def counts(self, move: Move) -> bool:
        """Whether a move counts: its result then varies from step to step, whatever it is given."""
        scans = move.fold is not None and move.fold.scan
        return scans and any(map(self._dependences.counts, move.functions()))

    def following(self, draft: Draft, streams: Iterable[int]) -> DependenceGuide:
        """A guide for a draft that has some of this one's streams, in order."""
        guide = DependenceGuide(self._dependences, draft, self._steps)
        guide._flows = [self._flows[stream] for stream in streams]
        guide._numbers = [self._dependences.number(flows) for flows in guide._flows]
        return guide

    def fit(self, callee: Callee, routing: Routing | None, operands: Operands) -> float:
        """How well the reference agrees with applying something to some streams: from 0 to 1."""
        branches = routing.branches if routing is not None else ()
        return self._dependences.fits(self._result(routing or callee.fn, branches, operands.sources))

    def partial_fit(self, callee: Callee, operands: Operands) -> float:
        """As `fit`, where only the first components are served."""
        numbers = tuple([self._numbers[source] for source in operands.sources])
        return self._place_fit(callee, 0, numbers, lambda: self._joined(operands.sources))

    def place_fit(self, callee: Callee, place: int, stream: int) -> float:
        """How well the reference agrees with a stream as the operand that starts at a place."""
        return self._place_fit(callee, place, (self._numbers[stream],), lambda: self._flows[stream])

    def _place_fit(self, callee: Callee, place: int, numbers: tuple[int, ...], flows: Callable[[], Flows]) -> float:
        """As `place_fit`, for `flows` of any number of components, which have these numbers."""
        key = (callee, place, numbers)
        known = self._dependences.composed.get(key)
        if known is None:
            known = self._dependences.composed.keep(key, self._compose(callee, place, flows()))
        self._steps.spend_once(known.work, _COMPOSED + known.paths)
        return known.fit

    def _compose(self, callee: Callee, place: int, flows: Flows) -> Composed:
        others = len(callee.need) - place - len(flows)
        arguments = (*(NOTHING,) * place, *flows, *(NOTHING,) * others)
        if not callee.routed:
            fit = self._dependences.fits(self._dependences.applied(callee.fn, arguments))
        elif not others:
            fit = 1.0  # An index selects, which says nothing about its own operations.
        else:
            data, selects = arguments[:-1], callee.selects
            routed = self._dependences.routed(callee.fn, callee.branches, data, NOTHING, selects=selects)
            fit = self._dependences.fits(routed)
        return Composed((id(callee), *arguments), _paths(arguments), fit)

    def _joined(self, sources: Iterable[int]) -> Flows:
        """The flows of the components that some streams give together."""
        return tuple(itertools.chain.from_iterable(map(self._flows.__getitem__, sources)))

    def serves(self, move: Move, callees: Iterable[Callee], outputs: Iterable[int]) -> bool:
        """Whether the result of a move can be an operand of one of these, or may be one of these outputs."""
        flows = self._result(move.maker, move.fns, move.sources)
        numbers = (self._dependences.number(flows),)
        return any(self._dependences.matches(flows, output) > _LIKE_OUTPUT for output in outputs) or any(
            callee.fit(move.result, place)[0] and self._place_fit(callee, place, numbers, lambda: flows) > _FITS
            for callee in callees
            for place in range(len(callee.need))
        )

    def similarity(self, draft: Draft) -> float:
        """How similar the results of a finished draft are to the outputs: from 0 to 1."""
        return self._dependences.similarity([self._flows[stream] for stream in draft.results])

    def matches(self, stream: int, output: int) -> float:
        """As `similarity`, for one stream and one output."""
        return self._dependences.matches(self._flows[stream], output)

    def _result(self, maker: Fn | Routing, branches: Sequence[Fn | None], sources: Sequence[int]) -> Flows:
        flows = self._joined(sources)
        if isinstance(maker, Routing):
            self._steps.spend_once((id(maker), *flows), (_APPLIED + _paths(flows)) * maker.bits)
            return self._dependences.routed(maker.merge, branches, flows[:-1], flows[-1], selects=maker.selects)
        self._steps.spend_once((maker.label, *flows), _APPLIED + _paths(flows))
        return self._dependences.applied(maker, flows)


def _paths(flows: Flows) -> int:
    """The number of paths, each of which counts as a step."""
    return sum(map(len, flows))
