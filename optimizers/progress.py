"""A progress bar for use in a terminal or a notebook; the commands have a display of their own."""

from __future__ import annotations

import sys
from typing import Any

from tqdm.auto import tqdm

from optimizers.attempt import Attempt
from optimizers.experience import Experience, IterationResult
from optimizers.observer import BaseObserver, IterationStarted, RunStarted


def watched() -> bool:
    """Whether somebody sees a bar: stderr is a terminal, or this is a notebook."""
    return sys.stderr.isatty() or "ipykernel" in sys.modules


class ProgressBar(BaseObserver):
    """A bar for each iteration, over its samples, with the tasks solved and the tokens so far."""

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
