"""What came of splitting a task."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pipeline.base.text import counted
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
    """

    task: Task
    given: tuple[str, ...]
    impl: str | None
    reason: Reason | None
    candidates: int
    seconds: float

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
        obstacle: The first value that was needed and not made, its code, and values on its way that are no cuts.
    """

    impl: str | None = None
    parts: tuple[SolvedTask, ...] = ()
    attempts: list[SubtaskAttempt] = field(default_factory=list)
    reason: str = ""
    unsolved: tuple[str, ...] = ()
    obstacle: str = ""
    seconds: float = 0.0

    @property
    def candidates(self) -> int:
        """Streams computed in all searches."""
        return sum(attempt.candidates for attempt in self.attempts)

    @property
    def detail(self) -> str:
        """How a program was composed."""
        return f"{counted(len(self.parts), 'sub-task')}, {counted(self.candidates, 'candidate')}"

    @property
    def headline(self) -> str:
        """What its program is composed of, or what stayed unsolved, and why."""
        if self.impl is not None:
            return f"verified, composed of {self.detail}"
        effort = f"{counted(len(self.attempts), 'sub-task')} and {counted(self.candidates, 'candidate')}"
        solved = ", ".join(part.task.outputs[0].name for part in self.parts)
        left = f"; solved: {solved}" if solved else ""
        unsolved = f"; no program makes {', '.join(self.unsolved)}" if self.unsolved else ""
        unsolved += f"; first of all not {self.obstacle}" if self.obstacle else ""
        return (
            f"no program composed in {effort}, {self.processor:.1f} s of processor time: {self.reason}{left}{unsolved}"
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it: the sub-tasks that were tried, in order, and which the program is composed of."""
        return {
            "passed": self.impl is not None,
            "reason": self.reason or None,
            "seconds": round(self.seconds, 3),
            "processor": round(self.processor, 3),
            "candidates": self.candidates,
            "parts": [part.task.outputs[0].name for part in self.parts],
            "subtasks": [
                {
                    "goal": attempt.goal,
                    "given": list(attempt.given),
                    "passed": attempt.impl is not None,
                    "reason": attempt.reason,
                    "candidates": attempt.candidates,
                    "processor": round(attempt.seconds, 3),
                }
                for attempt in self.attempts
            ],
        }

    @property
    def processor(self) -> float:
        """Processor time of all searches, in seconds."""
        return sum(attempt.seconds for attempt in self.attempts)
