"""The sub-tasks of a run as a table: which was solved when, and which task it served."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import dspy

from optimizers import IterationResult
from pipeline.base.text import path_of
from pipeline.languages.language import Task

COLUMNS = ("sub-task", "serves", "entered", "solved", "right", "samples", "composed")


@dataclass
class _Row:
    """A sub-task: iterations count from 1."""

    task: Task
    serves: str
    entered: int
    solved: int | None = None
    right: int = 0
    samples: int = 0
    composed: bool = False
    program: str | None = None


class Subtasks:
    """The sub-tasks that entered a run so far, by name."""

    FILE = "subtasks.json"

    def __init__(self) -> None:
        self.rows: dict[str, _Row] = {}

    def enter(self, parts: Mapping[str, Mapping[str, dspy.Example]], iteration: int) -> None:
        """Adds sub-tasks by task, which are sampled from an iteration on."""
        for whole, examples in parts.items():
            self.rows |= {name: _Row(each.task, whole, iteration) for name, each in examples.items()}

    def solve(self, answers: Mapping[str, Mapping[str, Any]]) -> None:
        """Takes the programs of sub-tasks, without those of other tasks."""
        for name in answers.keys() & self.rows.keys():
            self.rows[name].program = str(answers[name]["impl"])

    def finish(self, result: IterationResult) -> None:
        """Notes what an iteration solved, and which sub-tasks composed answers are made of."""
        for count in result.counts:
            if (row := self.rows.get(count.task_key)) is not None:
                row.right, row.samples = row.right + count.successes, row.samples + count.samples
        for name in result.solved_parts:
            self.rows[name].solved = result.index + 1
        for name in (name for origins in result.composed.values() for name in origins):
            self.rows[name].composed = True

    def metrics(self) -> dict[str, float]:
        """How many entered, how many are solved, and of how many tasks the answers are composed; none without any."""
        if not self.rows:
            return {}
        composed = {row.serves for row in self.rows.values() if row.composed}
        solved = sum(row.solved is not None for row in self.rows.values())
        return {"subtasks": len(self.rows), "subtasks_solved": solved, "tasks_composed": len(composed)}

    def files(self) -> dict[str, str]:
        """The table and each sub-task's file, by place in the record; none without any."""
        data = [
            [name, row.serves, row.entered, row.solved, row.right, row.samples, row.composed]
            for name, row in self.rows.items()
        ]
        table = {self.FILE: json.dumps({"columns": COLUMNS, "data": data}, indent=1)} if data else {}
        return table | {
            f"subtasks/{path_of(name)}.yaml": row.task.text_with(row.program) if row.program else row.task.statement
            for name, row in self.rows.items()
        }
