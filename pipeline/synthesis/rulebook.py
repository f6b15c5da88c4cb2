"""The rules that one round of a search uses: those within reach, by types alone, of the streams that it starts from."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count

from pipeline.lms.embedded.types.coercions import cut
from pipeline.synthesis.operand_shapes import PartId
from pipeline.synthesis.rules import COST, Rule, RuleTable, Taker, index_bits
from pipeline.synthesis.type_space import TypeId
from step_runtime.base.functions import Fn
from step_runtime.base.types import StreamType

_MOST_TYPES = 120
"""Types of streams that rules take, those of the least cost."""
_MOST_RULES = 30_000
_WANTED = 3
"""What is taken off the cost of a type that is wanted."""
_AGAIN = 2
"""What a function costs more that a landmark was reached with."""


@dataclass(frozen=True)
class Reach:
    """How far a round goes from what it starts from.

    Attributes:
        cost: The most that a program may cost.
        meetings: The most ways to choose operands by type that are looked at, the cheapest types first.
        choices: Whether choices of structure cost, and functions that have served cost more; else only functions do.
    """

    cost: int
    meetings: int
    choices: bool


class Rulebook:
    """The rules of a round.

    `types` are those of given streams and of what rules make, `into` the rules by the type of their result; `cheapest`
    has the least cost of a stream of each type.

    Args:
        table: The rules of the space.
        given: The least cost of the streams to start from, by type.
        reach: How far the round goes.
        served: The functions that made given streams: a task mostly lists a function because a program needs it once.
        wanted: Whether a type is likely to occur in a program; rules on such streams are listed before others.
        check: Called often; it may raise, which ends the listing.
    """

    def __init__(
        self,
        table: RuleTable,
        given: Mapping[TypeId, int],
        reach: Reach,
        served: Iterable[Fn] = (),
        wanted: Callable[[StreamType], bool] = lambda type_: False,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.space = table.space
        self._table, self.reach, self._check = table, reach, check
        self._served = frozenset(served if reach.choices else ())
        self.cheapest: dict[TypeId, int] = dict(given)
        self.rules: dict[Rule, None] = {}
        self._left = reach.meetings
        self._list(wanted)
        self._settle()
        self.types = list(self.cheapest)
        self.into: dict[TypeId, list[Rule]] = {type_: [] for type_ in self.types}
        for rule in self.rules:
            self.into[rule.result].append(rule)

    def cost(self, rule: Rule) -> int:
        """What a rule costs in this round."""
        return COST + (rule.choices + _AGAIN * (rule.fn in self._served) if self.reach.choices else 0)

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

    def _list(self, wanted: Callable[[StreamType], bool]) -> None:
        """Lists rules on types in the order of their cost."""
        number = count()
        open_ = [(cost, next(number), type_) for type_, cost in self.cheapest.items()]
        heapq.heapify(open_)
        takers = list(self._table.functions)
        fitting: dict[PartId, list[TypeId]] = {part: [] for taker in takers for part in taker.parts}
        done: set[TypeId] = set()
        while open_ and len(done) < _MOST_TYPES and self._left > 0:
            _, _, new = heapq.heappop(open_)
            if new in done:
                continue
            done.add(new)
            self._add_routings(new, takers, fitting, done)
            for part, types in fitting.items():
                if new not in types and self._table.serves(new, part):
                    types.append(new)
            for taker in takers:
                for rule in self._new(taker, fitting, new):
                    if len(self.rules) >= _MOST_RULES:
                        return
                    self.rules[rule] = None
                    cost = self.cost(rule) + sum(self.cheapest[path.source] for path in rule.operands)
                    if cost < self.cheapest.get(rule.result, cost + 1):
                        self.cheapest[rule.result] = cost
                        priority = cost - _WANTED * wanted(self.space.types[rule.result])
                        heapq.heappush(open_, (priority, next(number), rule.result))

    def _add_routings(
        self, new: TypeId, takers: list[Taker], fitting: dict[PartId, list[TypeId]], done: set[TypeId]
    ) -> None:
        """The first stream of indices of a type lets whatever it may route be taken."""
        index = cut(self.space.types[new].dtype)[0]
        if not index_bits(index, self.space.scope.sizes) or any(taker.index == index for taker in takers):
            return
        added = self._table.routings(index)
        takers += added
        for part in dict.fromkeys(part for taker in added for part in taker.parts):
            if part not in fitting:
                fitting[part] = [type_ for type_ in done if type_ != new and self._table.serves(type_, part)]

    def _new(self, taker: Taker, fitting: Mapping[PartId, list[TypeId]], new: TypeId) -> Iterator[Rule]:
        """The rules within the limit that take a new type and others before it."""
        budget = self.reach.cost - COST - _AGAIN * (taker.fn in self._served)
        options = [fitting[part] for part in taker.parts]
        for place, types in enumerate(options):
            if new not in types:
                continue
            ways = [[type_ for type_ in own if type_ != new] for own in options[:place]]
            for sources in self._choices([*ways, [new], *options[place + 1 :]], budget):
                self._check()
                self._left -= 1
                if self._left < 0:
                    return
                total = sum(self.cheapest[source] for source in sources)
                for rule in self._table.rules(taker, sources):
                    if total + self.cost(rule) <= self.reach.cost:
                        yield rule

    def _choices(self, options: list[list[TypeId]], budget: int) -> Iterator[tuple[TypeId, ...]]:
        """One type of each list, whose costs keep within a budget together."""
        if not options:
            yield ()
            return
        for type_ in options[0]:
            left = budget - self.cheapest[type_]
            if left >= 0:
                yield from ((type_, *rest) for rest in self._choices(options[1:], left))

    def _settle(self) -> None:
        """Brings costs down that were known too late."""
        changed = True
        while changed:
            changed = False
            for rule in self.rules:
                cost = self.cost(rule) + sum(self.cheapest[path.source] for path in rule.operands)
                if cost < self.cheapest[rule.result]:
                    self.cheapest[rule.result] = cost
                    changed = True
