"""Bottom-up: every stream that the rules can make, by cost, one of each value; rules run on blocks of streams.

A bucket holds the streams of one type whose programs cost the same, as trees (a part used twice counts twice). Buckets
are filled in the order of cost plus the least cost, by types alone, from there to an output: A* over types. A stream
whose type and value equal an earlier one's is dropped: observational equivalence.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations, product
from math import prod
from typing import NamedTuple

import numpy
import torch
from torch import Tensor

from pipeline.synthesis.rules import Rule, Rulebook, Term, follow
from pipeline.synthesis.search_budget import OutOfBudget, SearchBudget
from pipeline.synthesis.type_space import CoercionPath, TypeId, TypeSpace
from pipeline.synthesis.value_blocks import RowLayout, Rows, SeenValues, in_rows, operand, sane
from step_runtime.base.errors import RunError, StepError
from step_runtime.base.types import StreamType
from step_runtime.execution.applier import Applier
from step_runtime.execution.deadline import Deadline
from step_runtime.primitives import Frame, Operand, Primitive, Rules
from step_runtime.verification.instance import TaskInstance

_NUMBERS = 2**21
"""The most numbers in a block of combined rows; more rows go into further blocks."""
_FEWEST, _LEAST_SECONDS = 200, 10.0
"""Candidates and seconds of a share at least: a few tell nothing, and a busy machine must not decide what is found."""
_LOOK = 0.01
"""Seconds after which the processor time is looked at again."""
_ROW = 16
"""Numbers in whose memory the digest of a row and its derivation fit."""


class BatchExecutor:
    """A task at one set of sizes, with the budget spent on it."""

    def __init__(self, instance: TaskInstance, space: TypeSpace, budget: SearchBudget) -> None:
        self.space = space
        self.sizes: Mapping[str, int] = instance.sizes
        self.budget = budget
        self.deadline = time.process_time() + budget.seconds
        self.clock = time.monotonic() + budget.clock
        self._looked = 0.0
        self.candidates = self.meetings = 0
        self.kept = 0
        self.full = False
        self._end = (budget.candidates, self.deadline)
        self._over = False
        self._applier = Applier(instance.dtype, Deadline.at(self.clock))
        self._rules = Rules(instance.sizes)
        self._inferred: dict[tuple[Primitive, tuple[StreamType, ...]], tuple[StreamType, ...]] = {}
        self._layouts: dict[StreamType, RowLayout] = {}

    def enter(self, space: TypeSpace, share: float) -> None:
        """Continues in another space, from here on with a share of the budget's time and candidates, or more."""
        self.space = space
        self._end = (
            self.candidates + max(int(share * self.budget.candidates), _FEWEST),
            time.process_time() + max(share * self.budget.seconds, _LEAST_SECONDS),
        )
        self.forget()

    @property
    def over(self) -> bool:
        """Whether the whole budget is used up."""
        return self._over or time.process_time() > self.deadline or time.monotonic() > self.clock

    def forget(self) -> None:
        """Nothing that was kept is in memory any more."""
        self.kept, self.full = 0, False

    def layout(self, type_: StreamType) -> RowLayout:
        """The layout of a type's numbers in a row."""
        if type_ not in self._layouts:
            self._layouts[type_] = RowLayout.of(type_, self.sizes)
        return self._layouts[type_]

    def numbers(self, type_: TypeId) -> int:
        """Numbers in one stream of a type."""
        return self.layout(self.space.types[type_]).numbers

    def rows_at_once(self, rule: Rule) -> int:
        """The number of rows to run a rule on, by its largest intermediate stream."""
        types = [type_ for path in rule.operands for type_ in path.steps]
        largest = max(self.layout(type_).numbers for type_ in [*types, self.space.types[rule.result]])
        return max(1, _NUMBERS // largest)

    def keep(self, rows: int, numbers: int) -> bool:
        """Whether rows of so many numbers each, and what is remembered of each row, still fit in memory.

        If they don't, they are not to be kept: the search continues with what it has.
        """
        needed = rows * (numbers + _ROW)
        self.full = self.full or self.kept + needed > self.budget.numbers
        self.kept += 0 if self.full else needed
        return not self.full

    def spend(self, candidates: int) -> None:
        """Accounts for candidates about to be tried.

        Raises:
            OutOfBudget: The candidates or the time are used up.
        """
        most, deadline = self._end
        self._over = self._over or self.candidates + candidates > self.budget.candidates
        if self._over or self.candidates + candidates > most:
            raise OutOfBudget("candidates")
        if (now := time.monotonic()) > self._looked + _LOOK:
            # To ask for the processor time takes a call of the system, to ask the clock none.
            self._looked = now
            if time.process_time() > min(deadline, self.deadline):
                raise OutOfBudget("time")
            if now > self.clock:
                raise OutOfBudget("clock")
        self.candidates += candidates

    def meet(self) -> None:
        """Accounts for a way for operands to meet that is looked at for the first time.

        Raises:
            OutOfBudget: So many are looked at, or the time is used up.
        """
        self.meetings += 1
        if self.meetings > self.budget.meetings:
            self._over = True
            raise OutOfBudget("meetings")
        self.spend(0)

    def add(self, op: Primitive, *inputs: Operand) -> tuple[Operand, ...]:
        """The results of a primitive on blocks."""
        types = tuple(operand.type for operand in inputs)
        if (op, types) not in self._inferred:
            self._inferred[op, types] = op.infer(types, self._rules)
        outputs = self._inferred[op, types]
        frame = Frame(dict(self.sizes), self._applier)
        return tuple(map(Operand, outputs, op.run(inputs, outputs, frame)))

    def along(self, path: CoercionPath, values: Tensor) -> Tensor:
        """A block at the end of a path."""
        if not path.ops:
            return values
        result = follow(self, path, operand(path.steps[0], self.layout(path.steps[0]), values))
        return self.layout(path.target).pack(tuple(result.data), len(values))

    def apply_where(self, rule: Rule, parts: list[Tensor]) -> tuple[Tensor, Rows]:
        """The result of a rule on the rows on which it does not fail, and those rows.

        Raises:
            OutOfBudget: The time is up.
        """
        rows = len(parts[0])
        values = self.apply(rule, parts)
        if values is not None:
            return values, numpy.arange(rows)
        if rows < 2 or all(self.apply(rule, [part[row : row + 1] for part in parts]) is None for row in (0, -1 % rows)):
            return torch.zeros(0, self.numbers(rule.result), dtype=torch.float64), numpy.zeros(0, numpy.int64)
        half = rows // 2
        first, good = self.apply_where(rule, [part[:half] for part in parts])
        second, better = self.apply_where(rule, [part[half:] for part in parts])
        return torch.cat([first, second]), numpy.concatenate([good, better + half])

    def apply(self, rule: Rule, parts: list[Tensor]) -> Tensor | None:
        """The result of a rule on coerced operands, row by row; None if a function fails on them.

        Raises:
            OutOfBudget: The time is up.
        """
        blocks = [
            operand(path.target, self.layout(path.target), part)
            for path, part in zip(rule.operands, parts, strict=True)
        ]
        try:
            result = rule.write_last(self, blocks)
        except RunError as error:
            if error.code == "time-limit":
                raise OutOfBudget("clock") from None
            return None
        except StepError:
            return None
        type_ = self.space.types[rule.result]
        if result.type != in_rows(type_):
            raise ValueError(f"{rule} gave {result.type}, expected {type_}")
        return self.layout(type_).pack(tuple(result.data), len(parts[0]))


_MOST_BITS = 62
"""Functions up to which the ones that a stream uses are kept as bits of one signed integer."""
_MOST_REMEMBERED = 2**14
"""Numbers of coerced streams that are remembered for other rules."""
_FEW_OPERANDS = 2
"""Operands up to which a function may take one stream twice in the same way."""
GIVEN = 1
"""The largest cost of a stream that is given; what a rule makes costs more."""


class StreamRef(NamedTuple):
    """A stream found so far: its type, its cost, and its row in that bucket."""

    type: TypeId
    cost: int
    row: int


class RuleApplication(NamedTuple):
    """An application of a rule to streams found so far."""

    rule: Rule
    operands: tuple[StreamRef, ...]


class Derivation(NamedTuple):
    """The derivation of rows: by a rule, on these `rows` (one array an operand) of buckets of these costs."""

    rule: Rule
    costs: tuple[int, ...]
    rows: tuple[Rows, ...]

    def made(self, row: int) -> RuleApplication:
        """The derivation of one of the rows."""
        sources = zip(self.rule.operands, self.costs, self.rows, strict=True)
        return RuleApplication(
            self.rule, tuple(StreamRef(path.source, cost, int(rows[row])) for path, cost, rows in sources)
        )


@dataclass
class Bucket:
    """Streams of one type and cost: `values` in rows, first those that were given, then those of the derivations.

    `used` has for each row the functions between it and what was given, as bits; `coerced` some of the values at the
    end of paths.
    """

    values: Tensor
    used: Rows
    derivations: list[Derivation] = field(default_factory=list)
    given: list[Term] = field(default_factory=list)
    coerced: dict[StreamType, tuple[CoercionPath, Tensor]] = field(default_factory=dict)

    def made(self, row: int) -> RuleApplication | Term:
        """The derivation of a row.

        Raises:
            IndexError: There is no such row.
        """
        if row < len(self.given):
            return self.given[row]
        row -= len(self.given)
        for derivation in self.derivations:
            if row < len(derivation.rows[0]):
                return derivation.made(row)
            row -= len(derivation.rows[0])
        raise IndexError(row)


class Block(NamedTuple):
    """New streams, before any is dropped; none if nothing made can be kept."""

    type: TypeId
    cost: int
    values: Tensor
    used: Rows
    derivation: Derivation


class BottomUp:
    """The streams found so far, in buckets by type and cost. Buckets without a stream are absent.

    Args:
        executor: Runs rules, within the budget.
        book: The rules.
        given: The streams to start from.
        sane_only: Whether streams with infinite or huge numbers are dropped.
    """

    def __init__(
        self,
        executor: BatchExecutor,
        book: Rulebook,
        given: Mapping[TypeId, Mapping[int, Bucket]],
        *,
        sane_only: bool,
    ) -> None:
        self._executor = executor
        self._book = book
        self._sane = sane_only
        self._bits = {fn: number for number, fn in enumerate(book.space.scope.fns.values())}
        self._once = book.limits.once and len(self._bits) <= _MOST_BITS
        self.buckets: dict[TypeId, dict[int, Bucket]] = {type_: dict(given.get(type_, {})) for type_ in book.types}
        self._seen = {type_: SeenValues() for type_ in book.types}
        self._done = dict.fromkeys(book.types, GIVEN)
        self._put_off: list[tuple[int, Rule, tuple[int, ...], int]] = []
        for type_, by_cost in given.items():
            for bucket in by_cost.values():
                self._seen[type_].new(bucket.values)

    def run(self, remaining: Mapping[TypeId, int]) -> Iterator[Block | tuple[TypeId, int]]:
        """Fills buckets up to the largest cost; yields every block made, and every bucket when it is full.

        Applications to more operands at a time than the round's limit follow at its end, and nothing is made of them.

        Raises:
            OutOfBudget: The budget is used up.
        """
        for level in range(GIVEN + 1, self._book.limits.cost + 1):
            for cost in range(GIVEN + 1, level + 1):
                open_ = [type_ for type_, left in remaining.items() if self._done[type_] < cost <= level - left]
                # The smallest first: what they hold may end the round before the larger are tried.
                for type_ in sorted(open_, key=lambda type_: self._size(type_, cost)):
                    self._done[type_] = cost
                    yield from self._fill(type_, cost)
        for _, rule, costs, cost in sorted(self._put_off, key=lambda job: job[0]):
            for derivation, values, functions in self._applied(rule, costs):
                yield Block(rule.result, cost, values, functions, derivation)

    def _size(self, type_: TypeId, cost: int) -> int:
        """The candidates for a bucket."""
        return sum(
            self._count(rule, costs)
            for rule in self._book.into[type_]
            for costs in self._splits(rule, cost - self._book.cost(rule))
        )

    def _count(self, rule: Rule, costs: tuple[int, ...]) -> int:
        """The candidates of a rule on buckets of these costs."""
        buckets = [self.buckets[path.source][own] for path, own in zip(rule.operands, costs, strict=True)]
        return prod(len(bucket.values) for bucket in buckets)

    def _fill(self, type_: TypeId, cost: int) -> Iterator[Block | tuple[TypeId, int]]:
        kept: list[Tensor] = []
        used: list[Rows] = []
        derivations: list[Derivation] = []
        for rule in self._book.into[type_]:
            for costs in self._splits(rule, cost - self._book.cost(rule)):
                if (count := self._count(rule, costs)) > self._book.limits.together:
                    self._put_off.append((count, rule, costs, cost))
                    continue
                for derivation, values, functions in self._applied(rule, costs):
                    yield Block(type_, cost, values, functions, derivation)
                    new = self._seen[type_].new(values) if not self._executor.full else ()
                    if len(new) and self._executor.keep(len(new), values.shape[1]):
                        kept.append(values[new])
                        used.append(functions[new])
                        derivations.append(Derivation(rule, costs, tuple(rows[new] for rows in derivation.rows)))
        if kept:
            self.buckets[type_][cost] = Bucket(torch.cat(kept), numpy.concatenate(used), derivations)
            yield type_, cost

    def _splits(self, rule: Rule, total: int) -> Iterator[tuple[int, ...]]:
        """Costs of filled buckets, one per operand, that add up to a total."""
        *first, last = [self.buckets[path.source] for path in rule.operands]
        for costs in product(*first):
            rest = total - sum(costs)
            if rest in last:
                yield (*costs, rest)

    def _coerced(self, path: CoercionPath, bucket: Bucket) -> Tensor:
        """A bucket's streams at the end of a path, remembered while there are few: many rules share a path."""
        if not path.ops:
            return bucket.values
        known = bucket.coerced.get(path.target)
        if known is None or known[0] is not path:
            known = path, self._executor.along(path, bucket.values)
            if known[1].numel() <= _MOST_REMEMBERED:
                bucket.coerced[path.target] = known
        return known[1]

    def _applied(self, rule: Rule, costs: tuple[int, ...]) -> Iterator[tuple[Derivation, Tensor, Rows]]:
        """A rule on all rows of the buckets, block by block, without the rows whose values are not sane."""
        buckets = [self.buckets[path.source][cost] for path, cost in zip(rule.operands, costs, strict=True)]
        counts = [len(bucket.values) for bucket in buckets]
        total, most = prod(counts), self._executor.rows_at_once(rule)
        own = 1 << self._bits[rule.fn] if self._once else 0
        for start in range(0, total, most):
            rows = numpy.unravel_index(numpy.arange(start, min(start + most, total)), counts)
            used = numpy.bitwise_or.reduce([bucket.used[at] for bucket, at in zip(buckets, rows, strict=True)])
            if own:
                fresh = used & own == 0
                for one, other in _alike(rule, costs):
                    fresh &= rows[one] != rows[other]
                rows, used = tuple(at[fresh] for at in rows), used[fresh]
            self._executor.spend(len(rows[0]))
            if not len(rows[0]):
                continue
            pairs = zip(rule.operands, buckets, rows, strict=True)
            parts = [self._coerced(path, bucket)[at] for path, bucket, at in pairs]
            values, good = self._executor.apply_where(rule, parts)
            if self._sane:
                fit = sane(values)
                values, good = values[fit], good[fit.numpy()]
            if len(good):
                yield Derivation(rule, costs, tuple(at[good] for at in rows)), values, used[good] | own


def _alike(rule: Rule, costs: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Pairs of operands that take the same bucket in the same way: of many operands, hardly two are one stream."""
    taken = list(zip(costs, rule.operands, strict=True))
    if len(taken) > _FEW_OPERANDS:
        yield from ((i, j) for i, j in combinations(range(len(taken)), 2) if taken[i] == taken[j])
