"""Outcomes of searches, for people and for machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.base.paths import shown
from pipeline.synthesis.search_budget import Reason, SearchOutcome

if TYPE_CHECKING:
    from step_runtime.tasks.task import Task

_REASONS = {
    "time": "time limit reached; raise --max-minutes",
    "candidates": "candidate limit reached; raise --max-candidates",
    "memory": "memory limit reached",
    "exhausted": "everything within reach was tried; it does not contain the program",
    "crashed": "the process crashed, in one of the task's functions or its reference",
}


def as_json(
    tasks: Sequence[Task], outcomes: Mapping[str, SearchOutcome], written: Mapping[str, Sequence[Path]]
) -> dict[str, Any]:
    """Solved and unsolved names, then the fields of `SearchOutcome` by task; null for tasks not reached."""
    solved = [task.name for task in tasks if task.name in outcomes and outcomes[task.name].impl]
    return {
        "proposer": "search",
        "solved": solved,
        "unsolved": [task.name for task in tasks if task.name not in solved],
        "tasks": {task.name: _task_json(outcomes.get(task.name), written.get(task.name, ())) for task in tasks},
    }


def as_text(name: str, outcome: SearchOutcome | None, files: Sequence[Path]) -> str:
    """The result of one task: its program and where it was written, or why there is none."""
    if outcome is None:
        return f"{name}: not reached"
    effort = f"{outcome.seconds:.1f} s, {outcome.candidates:,} candidates"
    if outcome.impl is None:
        return f"{name}: no program found in {effort}: {why(outcome.reason)}"
    lines = [str(shown(file)) for file in files] or outcome.impl.strip().splitlines()
    return "\n".join([f"{name}: verified, {effort}", *(f"  {line}" for line in lines)])


def why(reason: Reason | None) -> str:
    """Why nothing was found, in words."""
    return _REASONS[reason or "exhausted"]


def _task_json(outcome: SearchOutcome | None, files: Sequence[Path]) -> dict[str, Any] | None:
    if outcome is None:
        return None
    return {"passed": outcome.impl is not None, "files": [str(file) for file in files], **asdict(outcome)}
