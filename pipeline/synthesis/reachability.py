"""Look-ahead by types: whether a program that is begun can still be finished.

Streams are never used up, as Copies are free. But each function is applied a limited number of times, and every stream
that nothing uses yet has to be used on the way to an output: an application takes in as many as it has operands, and
gives one. A program can be finished if a search on types alone, the best state first, finds a way.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from itertools import permutations, product
from typing import NamedTuple

from pipeline.synthesis.coercions import cut
from pipeline.synthesis.rules import Consumer, OrderedRouting, Rule, RuleTable, index_bits
from pipeline.synthesis.type_space import TypeId
from step_runtime.base.functions import Fn

_MOST_TYPES = 64
_MOST_MEETINGS = 4_000
"""Types of streams, and ways to choose operands by type, that are followed."""
_MOST_STATES = 100
"""States that one search for a way looks at, in each of its orders."""
_FEW_MOVES = 250
_MOST_FRUITLESS = 5
"""Where there are more moves, how many searches may find no way; from then on only the least distance counts."""


class _Move(NamedTuple):
    """What a rule does to types; functions by their places in the task."""

    fns: tuple[int, ...]
    sources: tuple[TypeId, ...]
    result: TypeId


class Outlook(NamedTuple):
    """A program that is begun, by types alone.

    Attributes:
        types: Those of the streams that there are.
        unused: Those of the streams that nothing uses yet, in order.
        times: How often each function is applied, in the order of the task.
    """

    types: frozenset[TypeId]
    unused: tuple[TypeId, ...]
    times: tuple[int, ...]

    def after(self, move: _Move) -> Outlook:
        """The program after an application to streams that nothing uses yet, as far as there are some."""
        unused = [*self.unused, move.result]
        for source in move.sources:
            if source in self.unused and source in unused[:-1]:
                unused.remove(source)
        times = [*self.times]
        for fn in move.fns:
            times[fn] += 1
        return Outlook(self.types | {move.result}, tuple(sorted(unused)), tuple(times))


def functions_in(rule: Rule) -> tuple[Fn, ...]:
    """The functions that a rule applies: its own, and a routing's on branches."""
    branches = rule.apply.branches if isinstance(rule.apply, OrderedRouting) else ()
    return (*(fn for fn in branches if fn is not None), rule.fn)


def consumers_of(table: RuleTable, types: Iterable[TypeId]) -> Iterator[Consumer]:
    """What can take streams of these types: the functions, and the routings by the indices among them."""
    yield from table.functions
    indices = dict.fromkeys(cut(table.space.types[type_].dtype)[0] for type_ in types)
    for index in indices:
        if index_bits(index, table.space.scope.sizes):
            yield from table.routings(index)


def least(rules: Iterable[Rule], more: int = 0) -> list[Rule]:
    """The rules with the fewest choices of structure, or so many more, the fewest first."""
    listed = sorted(rules, key=lambda rule: rule.choices)
    return [rule for rule in listed if rule.choices <= listed[0].choices + more]


