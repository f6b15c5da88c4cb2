"""Runs rules on blocks of streams, on the task's data at one set of sizes, within a budget."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy
import torch
from torch import Tensor

from pipeline.synthesis.rules import Rule, follow
from pipeline.synthesis.search_budget import OutOfBudget, SearchBudget
from pipeline.synthesis.type_space import CoercionPath, TypeId, TypeSpace
from pipeline.synthesis.value_blocks import RowLayout, Rows, in_rows, operand
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
        self._over = self._over or self.meetings > self.budget.meetings
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
