"""Outcomes of searches, for people and for machines."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from pipeline.base.text import counted
from pipeline.synthesis.search_budget import RepairOutcome, SearchOutcome

if TYPE_CHECKING:
    from step_runtime.tasks.task import Task

_REASONS = {
    "time": "time limit reached; raise --max-minutes",
    "candidates": "candidate limit reached; raise --max-candidates",
    "memory": "memory limit reached; smaller `sizes` in the task file leave room for more programs",
    "exhausted": "everything within reach was tried without success; the task may lack a helper function",
    "crashed": "the process crashed, in one of the task's functions or its reference",
    "killed": "something else killed the process, such as a machine that is out of memory; run it again",
    "internal": "an error of the search itself, a bug",
}


def as_json(
    tasks: Sequence[Task], outcomes: Mapping[str, SearchOutcome], others: Collection[str] = ()
) -> dict[str, Any]:
    """Solved and unsolved names, then the fields of `SearchOutcome` by task; null for tasks not reached.

    `others` are solved, but not by a search of the whole task.
    """
    known = {name for name, outcome in outcomes.items() if outcome.impl} | {*others}
    solved = [task.name for task in tasks if task.name in known]
    return {
        "proposer": "search",
        "solved": solved,
        "unsolved": [task.name for task in tasks if task.name not in solved],
        "tasks": {task.name: _task_json(outcomes.get(task.name)) for task in tasks},
    }


def headline(name: str, outcome: SearchOutcome | None) -> str:
    """The result of one task: that it has a program, or why it has none."""
    if outcome is None:
        return f"{name}: not reached"
    effort = f"{outcome.seconds:.1f} s, {counted(outcome.candidates, 'candidate')}"
    if outcome.impl is None:
        missed = f"; it made no value of this line of the reference: `{outcome.missed[0]}`" if outcome.missed else ""
        return f"{name}: no program found in {effort}: {why(outcome)}{missed}"
    return f"{name}: verified, {effort}"


def programs_of(outcome: SearchOutcome) -> list[str]:
    """The first program that a search found, then the others that no other beats."""
    texts = [outcome.impl, *(program.impl for program in outcome.front)]
    return list(dict.fromkeys(text for text in texts if text is not None))


def why(outcome: SearchOutcome | RepairOutcome) -> str:
    """Why nothing was found, in words."""
    reason = _REASONS[outcome.reason or "exhausted"]
    return f"{reason}: {outcome.error}" if outcome.error else reason


def _task_json(outcome: SearchOutcome | None) -> dict[str, Any] | None:
    return None if outcome is None else {"passed": outcome.impl is not None, **asdict(outcome)}
