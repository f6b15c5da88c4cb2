"""Inverse execution: what an operand must have been, given a rule's result."""

from __future__ import annotations

from collections.abc import Callable

import numpy
import torch
from torch import Tensor

from pipeline.synthesis.batch_execution import BatchExecutor
from pipeline.synthesis.rules import Rule
from pipeline.synthesis.type_space import CoercionPath
from pipeline.synthesis.value_blocks import Rows, close, sane
from step_runtime.primitives import Map

_POINTS = torch.logspace(-6, 4, 1024, dtype=torch.float64)
"""The points at which a function of one operand is tabulated, on both sides of zero."""
_SECANTS = 6
"""The number of secant steps from a point in the table to rounding precision."""

Function = Callable[[Tensor], Tensor | None]


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


def rearranges(executor: BatchExecutor, rule: Rule) -> bool:
    """Whether a rule gives the numbers of its only operand in another order, as far as one random operand shows."""
    layout = executor.layout(rule.operands[0].target)
    if not isinstance(rule.apply, Map) or len(rule.operands) > 1 or len(layout.shapes) > 1 or layout.numbers < 2:
        return False
    part = torch.rand(1, layout.numbers, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    values = executor.apply(rule, [part])
    if values is None or values.shape != part.shape or torch.equal(values, part):
        return False
    return torch.equal(values.sort().values, part.sort().values)


class OperandSolver:
    """Solves for an operand; tables of functions of one operand are made once."""

    def __init__(self, executor: BatchExecutor) -> None:
        self._executor = executor
        self._tables: dict[Rule, list[tuple[Tensor, Tensor]]] = {}

    def solve(self, rule: Rule, hole: int, others: list[Tensor], wanted: Tensor) -> tuple[Tensor, Rows]:
        """Values of operand `hole` for which a rule gives the rows `wanted`, and the rows that have such values.

        A function that is affine in the operand, or a quotient by it, is solved at once; any other of one operand by
        secants from its table, positive numbers first.
        """

        def result(values: Tensor) -> Tensor | None:
            return self._executor.apply(rule, [*others[:hole], values, *others[hole:]])

        zero, one = result(torch.zeros_like(wanted)), result(torch.ones_like(wanted))
        solved = torch.full_like(wanted, torch.nan)
        done = torch.zeros(len(wanted), dtype=torch.bool)
        if zero is not None and one is not None:
            for guess in ((wanted - zero) / (one - zero), one / wanted):
                if not done.all():
                    _accept(solved, done, guess, result(guess), wanted)
        for table in () if others else self._table(rule, wanted.shape[1]):
            if not done.all():
                guess = _secants(result, table, wanted)
                _accept(solved, done, guess, result(guess), wanted)
        done &= sane(solved)
        return solved[done], done.nonzero().flatten().numpy()

    def _table(self, rule: Rule, numbers: int) -> list[tuple[Tensor, Tensor]]:
        """Places and values, the latter ascending, on either side of zero where the function is monotone there."""
        if rule not in self._tables:
            self._tables[rule] = []
            for points in (_POINTS, -_POINTS):
                values = self._executor.apply(rule, [points.unsqueeze(1).expand(-1, numbers).contiguous()])
                if values is None or not torch.allclose(values, values[:, :1], equal_nan=True):
                    continue
                kept = torch.isfinite(values[:, 0])
                places, column = points[kept], values[kept, 0]
                if len(column) > 1 and column[0] > column[-1]:
                    places, column = places.flip(0), column.flip(0)
                if len(column) > 1 and bool((column.diff() >= 0).all()):
                    self._tables[rule].append((places, column.contiguous()))
        return self._tables[rule]


def _secants(result: Function, table: tuple[Tensor, Tensor], wanted: Tensor) -> Tensor:
    places, column = table
    above = torch.searchsorted(column, wanted).clamp(1, len(column) - 1)
    before, now = places[above - 1], places[above]
    value_before, value = column[above - 1], column[above]
    for _ in range(_SECANTS):
        step = (value - wanted) * (now - before) / (value - value_before)
        new = torch.where(torch.isfinite(step), now - step, now)
        found = result(new)
        if found is None:
            break
        before, value_before, now, value = now, value, new, found
    return now


def _accept(solved: Tensor, done: Tensor, guess: Tensor, found: Tensor | None, wanted: Tensor) -> None:
    """Adopts the rows of a guess that are right and not yet solved."""
    if found is not None:
        right = ~done & torch.isfinite(guess).all(1) & close(found, wanted)
        solved[right] = guess[right]
        done |= right
