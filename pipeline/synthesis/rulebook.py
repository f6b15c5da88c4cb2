"""The rules that one round of a search uses: those within reach, by types alone, of the streams that it starts from."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping

from pipeline.synthesis.coercions import cut
from pipeline.synthesis.operand_shapes import PartId
from pipeline.synthesis.phases import RoundLimits
from pipeline.synthesis.rules import COST, Consumer, Rule, RuleTable, index_bits
from pipeline.synthesis.type_space import TypeId
from step_runtime.base.functions import Fn

_MOST_TYPES = 200
"""Types of streams, those of the least cost."""
_MOST_RULES = 30_000
"""Rules of one round, the cheapest first."""
_AGAIN = 2
"""What a rule costs more if its function has served already."""
"""What a function costs more that a landmark was reached with."""


class Rulebook:
    """The rules of a round.

    `types` are those of seed streams and of what rules make, `into` the rules by the type of their result; `cheapest`
    has the least cost of a stream of each type.

    Args:
        table: The rules of the space.
        given: The least cost of the streams to start from, by type.
        limits: How far the round goes.
        served: The functions that made seed streams: a task mostly lists a function because a program needs it once.
        check: Called often; it may raise, which ends the listing.
    """

    def __init__(
        self,
        table: RuleTable,
        given: Mapping[TypeId, int],
        limits: RoundLimits,
        served: Iterable[Fn] = (),
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.space = table.space
        self._table, self.limits, self._check = table, limits, check
        self._served = frozenset(served if limits.choices else ())
        self.cheapest: dict[TypeId, int] = dict(given)
        self.rules: dict[Rule, None] = {}
        self._left = limits.meetings
        self._list()
        self.types = list(self.cheapest)
        self.into: dict[TypeId, list[Rule]] = {type_: [] for type_ in self.types}
        for rule in self.rules:
            self.into[rule.result].append(rule)

    def cost(self, rule: Rule) -> int:
        """What a rule costs in this round."""
        return COST + (rule.choices + _AGAIN * (rule.fn in self._served) if self.limits.choices else 0)

    def remaining(self, outputs: Iterable[TypeId], others: Iterable[TypeId] = ()) -> dict[TypeId, int]:
        """For each type the least cost from there to some goal; types without a way there are absent.

        Args:
            outputs: Goals that a path may lead to.
            others: Goals that only a stream of the very type reaches.
        """
        wanted = [self.space.types[goal] for goal in outputs]
        left: dict[TypeId, int] = dict.fromkeys(others, 0)
        for type_ in self.types:
            paths = [path for goal in wanted if (path := self.space.path(type_, goal)) is not None]
            if paths:
                left.setdefault(type_, min(path.cost for path in paths))
        # What a rule's result leads to passes to its operands: Dijkstra's algorithm, from the goals.
        open_ = [(cost, type_) for type_, cost in left.items()]
        heapq.heapify(open_)
        while open_:
            known, type_ = heapq.heappop(open_)
            for rule in self.into.get(type_, ()) if known == left[type_] else ():
                total = known + self.cost(rule) + sum(self.cheapest[path.source] for path in rule.operands)
                for path in rule.operands:
                    cost = total - self.cheapest[path.source]
                    if cost < left.get(path.source, cost + 1):
                        left[path.source] = cost
                        heapq.heappush(open_, (cost, path.source))
        return left

    def _list(self) -> None:
        """Lists rules in the order of what their operands cost together.

        A rule costs something itself, so that all types that cost no more than some operands are known by then.
        """
        consumers = list(self._table.functions)
        by_cost: dict[PartId, dict[int, list[TypeId]]] = {}
        for total in range(self.limits.cost - COST + 1):
            self._add_routings(consumers)
            by_cost = {
                part: self._serving(part) for part in dict.fromkeys(p for consumer in consumers for p in consumer.parts)
            }
            for consumer in consumers:
                for sources in self._choices([by_cost[part] for part in consumer.parts], total):
                    self._check()
                    self._left -= 1
                    if self._left < 0 or len(self.rules) > _MOST_RULES:
                        return
                    for rule in self._table.rules(consumer, sources):
                        self._add(rule, total)

    def _add(self, rule: Rule, total: int) -> None:
        cost = total + self.cost(rule)
        known = self.cheapest.get(rule.result)
        if cost <= self.limits.cost and (known is not None or len(self.cheapest) < _MOST_TYPES):
            self.rules[rule] = None
            self.cheapest[rule.result] = cost if known is None else min(cost, known)

    def _serving(self, part: PartId) -> dict[int, list[TypeId]]:
        """The types that can be a part of what is taken, by their cost."""
        found: dict[int, list[TypeId]] = {}
        for type_, cost in self.cheapest.items():
            if self._table.serves(type_, part):
                found.setdefault(cost, []).append(type_)
        return found

    def _add_routings(self, consumers: list[Consumer]) -> None:
        """A stream of indices lets whatever it may route be taken."""
        known = {consumer.index for consumer in consumers}
        for type_ in self.cheapest:
            index = cut(self.space.types[type_].dtype)[0]
            if index not in known and index_bits(index, self.space.scope.sizes):
                known.add(index)
                consumers += self._table.routings(index)

    def _choices(self, options: list[dict[int, list[TypeId]]], total: int) -> Iterator[tuple[TypeId, ...]]:
        """One type of each list, which cost so much together."""
        first, *others = options
        if not others:
            yield from ((type_,) for type_ in first.get(total, ()))
            return
        for cost, types in first.items():
            if cost <= total:
                yield from ((type_, *rest) for type_ in types for rest in self._choices(others, total - cost))
