"""A search's budget and outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pipeline.base.choices import Figure

Reason = Literal["time", "candidates", "memory", "exhausted", "crashed", "killed", "internal"]


@dataclass(frozen=True)
class SearchBudget:
    """When to give up: wall clock seconds, candidates tried, and numbers of float64 kept (8 bytes each).

    A search that ends by `candidates` or `numbers` ends in the same state on any machine. It ends at the first program,
    or, where more `programs` are wanted, continues for as many candidates again; `thorough`: through its whole budget.
    """

    seconds: float = 60.0
    candidates: int = 20_000_000
    numbers: int = 100_000_000
    programs: int = 1
    thorough: bool = False


SEVERAL = 8
"""Programs at which a search for alternatives ends."""


def search_budget(seconds: float | None, candidates: int | None, *, thorough: bool) -> SearchBudget:
    """The budget of a search for several programs; None leaves the default."""
    default = SearchBudget()
    return SearchBudget(
        seconds or default.seconds, candidates or default.candidates, programs=SEVERAL, thorough=thorough
    )


class OutOfBudget(Exception):
    """The search is over."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


@dataclass(frozen=True)
class FoundProgram:
    """A program that passed the verifier, and the figures of its cost on the default chip."""

    impl: str
    figures: Mapping[Figure, float]


@dataclass(frozen=True)
class SearchOutcome:
    """The outcome of a search.

    `impl` is the first program that passed the verifier, or None; `reason` then says why there is none: the limit
    reached, `exhausted` if nothing was left to try, `crashed`, or `internal` for an error of the search itself, which
    `error` has in one line. `candidates` counts streams computed and subgoals
    solved for, `distinct` the streams of different value that were kept, `subgoals` the values wanted top-down,
    `refused` programs that gave the outputs on the observed data but not in verification; `length` counts primitives
    except Copies. `seconds` is wall time, from the task's compilation on, and `processor` is processor time. `front`
    has those of all programs found that no other beats in memory, time, traffic and operations. `missed` has the lines
    of the reference none of whose values a stream had.
    """

    impl: str | None
    reason: Reason | None
    seconds: float
    processor: float = 0.0
    candidates: int = 0
    distinct: int = 0
    subgoals: int = 0
    refused: int = 0
    length: int | None = None
    front: tuple[FoundProgram, ...] = ()
    error: str | None = None
    missed: tuple[str, ...] = ()
