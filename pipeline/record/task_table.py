"""What became of each task in each iteration: a table that MLflow's UI shows, and the wrong answers by stage.

The UI shows a JSON file as a table where it has pandas' "split" layout and the run's tag `mlflow.loggedArtifacts`
names it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optimizers import Attempt, IterationStarted

if TYPE_CHECKING:
    from step_runtime.base.errors import Stage  # which needs PyTorch at run time

FILE = "tasks.json"
TAG = "mlflow.loggedArtifacts"
COLUMNS = ("task", "iteration", "right", "stage", "message", "label", "samples", "program")


def failed_at(attempt: Attempt) -> Stage:
    """The stage at which a wrong answer fails; one without a stage could not be parsed."""
    return attempt.feedback.get("stage") or "parse"


@dataclass
class _Row:
    """A task in an iteration; `nearest` is the answer that comes closest to a right one, or is one."""

    iteration: str
    label: str
    right: int = 0
    samples: int = 0
    nearest: Attempt | None = None

    def cells(self, task: str) -> list[Any]:
        found, stage, message, program = self.nearest, "", "", ""
        if found is not None:
            program = str(found.outputs.get("impl", found.text or ""))
            message = found.error or (
                "" if found.passed else str(found.feedback.get("feedback", "")).partition("\n")[0]
            )
            if not found.passed:
                stage = failed_at(found) if found.scored else "unknown" if found.unknown else "no answer"
        return [task, self.iteration, self.right, stage, message, self.label, self.samples, program]


class TaskTable:
    """The rows of all iterations so far, by task.

    Args:
        stages: Where an answer may fail, in the order of checking; one that gets further is nearer to a right one.
    """

    def __init__(self, stages: Sequence[str] = ()) -> None:
        self._places = {stage: place for place, stage in enumerate(stages)}
        self._rows: dict[str, list[_Row]] = {}
        self.stages: Counter[str] = Counter()

    def start(self, event: IterationStarted) -> None:
        """An iteration starts, or the validation of a level, with a row for each task."""
        self.stages = Counter(dict.fromkeys(self.stages, 0))
        for task in event.tasks:
            iteration = str(event.index + 1) if event.index >= 0 else "validation"
            self._rows.setdefault(task, []).append(_Row(iteration, event.label))

    def add(self, attempt: Attempt) -> None:
        """Counts an attempt of this iteration."""
        row = self._rows[attempt.task_key][-1]
        row.samples += 1
        row.right += attempt.passed
        if row.nearest is None or self._nearness(attempt) > self._nearness(row.nearest):
            row.nearest = attempt
        if attempt.scored and not attempt.passed:
            self.stages[failed_at(attempt)] += 1

    def stage_metrics(self) -> dict[str, float]:
        """The wrong answers of this iteration by stage as metrics, `failed/type`, which the UI shows as one group."""
        return {f"failed/{stage}": count for stage, count in self.stages.items()}

    def to_json(self) -> str:
        """The file's content."""
        rows = [row.cells(task) for task, rows in self._rows.items() for row in rows]
        return json.dumps({"columns": COLUMNS, "data": rows}, indent=1)

    def _nearness(self, attempt: Attempt) -> tuple[bool | float, ...]:
        """Larger for a nearer answer; of equals the first sample is nearer."""
        place = self._places.get(failed_at(attempt), -1)
        score = attempt.score or 0.0
        return attempt.passed, attempt.scored, place, score, -attempt.temperature, -attempt.sample


def shown(*tables: str) -> str:
    """The value of the tag that makes the UI show these artifacts as tables."""
    return json.dumps([{"path": path, "type": "table"} for path in tables])
