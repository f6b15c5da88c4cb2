"""The verifier as a scorer of `mlflow.genai.evaluate`: values, reasons, and what no value is given."""

from pathlib import Path
from typing import Any

import dspy
import mlflow
import pytest

from pipeline import verdict_scorer
from pipeline.languages import registry
from step_runtime import load_task
from tests.support.answering_lm import WRONG, shared_tasks
from tests.support.languages import install_counter
from tests.support.mlflow_settings import tracking_to
from tests.support.scripted_runs import RIGHT


@pytest.mark.filterwarnings("ignore")  # MLflow's, about its own types and tables
def test_mlflow_evaluates_by_verdicts(store_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong program's trace has the diagnostics as the rationale; the run has the mean as a metric."""
    monkeypatch.chdir(tmp_path)  # where MLflow keeps artifacts by default
    tasks = [load_task(path) for path in sorted(shared_tasks().glob("*.yaml"))]
    answers = {"double": RIGHT, "triple": {"impl": RIGHT}, "halve": WRONG[2]}
    with tracking_to(f"sqlite:///{store_folder}/mlflow.db", "verdicts"), verdict_scorer(tasks) as verdict:
        data = [{"inputs": {"task": task.name}} for task in tasks]
        result = mlflow.genai.evaluate(data=data, predict_fn=lambda task: answers[task], scorers=[verdict])  # type: ignore[attr-defined]
        traces = mlflow.search_traces(run_id=result.run_id, return_type="list")
    assert result.metrics == {"verdict/mean": pytest.approx(2 / 3)}
    found = {
        each.info.request_preview: (assessment.value, assessment.rationale, assessment.metadata)
        for each in traces
        for assessment in each.info.assessments
    }
    ((value, rationale, metadata),) = [each for request, each in found.items() if "halve" in request]
    assert value is False and "return E7" in rationale and metadata["stage"] == "parse"
    assert sorted(str(value) for value, *_ in found.values()) == ["False", "True", "True"]


def test_an_unknown_verdict_is_an_error_and_no_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any language; an answer without a program is wrong, and a task that is not there is named."""
    registry.find.cache_clear()
    data = install_counter(tmp_path, monkeypatch)
    language = registry.find("counter")
    task = language.task((data / "tasks/two.yaml").read_text(), "two", "two.yaml")
    with verdict_scorer([task], "counter") as verdict:
        row: dict[str, Any] = {"task": "two"}
        lost = verdict(inputs=row, outputs="crash")
        assert lost.value is None and lost.error.error_code == "unknown"
        right = verdict(inputs=row, outputs=dspy.Prediction(impl="up\nup"))
        assert (right.value, right.rationale) == (True, None)
        assert [verdict(inputs=row, outputs=nothing).value for nothing in (None, {})] == [False, False]
        with pytest.raises(ValueError, match="the input `task` is 'three', expected the name of a task: two"):
            verdict(inputs={"task": "three"}, outputs="up")
