"""A search's budget and outcome."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

from pipeline.base.text import counted

Reason = Literal["time", "clock", "candidates", "meetings", "memory", "exhausted", "crashed", "killed", "internal"]

SEVERAL = 8
"""Programs at which a search for several ends."""
_PATIENCE = 6.0
"""By the clock, a search may take so many times its processor time, and a minute."""
LIMITS: dict[Reason, str] = {
    "time": "time limit reached",
    "clock": "time limit by the clock reached, as the machine was busy",
    "candidates": "candidate limit reached",
    "meetings": "limit of the ways for operands to meet reached",
    "memory": "memory limit reached",
    "exhausted": "everything within reach was tried without success",
    "crashed": "the process crashed, in one of the task's functions or its reference",
    "killed": "something else killed the process, such as a machine that is out of memory",
    "internal": "an error of the search itself, a bug",
}
"""What ended a search without a program."""
_ADVICE: dict[Reason, str] = {
    "time": "raise --max-minutes",
    "clock": "raise --max-minutes",
    "candidates": "raise --max-candidates",
    "meetings": "raise --max-candidates",
    "memory": "smaller `sizes` in the task file leave room for more programs",
    "exhausted": "the task may lack a helper function",
    "killed": "run it again",
}


@dataclass(frozen=True)
class SearchBudget:
    """When to give up: processor seconds, candidates tried, and numbers of float64 kept (8 bytes each).

    `meetings` bounds the ways for functions' operands to meet, by type, which are looked at before anything is run. A
    search that ends by `candidates`, `meetings` or `numbers` ends in the same state on any machine. It ends at the
    first of so many `programs`. The clock ends it where a function hangs, or the machine is busy.
    """

    seconds: float = 60.0
    candidates: int = 20_000_000
    numbers: int = 100_000_000
    programs: int = 1
    meetings: int = sys.maxsize

    @property
    def clock(self) -> float:
        """Seconds by the clock."""
        return _PATIENCE * self.seconds + 60


class OutOfBudget(Exception):
    """The search is over."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


@dataclass(frozen=True)
class SearchOutcome:
    """The outcome of a search.

    `impl` is the first program that passed the verifier, or None; `reason` then says why there is none: the limit
    reached, `exhausted` if nothing was left to try, `crashed`, or `internal` for an error of the search itself, which
    `error` has in one line. `candidates` counts streams computed and subgoals solved for, `refused` programs that gave
    the outputs on the observed data but not in verification; `length` counts primitives except Copies. `seconds` is
    wall time, from the task's compilation on, and `processor` is processor time. `others` are further programs that
    passed. `missed` has the lines of the reference none of whose values a stream had.
    """

    impl: str | None
    reason: Reason | None
    seconds: float
    processor: float = 0.0
    candidates: int = 0
    refused: int = 0
    length: int | None = None
    others: tuple[str, ...] = ()
    error: str | None = None
    missed: tuple[str, ...] = ()

    @property
    def programs(self) -> tuple[str, ...]:
        """Those that passed, in the order in which they were found."""
        return () if self.impl is None else (self.impl, *self.others)

    @property
    def headline(self) -> str:
        """Why nothing was found, in words."""
        effort = f"{counted(self.candidates, 'candidate')} in {self.processor:.1f} s of processor time"
        return f"{effort}: {why(self.reason or 'exhausted', self.error)}"


def why(reason: Reason, error: str | None = None) -> str:
    """What ended a search, and what to do about it."""
    advice = f"; {_ADVICE[reason]}" if reason in _ADVICE else ""
    return f"{LIMITS[reason]}{advice}" + (f": {error}" if error else "")
