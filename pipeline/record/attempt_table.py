"""An iteration's attempts as a table, and its wrong answers counted by the stage at which verification fails.

MLflow's UI shows a JSON file as a table where it has pandas' "split" layout and the run's tag `mlflow.loggedArtifacts`
names it. `MlflowClient.log_table` writes such files, too, but it appends to an existing file, so that a call that is
retried or a run that is resumed would record attempts twice; and it holds the whole table in memory.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from optimizers import Attempt, TokenCount
from pipeline.base.files import replacing
from step_runtime.base.errors import STAGES, Stage

FILE = "attempts.json"
TAG = "mlflow.loggedArtifacts"
MAX_TABLES = 60
"""Tables that a run's tag names, the latest ones: MLflow bounds a tag to 8,000 characters."""
COLUMNS = (
    "task", "passed", "stage", "message", "program", "temperature", "sample", "diagnostics", "tokens in", "tokens out",
    "USD", "seconds",
)  # fmt: skip


def write_table(attempts: Iterable[Attempt], table: Path) -> Counter[str]:
    """Writes a table of attempts, a JSON file with one row each.

    Returns:
        The number of wrong answers at each stage.
    """
    stages: Counter[str] = Counter()
    with replacing(table) as raw, io.TextIOWrapper(raw, encoding="ascii", write_through=True) as file:
        file.write('{"columns": ' + json.dumps(COLUMNS) + ', "data": [')
        for number, attempt in enumerate(attempts):
            stage = failed_at(attempt) if attempt.scored and not attempt.passed else None
            if stage:
                stages[stage] += 1
            file.write((",\n" if number else "\n") + json.dumps(_row(attempt, stage)))
        file.write("\n]}\n")
    return stages


def failed_at(attempt: Attempt) -> Stage:
    """The stage at which a wrong answer fails; one without a stage could not be parsed."""
    stage: Stage | None = attempt.feedback.get("stage")
    return stage or STAGES[0]


def stage_metrics(stages: Mapping[str, int]) -> dict[str, float]:
    """The number of wrong answers at each stage as metrics, `failed/type`, which the UI shows as one group."""
    return {f"failed/{stage}": stages.get(stage, 0) for stage in STAGES}


def tag_value(tables: Iterable[str]) -> str:
    """The value of the tag that makes the UI show artifacts, the latest of these paths, as tables."""
    return json.dumps([{"path": path, "type": "table"} for path in list(tables)[-MAX_TABLES:]])


def tag_with(value: str | None, tables: Iterable[str]) -> str:
    """The value of the tag with more tables than in an earlier value of it."""
    known = [table["path"] for table in json.loads(value or "[]")]
    return tag_value(dict.fromkeys([*known, *tables]))


def _row(attempt: Attempt, stage: str | None) -> list[Any]:
    tokens = TokenCount.sum(attempt.tokens.values())
    reason = "" if attempt.passed else str(attempt.feedback.get("feedback", "")).partition("\n")[0]
    return [
        attempt.task_key,
        attempt.passed,
        stage or ("" if attempt.passed else "unknown" if attempt.unknown else "no answer"),
        attempt.error or reason,
        str(attempt.outputs.get("impl", attempt.text or "")),
        attempt.temperature,
        attempt.sample,
        ", ".join(attempt.feedback.get("codes", ())),
        tokens.input,
        tokens.completion + tokens.cached_completion,
        tokens.cost,
        round(attempt.seconds, 3),
    ]
