"""Who listens to a run, and what it hears.

Invariants: events come from the thread that called `compile`, one at a time, so a listener needs no locks;
payloads are frozen; `sample_done` comes in order of completion, everything else in the order of the
algorithm; what a listener raises ends the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from optimizers.attempt import Attempt
from optimizers.experience import Experience, IterationResult
from optimizers.ledger import TokenCount


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run begins.

    Attributes:
        tasks: Keys of all tasks, in the order of the training set.
        solved: Of these, the keys that an earlier run's experience solves already.
        settings: Samples, temperatures, granularity, seed and budget.
    """

    tasks: tuple[str, ...]
    solved: tuple[str, ...]
    settings: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class IterationStarted:
    """An iteration begins.

    Attributes:
        index: From 0; -1 for a level tried on the validation set.
        label: `None`, `H_1`, `HM_2`, …, or the name of another optimizer, whose program it is.
        cycle: From 1; 0 for the pass without demonstrations.
        demos: Keys of the demonstrations, hardest first.
        left_out: Keys of those that would not have fitted the context window, easiest first.
        tasks: Keys of the tasks to try.
        total_samples: Attempts to come: tasks times temperatures times samples.
        program: The program that is about to be sampled, its demonstrations set. To be read only.
        overhead: Tokens spent on no sample until now, such as by another optimizer, per predictor.
    """

    index: int
    label: str
    cycle: int
    demos: tuple[str, ...]
    left_out: tuple[str, ...]
    tasks: tuple[str, ...]
    total_samples: int
    program: Any
    overhead: Mapping[str, TokenCount]


class Observer(Protocol):
    """What a listener answers to; `BaseObserver` does so by doing nothing."""

    def run_started(self, event: RunStarted) -> None:
        """Once, before anything is sampled."""

    def iteration_started(self, event: IterationStarted) -> None:
        """Before the first sample of an iteration, or of a level's validation."""

    def sample_done(self, attempt: Attempt) -> None:
        """After every sample, scored or not."""

    def iteration_finished(self, result: IterationResult) -> None:
        """After the last sample of an iteration, also of one cut short; not after a level's validation."""

    def run_finished(self, experience: Experience) -> None:
        """Once, whatever ended the run, unless an exception did."""


class BaseObserver:
    """A listener to which nothing matters; override what does."""

    def run_started(self, event: RunStarted) -> None:
        """See `Observer`."""

    def iteration_started(self, event: IterationStarted) -> None:
        """See `Observer`."""

    def sample_done(self, attempt: Attempt) -> None:
        """See `Observer`."""

    def iteration_finished(self, result: IterationResult) -> None:
        """See `Observer`."""

    def run_finished(self, experience: Experience) -> None:
        """See `Observer`."""
