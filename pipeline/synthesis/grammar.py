"""The cost of a production in bits, -log2 of its probability: uniform without evidence, learned from precedents.

A production is a function or a routing, the form in which its operands meet and are folded, and what made them. Each
part is estimated from the productions of functions like this one in precedents, with a prior: counts are weighted by
the square of a precedent's relevance and by how alike the functions are. (Probe, Barke et al. 2020, updates such costs
from partial solutions; here whole solutions of other tasks count.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from pipeline.synthesis.precedents import (
    Fingerprint,
    Form,
    Maker,
    Precedent,
    Production,
    alike,
    branch_order,
    form_of,
    similarity,
)
from pipeline.synthesis.rules import COST, OrderedRouting, Rule
from step_runtime.primitives import Accum, Map, Merge, Scan
from step_runtime.tasks.scope import Scope

_RELATED = 0.25
"""Functions that are less alike say nothing about each other."""
_FORM_PRIOR = 0.25
"""The weight of the uniform estimate of a form, in productions of full relevance,"""
_MAKER_PRIOR = 0.5
"""of that of a maker: wrong ones are many,"""
_REPEATED_PRIOR = 0.25
"""and of that of whether a function is applied, or a stream is taken, again,"""
_REPEATED = 0.25
"""whose probability without evidence this is: tasks mostly list a function, or an input, as a program needs it once."""


Way: TypeAlias = tuple[type[Map | Accum | Scan | Merge], Form, tuple[int, ...]]
"""How a function is applied, whatever its operands are: kind, form and order as in a production."""


class Grammar:
    """The costs of one task's productions.

    Args:
        scope: The names of the task.
        fingerprints: Of its functions, by label.
        precedents: The evidence, each with its relevance.
    """

    def __init__(
        self, scope: Scope, fingerprints: dict[str, Fingerprint], precedents: Sequence[tuple[Precedent, float]]
    ) -> None:
        self._fingerprints = fingerprints
        self._shown = [(each, weight**2) for precedent, weight in precedents for each in precedent.productions]
        self._places = {fn: place for place, fn in enumerate(scope.fns.values())}
        self._evidence: dict[tuple[str, bool], list[tuple[Production, float]]] = {}
        self._ways: dict[tuple[object, ...], float] = {}
        self._makers: dict[tuple[str, bool, tuple[Maker, ...]], float] = {}
        self._repeated: dict[tuple[str, bool, int], tuple[float, ...]] = {}

    def way(self, rule: Rule) -> float:
        """Bits for a function and the form of its application, whatever its operands are."""
        apply = rule.apply
        routes = isinstance(apply, OrderedRouting)
        kind = Merge if isinstance(apply, OrderedRouting) else type(apply)
        shape = rule.operands[0].target.shape
        form = form_of(shape, apply.b if isinstance(apply, Accum | Scan) else 0, [p.source_type for p in rule.operands])
        return self._way(rule.fn.label, (kind, form, self._order(apply)), rule.choices, routes=routes)

    def line(self, label: str, made: Production, choices: int) -> float:
        """Bits for a function's application as a line of a program with so many choices of structure."""
        routes = made.kind is Merge
        shares = self._shares(label, len(made.makers), routes=routes)
        again = sum(map(_happened, shares, (made.again, *made.reused)))
        way = self._way(label, (made.kind, made.form, made.order), choices, routes=routes)
        return way + self._operands(label, made.makers, routes=routes) + again

    def _way(self, label: str, way: Way, choices: int, *, routes: bool) -> float:
        key = label, way, choices
        if key not in self._ways:
            evidence = self._productions(label, routes=routes)
            total = sum(weight for _, weight in evidence)
            same = sum(weight for each, weight in evidence if (each.kind, each.form, each.order) == way)
            prior = 2.0 ** -(COST + choices)
            self._ways[key] = -math.log2((same + _FORM_PRIOR * prior) / (total + _FORM_PRIOR))
        return self._ways[key]

    def operands(self, rule: Rule, makers: tuple[Maker, ...]) -> float:
        """Bits for what made the operands; 0 without evidence."""
        return self._operands(rule.fn.label, makers, routes=isinstance(rule.apply, OrderedRouting))

    def _operands(self, label: str, makers: tuple[Maker, ...], *, routes: bool) -> float:
        key = label, routes, makers
        if key not in self._makers:
            evidence = self._productions(label, routes=routes)
            shown = [(each, weight) for each, weight in evidence if len(each.makers) == len(makers)]
            total = sum(weight for _, weight in shown)
            same = (
                sum(w * alike(maker, each.makers[place]) for each, w in shown) for place, maker in enumerate(makers)
            )
            self._makers[key] = sum(-math.log2((own + _MAKER_PRIOR) / (total + _MAKER_PRIOR)) for own in same)
        return self._makers[key]

    def repetition(self, rule: Rule) -> float:
        """Bits for a function that has led to a landmark, or to an operand, to be applied again."""
        return self._shares(rule.fn.label, len(rule.operands), routes=isinstance(rule.apply, OrderedRouting))[0]

    def reuse(self, rule: Rule, place: int) -> float:
        """Bits for an operand of a function, by its place, that another one has taken before."""
        routes = isinstance(rule.apply, OrderedRouting)
        return self._shares(rule.fn.label, len(rule.operands), routes=routes)[1 + place]

    def _shares(self, label: str, arity: int, *, routes: bool) -> tuple[float, ...]:
        key = label, routes, arity
        if key not in self._repeated:
            evidence = self._productions(label, routes=routes)
            shown = [(each, weight) for each, weight in evidence if len(each.makers) == arity]
            again = [(each.again, weight) for each, weight in evidence]
            reused = [[(each.reused[place], weight) for each, weight in shown] for place in range(arity)]
            self._repeated[key] = tuple(map(_repeated_bits, (again, *reused)))
        return self._repeated[key]

    def maker(self, rule: Rule) -> Maker:
        """What the results of a rule count as among makers."""
        return self._fingerprints[rule.fn.label]

    def _order(self, apply: Map | Accum | Scan | OrderedRouting) -> tuple[int, ...]:
        branches = apply.branches if isinstance(apply, OrderedRouting) else ()
        return branch_order(tuple(-1 if fn is None else self._places[fn] for fn in branches))

    def _productions(self, label: str, *, routes: bool) -> list[tuple[Production, float]]:
        """The productions of functions like one of the task's, with their weights."""
        if (label, routes) not in self._evidence:
            own = self._fingerprints[label]
            pairs = ((each, similarity(own, each.fingerprint), weight) for each, weight in self._shown)
            self._evidence[label, routes] = [
                (each, weight * like)
                for each, like, weight in pairs
                if like > _RELATED and (each.kind is Merge) == routes
            ]
        return self._evidence[label, routes]


def _happened(bits: float, happened: bool) -> float:
    """Bits for what happens with a probability of 2^-bits, or for what else happens."""
    return bits if happened else -math.log2(1 - min(2.0**-bits, 1 - 1e-6))


def _repeated_bits(shown: Sequence[tuple[bool, float]]) -> float:
    """Bits for a repetition, of which productions with these weights are or are not examples."""
    total = sum(weight for _, weight in shown) + _REPEATED_PRIOR
    return -math.log2((sum(weight for again, weight in shown if again) + _REPEATED_PRIOR * _REPEATED) / total)
