"""What came of splitting a task."""

from __future__ import annotations

from dataclasses import dataclass, field

from pipeline.synthesis.search_budget import Reason
from step_runtime.tasks.task import SolvedTask, Task


@dataclass(frozen=True)
class SubtaskAttempt:
    """A sub-task that was tried.

    Attributes:
        task: The sub-task.
        given: The cuts that it starts from.
        impl: Its program; None if none was found.
        reason: Why there is none.
        candidates: Streams computed in search of it.
        seconds: Processor time.
        at: Seconds by the clock from the beginning on.
    """

    task: Task
    given: tuple[str, ...]
    impl: str | None
    reason: Reason | None
    candidates: int
    seconds: float
    at: float

    @property
    def goal(self) -> str:
        """What it computes."""
        return self.task.outputs[0].name


@dataclass
class SplitOutcome:
    """The outcome of splitting a task.

    Attributes:
        impl: A program that passed the verifier, or None.
        parts: The solved sub-tasks that the program is composed of, in their order; without a program, all solved ones.
        attempts: Every sub-task that was tried, in their order.
        reason: Why there is no program, in words.
        unsolved: The outputs that no sub-task made.
    """

    impl: str | None = None
    parts: tuple[SolvedTask, ...] = ()
    attempts: list[SubtaskAttempt] = field(default_factory=list)
    reason: str = ""
    unsolved: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def candidates(self) -> int:
        """Streams computed in all searches."""
        return sum(attempt.candidates for attempt in self.attempts)

    @property
    def processor(self) -> float:
        """Processor time of all searches, in seconds."""
        return sum(attempt.seconds for attempt in self.attempts)
