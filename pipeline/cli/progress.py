"""A run's progress on stderr: bars while sampling, then a table row per iteration.

Where stderr is not a terminal, plain lines replace the bars, one every few seconds, also while no sample ends.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from optimizers import (
    Attempt,
    BaseObserver,
    Experience,
    InFlight,
    IterationResult,
    IterationStarted,
    RunStarted,
    TokenCount,
)
from pipeline.base.text import console, counted, print_lines
from pipeline.charts.plots import title

SECONDS_BETWEEN_LINES = 10.0

_ROW = "{:<14}{:>7}{:>5}{:>9}{:>9}{:>14}{:>12}{:>10}"


class ProgressDisplay(BaseObserver):
    """Shows a run's progress, as bars on a terminal; a context manager, which restores the terminal on exit."""

    def __init__(self, samples: int, on: Console | None = None) -> None:
        self._console = on or console(stderr=True)
        self._samples = samples
        self._total = 0
        self._budget: dict[str, Any] = {}
        self._spent = self._overhead = 0.0
        self._iteration: _IterationDisplay | None = None

    def __enter__(self) -> ProgressDisplay:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._end_iteration()

    def run_started(self, event: RunStarted) -> None:
        """Prints the table's header."""
        self._total = len(event.tasks)
        self._budget = event.settings["budget"]
        self._print(
            _ROW.format("iteration", "solved", "new", "pass@1", f"pass@{self._samples}", "tokens in", "out", "seconds")
        )

    def iteration_started(self, event: IterationStarted) -> None:
        """Sets up the bars, and reports demonstrations beyond the limits."""
        self._end_iteration()
        if event.left_out:
            most, tokens = self._budget["demos"], self._budget["demo_tokens"]
            full = "the context window is full" + (f", or the {tokens:,} --demo-tokens" if tokens else "")
            why = f"--max-demos is {most}" if most is not None and len(event.demos) >= most else full
            self._print(f"omitted, as {why}: {', '.join(event.left_out)}")
        self._iteration = _IterationDisplay(self._console, event)
        self._overhead = TokenCount.sum(event.overhead.values()).usd

    def sample_done(self, attempt: Attempt) -> None:
        """Advances the bars."""
        self._spent += TokenCount.sum(attempt.tokens.values()).usd
        if self._iteration:
            self._iteration.advance(attempt, self._overhead + self._spent)

    def in_flight(self, samples: tuple[InFlight, ...]) -> None:
        """Shows which tasks are being sampled."""
        if self._iteration:
            self._iteration.watch(samples)

    def iteration_finished(self, result: IterationResult) -> None:
        """Removes the bars and prints the iteration's row."""
        self._end_iteration()
        tokens = TokenCount.sum(result.tokens.values())
        self._print(
            _ROW.format(
                title(result.index, result.label),
                f"{result.solved_total}/{self._total}",
                f"+{len(result.solved)}",
                f"{result.pass_at_1:.1%}",
                f"{result.pass_at_n:.1%}",
                f"{tokens.prompt:,}",
                f"{tokens.completion:,}",
                f"{result.seconds:.1f}",
            )
            + _dollars(self._overhead + self._spent)
            + ("" if result.complete else "  incomplete")
        )
        if result.failures:
            samples = counted(result.samples, "sample")
            self._print(f"  {result.failures} of {samples} failed without an answer and are not counted")
        if result.unknown:
            samples = counted(result.samples, "sample")
            self._print(f"  {result.unknown} of {samples} have an unknown verdict and are not counted")
        if self._budget["usd"] is not None and tokens.unpriced:
            self._print(f"  answers without a known price, not counted towards --max-usd: {tokens.unpriced}")

    def run_finished(self, experience: Experience) -> None:
        """Removes the bars."""
        self._end_iteration()

    def _end_iteration(self) -> None:
        if self._iteration:
            self._iteration.close()
            self._iteration = None

    def _print(self, line: str) -> None:
        print_lines(self._console, line)


def _dollars(usd: float) -> str:
    """The dollars so far, where a price is known."""
    return f"  {usd:.2f} USD" if usd else ""


