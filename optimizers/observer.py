"""Observers of a run, and the events they receive.

Invariants: events come from the thread that called `compile`, one at a time, so a listener needs no locks; payloads are
frozen; `sample_done` comes in order of completion, everything else in the order of the algorithm; an exception of a
listener ends the run.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import dspy
from tqdm.auto import tqdm

from optimizers.attempt import Attempt
from optimizers.experience import Experience, IterationResult
from optimizers.ledger import TokenCount


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run starts.

    Attributes:
        tasks: Keys of all tasks, in the order of the training set.
        solved: Those keys that an earlier run's experience already solves.
        settings: Samples, temperatures, granularity, selection, seed and budget.
        examples: The tasks by key, in the order of the training set; read-only.
    """

    tasks: tuple[str, ...]
    solved: tuple[str, ...]
    settings: Mapping[str, Any]
    examples: Mapping[str, dspy.Example] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IterationStarted:
    """An iteration starts.

    Attributes:
        index: From 0; negative for a candidate tried on the validation set, -1 for the first.
        label: As the selection strategy calls it, such as `HM_2`; or the name of another optimizer, whose program is
            sampled.
        cycle: As the strategy counts, from 1; 0 for a pass before any cycle.
        demos: Keys of the demonstrations, in the order of the prompt.
        left_out: Keys of those that do not fit the context window, last in the prompt's order first.
        tasks: Keys of the tasks to try.
        total_samples: Attempts to expect: tasks times temperatures times samples.
        program: The program that is about to be sampled, its demonstrations set; read-only.
        overhead: Tokens spent by another optimizer, not on samples, per predictor.
        reasons: By task, the demonstrations that it alone is shown and why, in the order of the prompt; empty where all
            tasks are shown `demos`.
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
    reasons: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InFlight:
    """A sample that has started and has no result yet.

    Attributes:
        task_key: Its task.
        seconds: Wall time since it started.
    """

    task_key: str
    seconds: float


class Observer(Protocol):
    """The events of a run; `BaseObserver` ignores all of them. A listener may lack methods."""

    def run_started(self, event: RunStarted) -> None:
        """Once, before anything is sampled."""
        return

    def iteration_started(self, event: IterationStarted) -> None:
        """Before the first sample of an iteration, or of a candidate's validation."""
        return

    def parts_entered(self, parts: Mapping[str, Mapping[str, dspy.Example]]) -> None:
        """After an iteration that left tasks unsolved: by task, the sub-tasks that are sampled from the next one on."""
        return

    def sample_done(self, attempt: Attempt) -> None:
        """After every sample, scored or not."""
        return

    def in_flight(self, samples: tuple[InFlight, ...]) -> None:
        """The samples in flight, the earliest first: after every sample, and at least every second while sampling."""
        return

    def iteration_finished(self, result: IterationResult) -> None:
        """After the last sample of an iteration, also of one cut short; not after a candidate's validation."""
        return

    def program_compiled(self, program: dspy.Module) -> None:
        """Once, before `run_finished`: the result, which has no `experience` yet; read-only."""
        return

    def run_finished(self, experience: Experience) -> None:
        """Once, when the run ends in any way but an exception."""
        return

    def run_failed(self, experience: Experience, error: BaseException) -> None:
        """Once, when an exception ends the run; what this raises is logged and ignored."""
        return


class BaseObserver(Observer):
    """A listener that ignores every event; override the relevant ones."""


def watched() -> bool:
    """Whether somebody sees a bar: stderr is a terminal, or this is a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


class ProgressBar(BaseObserver):
    """A bar for each iteration, over its samples, for a terminal or a notebook; commands have their own display."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._tasks = self._solved = self._tokens = 0
        self._right: set[str] = set()

    def run_started(self, event: RunStarted) -> None:
        """Starts with the solutions of an earlier run."""
        self._tasks, self._solved, self._tokens = len(event.tasks), len(event.solved), 0

    def iteration_started(self, event: IterationStarted) -> None:
        """A new bar."""
        self._close()
        name = f"{event.index + 1}: {event.label}" if event.index >= 0 else f"validation of {event.label}"
        self._right = set()
        self._bar = tqdm(total=event.total_samples, desc=name, unit="sample", leave=True)

    def sample_done(self, attempt: Attempt) -> None:
        """One step."""
        self._tokens += sum(count.total for count in attempt.tokens.values())
        if attempt.passed:
            self._right.add(attempt.task_key)
        if self._bar is not None:
            solved = self._solved + len(self._right) if attempt.iteration >= 0 else self._solved
            self._bar.set_postfix(solved=f"{solved}/{self._tasks}", tokens=f"{self._tokens:,}", refresh=False)
            self._bar.update()

    def iteration_finished(self, result: IterationResult) -> None:
        """The bar stays as it is."""
        self._solved = result.solved_total
        self._close()

    def run_finished(self, experience: Experience) -> None:
        """The same."""
        self._close()

    def run_failed(self, experience: Experience, error: BaseException) -> None:
        """The same."""
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
        self._bar = None
