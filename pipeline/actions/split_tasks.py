"""`pipeline.generate`: tasks that a search alone does not solve are split; what came of it, for people and machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pipeline.base.errors import print_message
from pipeline.base.text import counted
from pipeline.splitting.outcomes import SplitOutcome
from pipeline.splitting.plan import When
from pipeline.splitting.split_search import split_all
from pipeline.synthesis import SearchBudget
from pipeline.verification.pool import Workers
from step_runtime.tasks.task import Task

SPLIT = "split"
"""What found a program that was composed."""


def split_tasks(
    name: str, tasks: Sequence[Task], when: When, budget: SearchBudget, workers: Workers
) -> Iterator[tuple[Task, SplitOutcome]]:
    """Splits tasks, each with this budget; yields what came of each.

    Raises:
        TaskError: A task's own code fails.
    """
    if not tasks or when == "never":
        return
    print_message(name, f"splitting: {counted(len(tasks), 'task')}, up to {budget.seconds:.0f} s each")
    for task, outcome in split_all(tasks, budget, workers):
        print_message(name, headline(task.name, outcome))
        yield task, outcome


def detail(outcome: SplitOutcome) -> str:
    """How a program was composed."""
    return f"{counted(len(outcome.parts), 'sub-task')}, {counted(outcome.candidates, 'candidate')}"


def headline(name: str, outcome: SplitOutcome) -> str:
    """The result of one task: what its program is composed of, or what stayed unsolved."""
    if outcome.impl is not None:
        return f"{name}: verified, composed of {detail(outcome)}"
    effort = f"{outcome.seconds:.1f} s, {counted(len(outcome.attempts), 'sub-task')} tried"
    solved = ", ".join(part.task.outputs[0].name for part in outcome.parts)
    left = f"; solved: {solved}" if solved else ""
    unsolved = f"; no program makes {', '.join(outcome.unsolved)}" if outcome.unsolved else ""
    return f"{name}: no program composed in {effort}: {outcome.reason}{left}{unsolved}"


def as_json(outcome: SplitOutcome) -> dict[str, Any]:
    """The sub-tasks that were tried, in order, and which of them the program is composed of."""
    return {
        "passed": outcome.impl is not None,
        "reason": outcome.reason or None,
        "seconds": round(outcome.seconds, 3),
        "processor": round(outcome.processor, 3),
        "candidates": outcome.candidates,
        "parts": [part.task.outputs[0].name for part in outcome.parts],
        "subtasks": [
            {
                "goal": attempt.goal,
                "given": list(attempt.given),
                "passed": attempt.impl is not None,
                "reason": attempt.reason,
                "candidates": attempt.candidates,
                "processor": round(attempt.seconds, 3),
                "at": round(attempt.at, 3),
            }
            for attempt in outcome.attempts
        ],
    }