class TaskProgress(BaseObserver):
    """How many tasks have been sampled, are being sampled and are waiting, and which has the slowest sample."""

    def __init__(self, tasks: int, samples: int) -> None:
        self._tasks, self._samples = tasks, samples
        self._done: Counter[str] = Counter()
        self._running: tuple[InFlight, ...] = ()
        self._slowest = InFlight("", 0.0)

    def sample_done(self, attempt: Attempt) -> None:
        """Counts it."""
        self._done[attempt.task_key] += 1
        self._slowest = max(self._slowest, InFlight(attempt.task_key, attempt.seconds), key=_seconds)

    def in_flight(self, samples: tuple[InFlight, ...]) -> None:
        """Notes them."""
        self._running = samples

    def __str__(self) -> str:
        sampled = sum(count >= self._samples for count in self._done.values())
        started = len(self._done.keys() | {sample.task_key for sample in self._running})
        slowest = max(self._slowest, *self._running, key=_seconds) if self._running else self._slowest
        text = f"{counted(sampled, 'task')} sampled, {started - sampled} being sampled, {self._tasks - started} waiting"
        return text + (f"; slowest {slowest.task_key}, {slowest.seconds:.1f} s" if slowest.task_key else "")


def _seconds(sample: InFlight) -> float:
    return sample.seconds


class SamplingLines(TaskProgress):
    """Lines on stderr while tasks are sampled until each is solved or has so many samples, one every few seconds."""

    def __init__(self, tasks: int, samples: int) -> None:
        super().__init__(tasks, samples)
        self._console, self._printed = console(stderr=True), time.monotonic()

    def sample_done(self, attempt: Attempt) -> None:
        """Counts it; a task that is solved needs no more."""
        super().sample_done(attempt)
        if attempt.passed:
            self._done[attempt.task_key] = self._samples

    def in_flight(self, samples: tuple[InFlight, ...]) -> None:
        """Prints a line, if one is due."""
        super().in_flight(samples)
        if time.monotonic() - self._printed >= SECONDS_BETWEEN_LINES:
            self._printed = time.monotonic()
            print_lines(self._console, f"  {self}")


class _IterationDisplay:
    """The progress of one iteration: bars on a terminal, elsewhere a line every few seconds."""

    def __init__(self, console: Console, event: IterationStarted) -> None:
        self._console, self._event = console, event
        self._done, self._usd, self._right = 0, 0.0, set[str]()
        self._tasks = TaskProgress(len(event.tasks), event.total_samples // max(len(event.tasks), 1))
        self._printed = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bars = Progress(*columns, console=console, transient=True) if console.is_terminal else None
        self._name = title(event.index, event.label)
        if self._bars:
            self._samples_bar = self._bars.add_task(f"{self._name}  samples", total=event.total_samples)
            self._right_bar = self._bars.add_task(f"{self._name}  tasks with a right answer", total=len(event.tasks))
            self._state_bar = self._bars.add_task("", total=event.total_samples)
            self._bars.start()

    def advance(self, attempt: Attempt, usd: float) -> None:
        self._done, self._usd = self._done + 1, usd
        self._tasks.sample_done(attempt)
        if attempt.passed:
            self._right.add(attempt.task_key)
        self._show()

    def watch(self, samples: tuple[InFlight, ...]) -> None:
        self._tasks.in_flight(samples)
        self._show()

    def close(self) -> None:
        """Restores the terminal."""
        if self._bars:
            self._bars.stop()

    def _show(self) -> None:
        if self._bars:
            name = f"{self._name}  samples{_dollars(self._usd)}"
            self._bars.update(self._samples_bar, completed=self._done, description=name)
            self._bars.update(self._right_bar, completed=len(self._right))
            self._bars.update(self._state_bar, completed=self._done, description=f"  {self._tasks}")
        elif time.monotonic() - self._printed >= SECONDS_BETWEEN_LINES:
            self._printed = time.monotonic()
            right = f"{len(self._right)} of {len(self._event.tasks)} tasks have a right answer{_dollars(self._usd)}"
            samples = f"{self._done:,} of {self._event.total_samples:,} samples"
            print_lines(self._console, f"  {self._name}: {samples}, {right}; {self._tasks}")
