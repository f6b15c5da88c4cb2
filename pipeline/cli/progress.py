"""What a person sees of a run while it lasts, on stderr: bars while sampling, then a row of a table per iteration.

Where stderr is no terminal, the bars are plain lines, one every few seconds.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from optimizers import Attempt, BaseObserver, Experience, IterationResult, IterationStarted, RunStarted, TokenCount
from pipeline.charts.curves import title

SECONDS_BETWEEN_LINES = 10.0


class ProgressDisplay(BaseObserver):
    """Shows a run to a person. A context manager: leaving it gives the terminal back.

    Args:
        console: where to; only a terminal gets bars.
        samples: n of pass@n, for the table's head.
    """

    def __init__(self, console: Console, samples: int) -> None:
        self._console = console
        self._samples = samples
        self._total = 0
        self._usd: float | None = None
        self._iteration: _IterationDisplay | None = None

    def __enter__(self) -> ProgressDisplay:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._end_iteration()

    def run_started(self, event: RunStarted) -> None:
        """Prints the table's head."""
        self._total = len(event.tasks)
        self._usd = event.settings["budget"]["usd"]
        self._tell(_row("iteration", "solved", "new", "pass@1", f"pass@{self._samples}", "tokens in", "out", "seconds"))

    def iteration_started(self, event: IterationStarted) -> None:
        """Sets up the bars; what does not fit the LM's context is told."""
        self._end_iteration()
        if event.left_out:
            self._tell(f"left out, as the context window is full: {', '.join(event.left_out)}")
        display = _Bars if self._console.is_terminal else _Lines
        self._iteration = display(self._console, event)

    def sample_done(self, attempt: Attempt) -> None:
        """Moves the bars."""
        if self._iteration:
            self._iteration.advance(attempt)

    def iteration_finished(self, result: IterationResult) -> None:
        """Takes the bars away and prints the iteration's row."""
        self._end_iteration()
        tokens = TokenCount.sum(result.tokens.values())
        self._tell(
            _row(
                title(result.index, result.label),
                f"{result.solved_total}/{self._total}",
                f"+{len(result.solved)}",
                f"{result.pass_at_1:.1%}",
                f"{result.pass_at_n:.1%}",
                f"{tokens.prompt:,}",
                f"{tokens.completion:,}",
                f"{result.seconds:.1f}",
            )
            + ("" if result.complete else "  cut short")
        )
        if result.failures:
            self._tell(f"  {result.failures} of {result.samples} samples got no answer, and count as none")

        if self._usd is not None and tokens.unpriced:
            self._tell(f"  {tokens.unpriced} answers have no known price, and count nothing towards --max-usd")

    def run_finished(self, experience: Experience) -> None:
        """Takes the bars away."""
        self._end_iteration()

    def _end_iteration(self) -> None:
        if self._iteration:
            self._iteration.close()
            self._iteration = None

    def _tell(self, line: str) -> None:
        self._console.print(line, highlight=False, markup=False, soft_wrap=True)


def _row(
    name: str, solved: str, new: str, pass_at_1: str, pass_at_n: str, tokens_in: str, out: str, seconds: str
) -> str:
    return f"{name:<14}{solved:>7}{new:>5}{pass_at_1:>9}{pass_at_n:>9}{tokens_in:>14}{out:>12}{seconds:>10}"


class _IterationDisplay(ABC):
    """How far one iteration is: samples drawn, and tasks that have a right answer."""

    def __init__(self, console: Console, event: IterationStarted) -> None:
        self.console = console
        self.event = event
        self.done = 0
        self.right: set[str] = set()

    def advance(self, attempt: Attempt) -> None:
        self.done += 1
        if attempt.passed:
            self.right.add(attempt.task_key)
        self.show()

    @abstractmethod
    def show(self) -> None:
        """Tells the state, where it is time to."""

    @abstractmethod
    def close(self) -> None:
        """Gives the terminal back."""


class _Bars(_IterationDisplay):
    def __init__(self, console: Console, event: IterationStarted) -> None:
        super().__init__(console, event)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=console, transient=True)
        name = title(event.index, event.label)
        self._samples: TaskID = self._progress.add_task(f"{name}  samples", total=event.total_samples)
        self._tasks: TaskID = self._progress.add_task(f"{name}  tasks with a right answer", total=len(event.tasks))
        self._progress.start()

    def show(self) -> None:
        self._progress.update(self._samples, completed=self.done)
        self._progress.update(self._tasks, completed=len(self.right))

    def close(self) -> None:
        self._progress.stop()


class _Lines(_IterationDisplay):
    def __init__(self, console: Console, event: IterationStarted) -> None:
        super().__init__(console, event)
        self._told = time.monotonic()

    def show(self) -> None:
        if time.monotonic() - self._told < SECONDS_BETWEEN_LINES:
            return
        self._told = time.monotonic()
        event = self.event
        self.console.print(
            f"  {title(event.index, event.label)}: {self.done:,} of {event.total_samples:,} samples,"
            f" {len(self.right)} of {len(event.tasks)} tasks have a right answer",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )

    def close(self) -> None:
        pass
