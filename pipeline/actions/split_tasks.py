"""`pipeline.generate`: tasks that a search alone does not solve are split; what came of it, for people and machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.agent.splitter import Splitter
from pipeline.base.errors import print_message
from pipeline.base.paths import shown
from pipeline.base.text import counted
from pipeline.splitting.library import Library
from pipeline.splitting.outcomes import SplitOutcome
from pipeline.splitting.plan import Splitting
from pipeline.splitting.split_files import read_split, split_folder, write_split
from pipeline.splitting.split_search import split_all
from pipeline.synthesis import SearchBudget
from pipeline.verification.workers import Workers
from step_runtime.tasks.task import Task

SPLIT = "split"
"""What found a program that was composed."""


def split_tasks(
    name: str,
    tasks: Sequence[Task],
    plan: Splitting,
    budget: SearchBudget,
    workers: Workers,
    splitter: Splitter | None = None,
) -> Iterator[tuple[Task, SplitOutcome]]:
    """Splits tasks, each with this budget, and writes their sub-tasks; yields what came of each.

    A `splitter` chooses the values that are tried first, by the LM of the context.

    Raises:
        TaskError: A task's own code fails.
        UsageError: A file of a sub-task can't be used or written.
    """
    if not tasks or plan.when == "never":
        return
    folder = Path(plan.subtasks) if plan.subtasks else None
    library = Library(Path(plan.library)) if plan.library else None

    def kept(task: Task) -> Mapping[str, Task]:
        return read_split(folder, task) if folder else {}

    print_message(name, f"splitting: {counted(len(tasks), 'task')}, up to {budget.seconds:.0f} s each")

    def chosen(task: Task, values: Sequence[str]) -> Sequence[str]:
        cuts: Sequence[str] = splitter(task=task, values=values).cuts if splitter and values else ()
        return cuts

    for task, outcome in split_all(tasks, budget, workers, library, kept, chosen):
        where = ""
        if folder:
            write_split(folder, task, outcome)
            where = f"; sub-tasks in {shown(split_folder(folder, task))}"
        print_message(name, f"{headline(task.name, outcome)}{where}")
        yield task, outcome


def detail(outcome: SplitOutcome) -> str:
    """How a program was composed."""
    known = sum(attempt.known and attempt.impl is not None for attempt in outcome.attempts)
    words = [counted(len(outcome.parts), "sub-task"), counted(outcome.candidates, "candidate")]
    return ", ".join([*words, *([f"{known} known before"] if known else [])])


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
                "known": attempt.known,
            }
            for attempt in outcome.attempts
        ],
    }