class Reachability:
    """What programs of a task can still reach.

    Args:
        table: The rules.
        most_times: How often a function may be applied.

    Attributes:
        needed: The functions that every program applies: all, unless types admit some nowhere on the way to an output.
        usable: The types of streams that can be used on the way to an output, from the inputs on.
        complete: Whether all outputs can be made, and all functions are needed.
    """

    def __init__(self, table: RuleTable, most_times: int) -> None:
        self._table, self._space, self._most_times = table, table.space, most_times
        self._types: dict[TypeId, None] = {}
        self._moves: dict[_Move, None] = {}
        self._met: set[tuple[Consumer, tuple[TypeId, ...]]] = set()
        self._finishing: dict[tuple[int, Outlook], bool] = {}
        self._goals: dict[TypeId, frozenset[int]] = {}
        self._applicable: dict[frozenset[TypeId], tuple[tuple[_Move, ...], frozenset[int]]] = {}
        self._fruitless = 0
        self._fns = [*self._space.scope.fns.values()]
        self._places = {fn: place for place, fn in enumerate(self._fns)}
        self._left: dict[TypeId, int] = {}
        self._extend(self._space.inputs)
        self.usable = frozenset(self._left)
        self._arity = [1] * len(self._fns)
        for move in self._moves:
            self._arity[move.fns[-1]] = max(self._arity[move.fns[-1]], len(move.sources))
        self._needed = sorted({fn for move in self._moves if move.result in self.usable for fn in move.fns})
        self.needed = tuple(self._fns[place] for place in self._needed)
        made = frozenset[int]().union(*map(self._goals_of, self._types))
        self.complete = len(made) == len(self._space.outputs) and len(self.needed) == len(self._fns)

    def outlook(self, types: Iterable[TypeId], unused: Iterable[TypeId], times: Mapping[Fn, int]) -> Outlook:
        """A program that is begun: the types of its streams, of those that nothing uses yet, and what it applies."""
        return Outlook(frozenset(types), tuple(sorted(unused)), tuple(times.get(fn, 0) for fn in self._fns))

    def can_finish(self, now: Outlook, most: int) -> bool:
        """Whether a program can still be finished with so many applications in all, as far as searches find a way."""
        if (most, now) not in self._finishing:
            self._extend(now.types)
            if sum(now.times) + self._distance(now) > most:
                found = False
            elif self._fruitless < _MOST_FRUITLESS or len(self._moves) <= _FEW_MOVES:
                found = self._search(now, most, deep=True) or self._search(now, most, deep=False)
            else:
                found = self.usable.issuperset(now.unused)
            self._finishing[most, now] = found
        return self._finishing[most, now]

    def _moves_from(self, types: frozenset[TypeId]) -> tuple[tuple[_Move, ...], frozenset[int]]:
        """The moves whose operands there are, and the functions that they apply."""
        if types not in self._applicable:
            moves = tuple(move for move in self._moves if types.issuperset(move.sources))
            self._applicable[types] = moves, frozenset(fn for move in moves for fn in move.fns)
        return self._applicable[types]

    def _search(self, start: Outlook, most: int, *, deep: bool) -> bool:
        """Whether there is a way; of all states on it, it is noted.

        A deep search goes on from where the least is left to do, the other one from where the whole is least.
        """
        before: dict[Outlook, Outlook | None] = {start: None}
        steps = {start: 0}
        open_: list[tuple[int, int, int, Outlook]] = [(0, 0, 0, start)]
        for _ in range(_MOST_STATES):
            if not open_:
                return False
            *_, now = heapq.heappop(open_)
            if self._finishing.get((most, now), False) or self._finished(now):
                state: Outlook | None = now
                while state is not None:
                    self._finishing[most, state] = True
                    state = before[state]
                return True
            for after in self._next(now):
                distance = self._distance(after)
                if after in before or sum(after.times) + distance > most:
                    continue
                before[after], steps[after] = now, steps[now] + 1
                rank = (distance, self._detours(after)) if deep else (steps[after] + distance, steps[after])
                heapq.heappush(open_, (*rank, len(before), after))
        self._fruitless += not deep
        return False

    def _next(self, now: Outlook) -> Iterator[Outlook]:
        """The states after applications that bring something new: a function, or a use of what nothing uses yet."""
        unused = set(now.unused)
        for move in self._moves_from(now.types)[0]:
            if all(now.times[fn] < self._most_times for fn in move.fns) and (
                not unused.isdisjoint(move.sources) or not all(now.times[fn] for fn in move.fns)
            ):
                yield now.after(move)

    def _distance(self, now: Outlook) -> int:
        """The least applications that are left: of functions that are missing, and to use what nothing uses yet."""
        missing = [fn for fn in self._needed if not now.times[fn]]
        over = len(now.unused) - len(self._space.outputs) - sum(self._arity[fn] - 1 for fn in missing)
        return len(missing) + max(over, 0)

    def _detours(self, now: Outlook) -> int:
        """Missing functions that can't be applied yet, and applications between unused streams and outputs."""
        applicable = self._moves_from(now.types)[1]
        missing = [fn for fn in self._needed if not now.times[fn] and fn not in applicable]
        return len(missing) + sum(self._left.get(type_, len(self._moves)) for type_ in now.unused)

    def _finished(self, now: Outlook) -> bool:
        """Whether every function is applied, and whatever nothing uses yet is an output."""
        outputs = range(len(self._space.outputs))
        if not all(now.times[fn] for fn in self._needed) or len(now.unused) > len(outputs):
            return False
        goals = [self._goals_of(type_) for type_ in now.unused]
        made = frozenset[int]().union(*map(self._goals_of, now.types))
        return len(made) == len(outputs) and any(
            all(output in own for output, own in zip(order, goals, strict=True))
            for order in permutations(outputs, len(goals))
        )

    def _goals_of(self, type_: TypeId) -> frozenset[int]:
        """The outputs that a stream of a type can be turned into."""
        if type_ not in self._goals:
            goals = enumerate(self._space.outputs)
            self._goals[type_] = frozenset(
                place for place, goal in goals if self._space.path(type_, self._space.types[goal]) is not None
            )
        return self._goals[type_]

    def _to_outputs(self) -> dict[TypeId, int]:
        """How many applications, one after the other, lead from each type to an output; other types are absent."""
        left, depth = {type_: 0 for type_ in self._types if self._goals_of(type_)}, 0
        while sources := {
            source for move in self._moves if move.result in left for source in move.sources if source not in left
        }:
            depth += 1
            left |= dict.fromkeys(sources, depth)
        return left

    def _extend(self, types: Iterable[TypeId]) -> None:
        """Adds types, and what rules make of them."""
        new = [type_ for type_ in types if type_ not in self._types]
        while new:
            self._types |= dict.fromkeys(new)
            made = dict.fromkeys(move.result for move in self._new_moves())
            new = [type_ for type_ in made if type_ not in self._types][: max(_MOST_TYPES - len(self._types), 0)]
            self._left = self._to_outputs()
            self._applicable.clear()

    def _new_moves(self) -> Iterator[_Move]:
        for consumer in consumers_of(self._table, self._types):
            options = [[type_ for type_ in self._types if self._table.serves(type_, part)] for part in consumer.parts]
            for sources in product(*options):
                if (consumer, sources) in self._met:
                    continue
                if len(self._met) >= _MOST_MEETINGS:
                    return
                self._met.add((consumer, sources))
                for rule in least(self._table.rules(consumer, sources)):
                    move = _Move(tuple(self._places[fn] for fn in functions_in(rule)), sources, rule.result)
                    self._moves[move] = None
                    yield move
