"""Top-down: values that, put into what is left of a program, give an output.

A subgoal is a type and a value with the part of a program around it. Where a function works number by number, and all
its operands but one are streams that are there, the value that the missing one must have follows from the function's
own: it is solved for, with the function as a black box, and held to it. A plan is undone by asking where it puts each
number; values that differ where it repeats one are no result of it, which ends most wrong ways at once. Bottom-up and
top-down meet where a stream has a subgoal's type and value.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

import numpy
import torch
from torch import Tensor

from pipeline.synthesis.engine import Engine
from pipeline.synthesis.forward import MOST, Bucket, Stream
from pipeline.synthesis.inverse import Solver, undone, works_by_number
from pipeline.synthesis.rules import Rule, Rulebook
from pipeline.synthesis.space import Plan, TypeId
from pipeline.synthesis.values import Index, Rows, Seen
from step_runtime.primitives import Map

_HOPED = 2
"""Cost that a job is forgiven, as to its turn, if its subgoals must be constant along a dim: few will be, and those
few tell much."""
_GROWTH = 3.0
"""About how many times as many streams there are for a unit of cost more."""


class Subgoal(NamedTuple):
    """A value wanted: row of a set of subgoals."""

    set: int
    row: int


class Around(NamedTuple):
    """What is around a subgoal: a rule with the subgoal as operand `hole`, the others there; its result is wanted."""

    rule: Rule
    hole: int
    others: tuple[Stream, ...]
    wanted: Subgoal


class Ending(NamedTuple):
    """What is around a subgoal that is an output but for a plan."""

    output: int
    plan: Plan


@dataclass
class _Origin:
    """How rows came about; `others` has the rows of each operand but the hole, of buckets of these costs."""

    rule: Rule
    hole: int
    set: int
    rows: Rows
    costs: tuple[int, ...]
    others: tuple[Rows, ...]

    def around(self, row: int) -> Around:
        plans = [plan for place, plan in enumerate(self.rule.operands) if place != self.hole]
        sources = zip(plans, self.costs, self.others, strict=True)
        streams = tuple(Stream(plan.source, cost, int(rows[row])) for plan, cost, rows in sources)
        return Around(self.rule, self.hole, streams, Subgoal(self.set, int(self.rows[row])))


@dataclass
class _Set:
    """Subgoals of one type and cost, and of one credit: how much cost they are forgiven in the order of search."""

    type: TypeId
    cost: int
    credit: int
    values: Tensor
    origins: Sequence[_Origin | Ending]

    def around(self, row: int) -> Around | Ending:
        for origin in self.origins:
            if isinstance(origin, Ending):
                return origin
            if row < len(origin.rows):
                return origin.around(row)
            row -= len(origin.rows)
        raise IndexError(row)


class _Job(NamedTuple):
    priority: int
    cost: int
    number: int
    rule: Rule
    hole: int
    set: int
    costs: tuple[int, ...]


class Backward:
    """The subgoals found so far."""

    def __init__(self, engine: Engine, book: Rulebook, buckets: Mapping[TypeId, Mapping[int, Bucket]]) -> None:
        self._engine = engine
        self._book = book
        self._buckets = buckets
        self.sets: list[_Set] = []
        self._jobs: list[_Job] = []
        self._pending: dict[tuple[int, int, TypeId, int], tuple[list[Tensor], list[_Origin]]] = {}
        self._seen = {type_: Seen() for type_ in book.types}
        self._indices: dict[TypeId, tuple[Index, list[int]]] = {type_: (Index(), []) for type_ in book.types}
        self._holes = [
            (rule, hole) for rule in book.rules for hole in range(len(rule.operands)) if self._can(rule, hole)
        ]
        self._passed = {place: numpy.zeros(2) for place in self._holes}
        self._solver = Solver(engine)
        self._number = 0

    def _can(self, rule: Rule, hole: int) -> bool:
        target = self._engine.layout(rule.operands[hole].target)
        result = self._engine.layout(self._engine.space.types[rule.result])
        fits = len(target.shapes) == 1 and target.shapes == result.shapes
        return isinstance(rule.apply, Map) and fits and works_by_number(self._engine, rule, hole)

    def add_output(self, output: int, wanted: Tensor) -> None:
        """Makes an output, `(1, numbers)`, a goal."""
        goal = self._engine.space.types[self._engine.space.outputs[output]]
        for type_ in self._book.types:
            plan = self._engine.space.plan(type_, goal)
            if plan is not None and type_ in self._book.cheapest:
                values, good = undone(self._engine, plan, wanted)
                if len(good):
                    self._add_set(_Set(type_, plan.cost, 0, values, [Ending(output, plan)]))

    def around(self, subgoal: Subgoal) -> Around | Ending:
        """What is around a subgoal."""
        return self.sets[subgoal.set].around(subgoal.row)

    def find(self, type_: TypeId, values: Tensor) -> list[tuple[int, Subgoal]]:
        """The rows of a block of streams that are subgoals."""
        index, sets = self._indices[type_]
        return [(row, Subgoal(sets[block], other)) for row, block, other in index.find(values)]

    def offer(self, type_: TypeId, cost: int) -> None:
        """Takes note of a bucket that may serve as operand from now on."""
        for rule, hole in self._holes:
            plans = [plan for place, plan in enumerate(rule.operands) if place != hole]
            if any(plan.source == type_ for plan in plans):
                for number, goals in enumerate(self.sets):
                    if goals.type == rule.result:
                        self._push(rule, hole, number, [c for c in self._costs(plans) if _has(plans, c, type_, cost)])

    def _costs(self, plans: Sequence[Plan]) -> Iterator[tuple[int, ...]]:
        return product(*(self._buckets[plan.source] for plan in plans))

    def _push(self, rule: Rule, hole: int, number: int, combinations: Sequence[tuple[int, ...]]) -> None:
        goals, plan = self.sets[number], rule.operands[hole]
        for costs in combinations:
            cost = goals.cost + rule.cost + sum(costs)
            least = cost + self._book.cheapest.get(plan.source, MOST)
            if least <= MOST:
                self._number += 1
                priority = least - goals.credit - _HOPED * bool(plan.repeated)
                heapq.heappush(self._jobs, _Job(priority, cost, self._number, rule, hole, number, costs))

    def _add_set(self, goals: _Set) -> None:
        number = len(self.sets)
        self.sets.append(goals)
        index, sets = self._indices[goals.type]
        index.add(goals.values)
        sets.append(number)
        for rule, hole in self._holes:
            if rule.result == goals.type:
                plans = [plan for place, plan in enumerate(rule.operands) if place != hole]
                self._push(rule, hole, number, list(self._costs(plans)))

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do until there are further streams."""
        return not self._jobs and not self._pending

    def step(self) -> int | None:
        """Does what is most promising; the number of the set of subgoals that is new, if one is.

        Raises:
            OutOfBudget: the budget is used up.
        """
        first = min(self._pending, default=None)
        if first is not None and (not self._jobs or first[:2] < self._jobs[0][:2]):
            values, origins = self._pending.pop(first)
            _, cost, type_, credit = first
            self._add_set(_Set(type_, cost, credit, torch.cat(values), origins))
            return len(self.sets) - 1
        job = heapq.heappop(self._jobs)
        type_ = job.rule.operands[job.hole].source
        for origin, found in self._solved(job):
            self._engine.keep(found.numel())
            credit = self.sets[job.set].credit + self._earned(job)
            key = (job.cost + self._book.cheapest[type_] - credit, job.cost, type_, credit)
            kept, origins = self._pending.setdefault(key, ([], []))
            kept.append(found)
            origins.append(origin)
        return None

    def _earned(self, job: _Job) -> int:
        """What is forgiven to subgoals that came through a test which only one in so many passes."""
        tried, passed = self._passed[job.rule, job.hole]
        return int(math.log(tried / passed) / math.log(_GROWTH))

    def _solved(self, job: _Job) -> Iterator[tuple[_Origin, Tensor]]:
        goals = self.sets[job.set]
        plan = job.rule.operands[job.hole]
        plans = [other for place, other in enumerate(job.rule.operands) if place != job.hole]
        buckets = [self._buckets[other.source][cost] for other, cost in zip(plans, job.costs, strict=True)]
        counts = [len(goals.values), *(len(bucket.values) for bucket in buckets)]
        total, most = prod(counts), self._engine.rows_at_once(job.rule)
        for start in range(0, total, most):
            rows, *others = numpy.unravel_index(numpy.arange(start, min(start + most, total)), counts)
            self._engine.spend(len(rows))
            pairs = zip(plans, buckets, others, strict=True)
            parts = [self._engine.along(other, bucket.values[own]) for other, bucket, own in pairs]
            values, good = self._solver.solve(job.rule, job.hole, parts, goals.values[rows])
            if len(good):
                values, rest = undone(self._engine, plan, values)
                self._passed[job.rule, job.hole] += numpy.array([len(good), len(rest)])
                good = good[rest]
            new = self._seen[plan.source].new(values) if len(good) else good
            if len(new):
                good = good[new]
                own = tuple(other[good] for other in others)
                yield _Origin(job.rule, job.hole, job.set, rows[good], job.costs, own), values[new]


def _has(plans: Sequence[Plan], costs: tuple[int, ...], type_: TypeId, cost: int) -> bool:
    return any(plan.source == type_ and own == cost for plan, own in zip(plans, costs, strict=True))
