"""The table of attempts holds one row each, and counts wrong answers by stage."""

import json
from pathlib import Path

from optimizers import Attempt, TokenCount
from pipeline.record.attempt_table import COLUMNS, MAX_TABLES, stage_metrics, tag_value, write_table
from step_runtime.base.errors import STAGES

SPENT = {"proposer": TokenCount(calls=1, prompt=70, completion=9, usd=0.25), "guardian": TokenCount(calls=1, prompt=5)}
RIGHT = Attempt(0, 0, "a", 0.4, 0, 1, {"impl": "return E0"}, score=1.0, passed=True, tokens=SPENT, seconds=0.1239)
WRONG = Attempt(
    0, 0, "a", 0.4, 1, 2, {"impl": "return E1"}, score=0.0,
    feedback={"stage": "type", "codes": ["map-dtype", "zip-shape"], "feedback": "a:1:1: map-dtype: no\n  return E1"},
)  # fmt: skip
UNREADABLE = Attempt(0, 0, "a", 0.4, 2, 3, text="I cannot", score=0.0)
UNANSWERED = Attempt(0, 0, "a", 0.4, 3, 4, error="LMError: 500")


def table(folder: Path, *attempts: Attempt) -> tuple[list[dict[str, object]], dict[str, int]]:
    path = folder / "attempts.json"
    stages = write_table(attempts, path)
    content = json.loads(path.read_text())
    assert tuple(content["columns"]) == COLUMNS
    return [dict(zip(COLUMNS, row, strict=True)) for row in content["data"]], stages


def test_rows_say_what_was_answered_and_why_it_is_wrong(tmp_path: Path) -> None:
    """The diagnostics' first line, tokens of all predictors, and the text of an answer without a program."""
    rows, stages = table(tmp_path, RIGHT, WRONG, UNREADABLE, UNANSWERED)
    assert [row["stage"] for row in rows] == ["", "type", "parse", "no answer"]
    assert (rows[0]["tokens in"], rows[0]["tokens out"], rows[0]["USD"]) == (75, 9, 0.25)
    assert (rows[0]["message"], rows[0]["seconds"]) == ("", 0.124)
    assert (rows[1]["message"], rows[1]["diagnostics"]) == ("a:1:1: map-dtype: no", "map-dtype, zip-shape")
    assert [row["program"] for row in rows] == ["return E0", "return E1", "I cannot", ""]
    assert rows[3]["message"] == "LMError: 500"
    assert stages == {"type": 1, "parse": 1}, "a request without an answer is no wrong answer"


def test_an_iteration_without_attempts_is_an_empty_table(tmp_path: Path) -> None:
    """As after an interrupt before the first answer."""
    assert table(tmp_path) == ([], {})


def test_every_stage_has_a_metric() -> None:
    """So that each curve has a point in every iteration."""
    assert stage_metrics({"type": 2}) == {f"failed/{stage}": 2 * (stage == "type") for stage in STAGES}


def test_a_long_run_s_tag_stays_within_mlflow_s_bound() -> None:
    """The latest tables are named."""
    paths = [f"iterations/{number:04d}_HM/attempts.json" for number in range(500)]
    named = [entry["path"] for entry in json.loads(tag_value(paths))]
    assert named == paths[-MAX_TABLES:] and len(tag_value(paths)) < 8000
