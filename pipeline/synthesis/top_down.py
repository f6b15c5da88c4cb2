"""Top-down: values that, put into the remainder of a program, give an output.

A subgoal is a type and a value with its context: the part of a program around it. Where a function works element by
element, and all its operands but one are existing streams, the value of the missing one follows from the function's
result: it is solved for, as if the function were affine or a quotient, and checked. A coercion path is inverted by
tracking where it puts each number; values that differ where it repeats one cannot be its result, which rules out most
contexts at once. Bottom-up and top-down meet where a stream has a subgoal's type and value.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

import numpy
import torch
from torch import Tensor

from pipeline.synthesis.bottom_up import BatchExecutor, Bucket, StreamRef
from pipeline.synthesis.rules import Rule, Rulebook
from pipeline.synthesis.type_space import CoercionPath, TypeId
from pipeline.synthesis.value_blocks import Rows, SeenValues, ValueIndex, close, sane
from step_runtime.primitives import Map


def invert_path(executor: BatchExecutor, path: CoercionPath, values: Tensor) -> tuple[Tensor, Rows]:
    """The possible inputs of a path for the rows that it can produce, and which rows these are."""
    if not path.ops:
        return values, numpy.arange(len(values))
    numbers = executor.layout(path.steps[0]).numbers
    places = executor.along(path, torch.arange(numbers, dtype=torch.float64).unsqueeze(0))[0].long()
    first = torch.zeros(numbers, dtype=torch.long)
    first[places.flip(0)] = torch.arange(len(places) - 1, -1, -1)
    before = values[:, first]
    good = close(before[:, places], values)
    return before[good], good.nonzero().flatten().numpy()


def is_elementwise(executor: BatchExecutor, rule: Rule, hole: int) -> bool:
    """Whether each number of the result follows from the one at its place in operand `hole`, given the others."""
    generator = torch.Generator().manual_seed(0)
    layouts = [executor.layout(path.target) for path in rule.operands]
    parts = [torch.rand(1, lay.numbers, dtype=torch.float64, generator=generator).repeat(2, 1) for lay in layouts]
    parts[hole][1, 0] += 0.25
    values = executor.apply(rule, parts)
    return values is not None and torch.equal(values[0, 1:], values[1, 1:])


def solve(executor: BatchExecutor, rule: Rule, hole: int, others: list[Tensor], wanted: Tensor) -> tuple[Tensor, Rows]:
    """Values of operand `hole` for which a rule gives the rows `wanted`, and the rows that have such values.

    They are found where the function is affine in the operand, or a quotient by it.
    """

    def result(values: Tensor) -> Tensor | None:
        return executor.apply(rule, [*others[:hole], values, *others[hole:]])

    zero, one = result(torch.zeros_like(wanted)), result(torch.ones_like(wanted))
    solved = torch.full_like(wanted, torch.nan)
    done = torch.zeros(len(wanted), dtype=torch.bool)
    if zero is not None and one is not None:
        for guess in ((wanted - zero) / (one - zero), one / wanted):
            if not done.all():
                _accept(solved, done, guess, result(guess), wanted)
    done &= sane(solved)
    return solved[done], done.nonzero().flatten().numpy()


def _accept(solved: Tensor, done: Tensor, guess: Tensor, found: Tensor | None, wanted: Tensor) -> None:
    """Adopts the rows of a guess that are right and not yet solved."""
    if found is not None:
        right = ~done & torch.isfinite(guess).all(1) & close(found, wanted)
        solved[right] = guess[right]
        done |= right


_HOPED = 2
"""Reduction of a job's cost, for its priority, if its subgoals must be constant along a dim: few are, and those are
informative."""
_MOST_OPERANDS = 3
"""Functions of more operands are not inverted: the pairs of what the others may be grow too fast."""


class Subgoal(NamedTuple):
    """A wanted value: a row of a set of subgoals."""

    set: int
    row: int


class RuleContext(NamedTuple):
    """Context: a rule with the subgoal as operand `hole` and other operands; `wanted` is the result."""

    rule: Rule
    hole: int
    others: tuple[StreamRef, ...]
    wanted: Subgoal


class OutputContext(NamedTuple):
    """The context of a subgoal that a path turns into an output."""

    output: int
    path: CoercionPath


@dataclass
class _SubgoalRows:
    """The derivation of rows; `others` has the rows of each operand but the hole, of buckets of these costs."""

    rule: Rule
    hole: int
    set: int
    rows: Rows
    costs: tuple[int, ...]
    others: tuple[Rows, ...]

    def context(self, row: int) -> RuleContext:
        paths = [path for place, path in enumerate(self.rule.operands) if place != self.hole]
        sources = zip(paths, self.costs, self.others, strict=True)
        streams = tuple(StreamRef(path.source, cost, int(rows[row])) for path, cost, rows in sources)
        return RuleContext(self.rule, self.hole, streams, Subgoal(self.set, int(self.rows[row])))


@dataclass
class _SubgoalSet:
    """Subgoals of one type and cost."""

    type: TypeId
    cost: int
    values: Tensor
    derivations: Sequence[_SubgoalRows | OutputContext]

    def context(self, row: int) -> RuleContext | OutputContext:
        for derivation in self.derivations:
            if isinstance(derivation, OutputContext):
                return derivation
            if row < len(derivation.rows):
                return derivation.context(row)
            row -= len(derivation.rows)
        raise IndexError(row)


class _Inversion(NamedTuple):
    priority: int
    cost: int
    number: int
    rule: Rule
    hole: int
    set: int
    costs: tuple[int, ...]


class InvertibleOperands:
    """The operands of rules that can be solved for; what was found serves all rounds in one space."""

    def __init__(self, executor: BatchExecutor) -> None:
        self._executor = executor
        self._known: dict[tuple[object, ...], bool] = {}

    def of(self, rule: Rule) -> list[int]:
        """The operands of a rule that can be solved for; none of a rule of many, as the others are to be chosen."""
        if len(rule.operands) > _MOST_OPERANDS:
            return []
        return [hole for hole in range(len(rule.operands)) if self._can(rule, hole)]

    def _can(self, rule: Rule, hole: int) -> bool:
        if not isinstance(rule.apply, Map):
            return False
        # Whether a function works element by element does not depend on the paths to its operands.
        key = (rule.apply, *(path.target for path in rule.operands), rule.flatten, hole)
        if key not in self._known:
            self._executor.spend(0)
            target = self._executor.layout(rule.operands[hole].target)
            result = self._executor.layout(self._executor.space.types[rule.result])
            fits = len(target.shapes) == 1 and target.shapes == result.shapes
            self._known[key] = fits and is_elementwise(self._executor, rule, hole)
        return self._known[key]


class TopDown:
    """The subgoals found so far."""

    def __init__(
        self,
        executor: BatchExecutor,
        book: Rulebook,
        buckets: Mapping[TypeId, Mapping[int, Bucket]],
        invertible: InvertibleOperands,
    ) -> None:
        self._executor = executor
        self._book = book
        self._buckets = buckets
        self.sets: list[_SubgoalSet] = []
        self._jobs: list[_Inversion] = []
        self._pending: dict[tuple[int, int, TypeId], tuple[list[Tensor], list[_SubgoalRows]]] = {}
        self._seen = {type_: SeenValues() for type_ in book.types}
        self._indices: dict[TypeId, tuple[ValueIndex, list[int]]] = {type_: (ValueIndex(), []) for type_ in book.types}
        self._into: dict[TypeId, list[tuple[Rule, int]]] = {}
        self._beside: dict[TypeId, list[tuple[Rule, int]]] = {}
        self._invertible = invertible
        self._sets_of: dict[TypeId, list[int]] = {}
        self._number = 0

    def add_output(self, output: int, wanted: Tensor) -> None:
        """Makes an output, `(1, numbers)`, a goal."""
        goal = self._executor.space.types[self._executor.space.outputs[output]]
        for type_ in self._book.types:
            path = self._executor.space.path(type_, goal)
            if path is not None and type_ in self._book.cheapest:
                values, good = invert_path(self._executor, path, wanted)
                if len(good):
                    self._add_set(_SubgoalSet(type_, path.cost, values, [OutputContext(output, path)]))

    def context(self, subgoal: Subgoal) -> RuleContext | OutputContext:
        """The context of a subgoal."""
        return self.sets[subgoal.set].context(subgoal.row)

    def find(self, type_: TypeId, values: Tensor) -> list[tuple[int, Subgoal]]:
        """The rows of a block of streams that are subgoals."""
        index, sets = self._indices[type_]
        return [(row, Subgoal(sets[block], other)) for row, block, other in index.find(values)]

    def offer(self, type_: TypeId, cost: int) -> None:
        """Records a bucket that may serve as operand from now on."""
        for rule, hole in self._beside.get(type_, ()):
            paths = [path for place, path in enumerate(rule.operands) if place != hole]
            for number in self._sets_of.get(rule.result, ()):
                self._push(rule, hole, number, [c for c in self._costs(paths) if _has(paths, c, type_, cost)])

    def _costs(self, paths: Sequence[CoercionPath]) -> Iterator[tuple[int, ...]]:
        return product(*(self._buckets[path.source] for path in paths))

    def _push(self, rule: Rule, hole: int, number: int, combinations: Sequence[tuple[int, ...]]) -> None:
        goals, path = self.sets[number], rule.operands[hole]
        for costs in combinations:
            cost = goals.cost + self._book.cost(rule) + sum(costs)
            least = cost + self._book.cheapest[path.source]
            if least <= self._book.limits.cost:
                self._number += 1
                priority = least - _HOPED * bool(path.repeated)
                heapq.heappush(self._jobs, _Inversion(priority, cost, self._number, rule, hole, number, costs))

    def _add_set(self, goals: _SubgoalSet) -> None:
        number = len(self.sets)
        self.sets.append(goals)
        index, sets = self._indices[goals.type]
        index.add(goals.values)
        sets.append(number)
        self._sets_of.setdefault(goals.type, []).append(number)
        for rule, hole in self._invertible_into(goals.type):
            paths = [path for place, path in enumerate(rule.operands) if place != hole]
            self._push(rule, hole, number, list(self._costs(paths)))

    def _invertible_into(self, type_: TypeId) -> list[tuple[Rule, int]]:
        """The operands that can be solved for of rules that give a type, found when a value of it is first wanted."""
        if type_ not in self._into:
            rules = self._book.into[type_]
            self._into[type_] = [(rule, hole) for rule in rules for hole in self._invertible.of(rule)]
            for rule, hole in self._into[type_]:
                for other in {path.source for place, path in enumerate(rule.operands) if place != hole}:
                    self._beside.setdefault(other, []).append((rule, hole))
        return self._into[type_]

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do until further streams are found."""
        return not self._jobs and not self._pending

    def step(self) -> int | None:
        """Runs the most promising job; returns the number of the new set of subgoals, if there is one.

        Raises:
            OutOfBudget: The budget is used up.
        """
        first = min(self._pending, default=None)
        if first is not None and (not self._jobs or first[:2] < self._jobs[0][:2]):
            values, derivations = self._pending.pop(first)
            _, cost, type_ = first
            self._add_set(_SubgoalSet(type_, cost, torch.cat(values), derivations))
            return len(self.sets) - 1
        job = heapq.heappop(self._jobs)
        type_ = job.rule.operands[job.hole].source
        for derivation, found in self._solved(job):
            if not self._executor.keep(*found.shape):
                break
            key = (job.cost + self._book.cheapest[type_], job.cost, type_)
            kept, derivations = self._pending.setdefault(key, ([], []))
            kept.append(found)
            derivations.append(derivation)
        return None

    def _solved(self, job: _Inversion) -> Iterator[tuple[_SubgoalRows, Tensor]]:
        goals = self.sets[job.set]
        path = job.rule.operands[job.hole]
        paths = [other for place, other in enumerate(job.rule.operands) if place != job.hole]
        buckets = [self._buckets[other.source][cost] for other, cost in zip(paths, job.costs, strict=True)]
        counts = [len(goals.values), *(len(bucket.values) for bucket in buckets)]
        total, most = prod(counts), self._executor.rows_at_once(job.rule)
        for start in range(0, total, most):
            rows, *others = numpy.unravel_index(numpy.arange(start, min(start + most, total)), counts)
            self._executor.spend(len(rows))
            pairs = zip(paths, buckets, others, strict=True)
            parts = [self._executor.along(other, bucket.values[own]) for other, bucket, own in pairs]
            values, good = solve(self._executor, job.rule, job.hole, parts, goals.values[rows])
            if len(good):
                values, rest = invert_path(self._executor, path, values)
                good = good[rest]
            if self._executor.full:
                return
            new = self._seen[path.source].new(values) if len(good) else good
            if len(new):
                good = good[new]
                own = tuple(other[good] for other in others)
                yield _SubgoalRows(job.rule, job.hole, job.set, rows[good], job.costs, own), values[new]


def _has(paths: Sequence[CoercionPath], costs: tuple[int, ...], type_: TypeId, cost: int) -> bool:
    return any(path.source == type_ and own == cost for path, own in zip(paths, costs, strict=True))
