"""A search's budget and outcome."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Literal

from pipeline.base.text import counted

Reason = Literal["time", "clock", "candidates", "memory", "exhausted", "crashed", "killed", "internal"]

SEVERAL = 8
"""Programs at which a search for several ends."""
_PATIENCE = 6.0
"""By the clock, a search may take so many times its processor time, and a minute."""
_WORDS: dict[Reason, str] = {
    "time": "time limit reached; raise --max-minutes",
    "clock": "time limit by the clock reached, as the machine was busy; raise --max-minutes",
    "candidates": "candidate limit reached; raise --max-candidates",
    "memory": "memory limit reached; smaller `sizes` in the task file leave room for more programs",
    "exhausted": "everything within reach was tried without success; the task may lack a helper function",
    "crashed": "the process crashed, in one of the task's functions or its reference",
    "killed": "something else killed the process, such as a machine that is out of memory; run it again",
    "internal": "an error of the search itself, a bug",
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
        reason = _WORDS[self.reason or "exhausted"]
        effort = f"{counted(self.candidates, 'candidate')} in {self.processor:.1f} s of processor time"
        return f"{effort}: {reason}" + (f": {self.error}" if self.error else "")
