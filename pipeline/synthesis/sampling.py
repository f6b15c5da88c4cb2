"""Samples programs from a task's chart: best first by the grammar's costs, under a seed, a temperature and a budget.

Each derivation costs its bits and a Gumbel noise times the temperature: without a budget, the cheapest of several
derivations is then a draw from the probabilities that the bits stand for. The budget counts streams that are tried
since the last landmark was reached; a landmark costs nothing from then on, as whoever has it knows the way to it.
"""

from __future__ import annotations

import heapq
import math
from random import Random

from pipeline.synthesis.chart import Chart, Derivation, NodeId, Start
from pipeline.synthesis.lowering import ProgramBuilder, tidy
from pipeline.synthesis.precedents import Maker
from pipeline.synthesis.rules import follow
from pipeline.synthesis.terms import RuleTerm, Term, TermWriter
from pipeline.synthesis.type_space import CoercionPath
from step_runtime.base.functions import Fn
from step_runtime.program.printer import print_program

_NOISE = 0.3
"""Bits of noise at temperature 1: a derivation has some noise of its own at each step, and a program has many steps."""


def sample(chart: Chart, candidates: int, temperature: float, seed: int) -> str | None:
    """A program's text: one that gives the outputs on the observed data, else the nearest; None if types allow none.

    Args:
        chart: What is known of the task.
        candidates: Streams that may be tried between one landmark and the next.
        temperature: The scale of the noise; 0 for none.
        seed: Of the noise.
    """
    return _Sample(chart, candidates, temperature, Random(seed)).program()


class _Sample:
    def __init__(self, chart: Chart, candidates: int, temperature: float, random: Random) -> None:
        self._chart, self._candidates = chart, candidates
        self._temperature, self._random = temperature, random
        self._costs: dict[NodeId, float] = {}
        self._made: dict[NodeId, Derivation | Start] = {}
        self._fns: dict[NodeId, frozenset[Fn]] = {}
        self._served: frozenset[Fn] = frozenset()
        self._used: set[NodeId] = set()
        self._open: list[tuple[float, int, Derivation | Start, float]] = []
        self._pushed = 0
        self.tried = 0

    def program(self) -> str | None:
        """The program's text."""
        results: list[NodeId | None] = [None] * len(self._chart.results)
        for start in self._chart.starts:
            self._push(start, start.bits)
        left = self._candidates
        while self._open and left >= 0 and None in results:
            cost, _, way, repeated = heapq.heappop(self._open)
            node = way.node if isinstance(way, Start) else way.result
            if node in self._costs:
                continue
            if isinstance(way, Derivation) and (now := self._repeated(way)) > repeated:
                # A landmark has been reached since.
                self._enter(way, cost + now - repeated, now)
                continue
            self._reach(node, cost, way)
            if not (isinstance(way, Start) and not way.bits):
                left -= 1
                self.tried += 1
            if node in self._chart.landmarks:
                left = self._candidates
                self._served |= self._fns[node]
                self._use(node)
            for output, nodes in enumerate(self._chart.results):
                if results[output] is None and node in nodes:
                    results[output] = node
        return self._written(results)

    def _reach(self, node: NodeId, cost: float, way: Derivation | Start) -> None:
        self._costs[node] = 0.0 if node in self._chart.landmarks else cost
        self._made[node] = way
        if isinstance(way, Start):
            self._fns[node] = frozenset()
        else:
            self._fns[node] = frozenset((way.rule.fn,)).union(*(self._fns[operand] for operand in way.operands))
        for number in self._chart.uses[node]:
            derivation = self._chart.derivations[number]
            if derivation.result not in self._costs and all(operand in self._costs for operand in derivation.operands):
                self._push(derivation, self._cost(derivation))

    def _cost(self, derivation: Derivation) -> float:
        makers = tuple(self._maker(operand) for operand in derivation.operands)
        bits = derivation.way + self._chart.grammar.operands(derivation.rule, makers)
        return sum(self._costs[operand] for operand in derivation.operands) + bits

    def _maker(self, node: NodeId) -> Maker:
        way = self._made[node]
        return (way.maker or ()) if isinstance(way, Start) else self._chart.grammar.maker(way.rule)

    def _push(self, way: Derivation | Start, cost: float) -> None:
        """Lists a way to make a stream, with its noise; inputs are there at once."""
        repeated = self._repeated(way) if isinstance(way, Derivation) else 0.0
        if self._temperature and cost:
            cost += _NOISE * self._temperature * math.log(-math.log(self._random.random() or 0.5))
        self._enter(way, cost + repeated, repeated)

    def _repeated(self, derivation: Derivation) -> float:
        """Bits for applying a function again, and for operands that have led to a landmark already."""
        rule, grammar = derivation.rule, self._chart.grammar
        again = rule.fn in self._served or any(rule.fn in self._fns[operand] for operand in derivation.operands)
        bits = grammar.repetition(rule) if again else 0.0
        used = [place for place, operand in enumerate(derivation.operands) if operand in self._used]
        return bits + sum(grammar.reuse(rule, place) for place in used)

    def _use(self, landmark: NodeId) -> None:
        """Marks what the landmark was made of as used."""
        open_ = [landmark]
        while open_:
            way = self._made[open_.pop()]
            if isinstance(way, Derivation):
                self._used.update(way.operands)
                open_ += [operand for operand in way.operands if operand not in self._chart.landmarks]

    def _enter(self, way: Derivation | Start, cost: float, repeated: float) -> None:
        self._pushed += 1
        heapq.heappush(self._open, (cost, self._pushed, way, repeated))

    def _written(self, results: list[NodeId | None]) -> str | None:
        """The text of the program with these results; where one is missing, the last stream made that has its type."""
        chart = self._chart
        writer = TermWriter(ProgramBuilder(chart.scope))
        streams = []
        for output, node in enumerate(results):
            found = (node, chart.results[output][node]) if node is not None else self._nearest(output)
            if found is None:
                return None
            streams.append(follow(writer.builder, found[1], writer.stream(self._term(found[0], {}))))
        return print_program(tidy(writer.builder.program(tuple(streams))))

    def _nearest(self, output: int) -> tuple[NodeId, CoercionPath] | None:
        space, goal = self._chart.space, self._chart.scope.outputs[output]
        for node in reversed(self._costs):
            path = space.path(space.intern(self._chart.types[node]), goal)
            if path is not None:
                return node, path
        return None

    def _term(self, node: NodeId, known: dict[NodeId, Term]) -> Term:
        if node not in known:
            way = self._made[node]
            if isinstance(way, Start):
                known[node] = way.term
            else:
                known[node] = RuleTerm(way.rule, tuple(self._term(operand, known) for operand in way.operands))
        return known[node]
