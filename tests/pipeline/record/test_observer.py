"""The record of any program's run in MLflow: curves, nested runs, every attempt, and what it takes to continue."""

import json
import threading
from pathlib import Path
from typing import Any

import dspy
import mlflow
import pytest
from dspy import lm15
from dspy.utils.exceptions import LMAuthError
from mlflow import MlflowClient

from optimizers import Domain, Experience, MetricError
from pipeline import MLflowObserver
from pipeline.record.attempts import read_folder
from pipeline.record.mlflow_metrics import FIRST
from tests.support.scripted_program import ScriptedEngine, Solver, answer, failing, learn, shown_two, some, tasks

pytestmark = pytest.mark.usefixtures("unrendered")


@pytest.fixture
def client(store_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MlflowClient:
    monkeypatch.chdir(tmp_path)  # where MLflow keeps artifacts by default
    mlflow.tracing.reset()  # it remembers the store of an earlier test
    return MlflowClient(f"sqlite:///{store_folder}/mlflow.db")


def runs(client: MlflowClient, experiment: str) -> tuple[Any, list[Any]]:
    """The parent run and the nested ones, in order."""
    found = client.search_runs([client.get_experiment_by_name(experiment).experiment_id], order_by=["start_time"])
    nested = [run for run in found if "mlflow.parentRunId" in run.data.tags]
    (parent,) = [run for run in found if run not in nested]
    return parent, sorted(nested, key=lambda run: str(run.info.run_name))


def test_a_run_of_any_program_is_recorded(client: MlflowClient, tmp_path: Path) -> None:
    """A program whose predictor is in a list, whose brackets no metric's name may have."""

    class Listed(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.steps = [dspy.Predict("task -> answer")]

        def forward(self, task: str) -> dspy.Prediction:
            return self.steps[0](task=task)

    observer = MLflowObserver("any", "first", client)
    compiled = learn("abcx", shown_two, student=Listed(), observers=[observer])
    experience: Experience = compiled.experience
    parent, nested = runs(client, "any")
    assert (parent.info.run_id, parent.info.run_name, parent.info.status) == (observer.run_id, "first", "FINISHED")
    assert [run.info.run_name for run in nested] == ["01 None", "02 H", "03 HM", "04 HME"][: len(nested)]
    curve = [(point.step, point.value) for point in client.get_metric_history(parent.info.run_id, "solved")]
    assert curve == [(result.index + 1, result.solved_total) for result in experience.iterations]
    assert parent.data.params["tasks"] == "a, b, c, x" and parent.data.params["num_samples"] == "4"
    assert {name for name in parent.data.params if "budget" in name} == {"budget_failures"}, "unset limits are none"
    assert nested[0].data.metrics["steps_0_/calls"] == 16
    (tmp_path / "got").mkdir()
    folder = Path(client.download_artifacts(parent.info.run_id, "", str(tmp_path / "got")))
    assert [attempt.to_dict() for _, attempt in read_folder(folder)] == [a.to_dict() for a in experience.attempts]
    assert json.loads((folder / "compiled.json").read_text())["steps[0]"]["demos"]
    assert (folder / "learning_curve.png").exists() and not any("lone" in name for name in parent.data.metrics)
    assert {*FIRST, "samples", "tokens_prompt"} <= parent.data.metrics.keys()
    totals = {name: value for name, value in parent.data.metrics.items() if name.startswith("total_")}
    assert not any(
        value == 0 for metrics in (totals, *(run.data.metrics for run in nested)) for value in metrics.values()
    )
    later = learn("ay", some, compiling={"experience": Experience.load(folder / "experience.json")}).experience
    assert later.solved == ("a",) and later.iterations[0].demos


@pytest.mark.parametrize("event", ["lm", "metric", "user"])
def test_a_run_that_an_exception_ends_is_marked_as_failed(client: MlflowClient, event: str) -> None:
    """Without a `with`; what it had sampled stays, and the page of the run says why it ended."""
    options: dict[str, Any] = {"observers": [MLflowObserver("refused", client=client)]}
    if event == "lm":
        options["engine"] = failing(lm15.AuthError("bad key"), 0)
    if event == "metric":
        options["metric"] = lambda *_: "no score"
    if event == "user":
        options["domain"] = Domain(length=lambda outputs: 1 // 0)
    with pytest.raises((LMAuthError, MetricError, ZeroDivisionError)):
        learn("ab", some, **options)
    parent, nested = runs(client, "refused")
    assert parent.info.status == "FAILED" and {run.info.status for run in nested} <= {"FAILED", "KILLED"}
    assert "Failed" in parent.data.tags["mlflow.note.content"] and parent.data.tags["stopped"] == "failed"
    places = {item.path for item in client.list_artifacts(parent.info.run_id, "iterations/01_None")}
    assert "iterations/01_None/attempts.jsonl.gz" in places


@pytest.mark.parametrize("made", ["within", "before"])
def test_the_user_s_active_run_becomes_the_parent(client: MlflowClient, made: str) -> None:
    """It stays open; params that it has already stay as they are."""
    experiment = mlflow.set_experiment("mine").experiment_id
    observer = MLflowObserver("other") if made == "before" else None
    with mlflow.start_run(run_name="outer") as active:
        mlflow.log_param("seed", "mine")
        observer = observer or MLflowObserver("other")
        learn("abx", some, observers=[observer])
        assert client.get_run(active.info.run_id).info.status == "RUNNING"
        mlflow.log_metric("afterwards", 1.0)
    parent, nested = runs(client, "mine")
    assert (parent.info.run_id, parent.info.experiment_id) == (observer.run_id, experiment)
    assert parent.info.status == "FINISHED" and parent.data.params["seed"] == "mine" and nested
    assert parent.data.metrics["solved"] == 2 and parent.data.metrics["afterwards"] == 1
    assert client.get_experiment_by_name("other") is None


def test_tasks_program_and_notable_attempts_are_recorded(client: MlflowClient) -> None:
    """As a dataset, a model and traces with assessments; MLflow's settings stay as they are."""
    before = mlflow.get_tracking_uri()
    observer = MLflowObserver("whole", client=client)
    learn("abx", some, observers=[observer])
    assert mlflow.get_tracking_uri() == before
    parent, _ = runs(client, "whole")
    (dataset,) = parent.inputs.dataset_inputs
    assert dataset.dataset.name == "trainset" and json.loads(dataset.dataset.profile)["num_rows"] == 3
    (model,) = client.search_logged_models([parent.info.experiment_id])
    assert model.source_run_id == parent.info.run_id and model.status == "READY"
    measured = {metric.key: (metric.value, metric.dataset_name) for metric in model.metrics}
    assert measured["total_solved"] == (2.0, "trainset")
    traces = client.search_traces(locations=[parent.info.experiment_id])
    assert {(t.info.tags["task"], t.info.tags["result"]) for t in traces} == {
        ("a", "right"), ("b", "right"), ("x", "nearest miss"),
    }  # fmt: skip
    verdicts = {t.info.tags["task"]: {a.name: a.feedback.value for a in t.info.assessments} for t in traces}
    assert verdicts == {"a": {"right": True, "score": 1.0}, "b": {"right": True, "score": 1.0},
                        "x": {"right": False, "score": 0.0}}  # fmt: skip


def test_what_cannot_be_recorded_ends_no_run(client: MlflowClient, caplog: pytest.LogCaptureFixture) -> None:
    """Here a program that nothing can pickle."""
    student = Solver()
    student.held = threading.Lock()
    compiled = learn("a", some, student=student, observers=[MLflowObserver("locked", client=client, traces=False)])
    parent, _ = runs(client, "locked")
    assert parent.info.status == "FINISHED" and compiled.experience.solved == ("a",)
    assert "the program as a model cannot be recorded in MLflow: TypeError" in caplog.text


def test_half_of_a_pair_of_utf_16_in_an_answer_is_recorded(client: MlflowClient) -> None:
    """Where it cannot be written, as an escape or a question mark."""
    engine = ScriptedEngine(some, 4, lambda request, task, right: answer(f"right {task} \ud800"))

    def metric(example: dspy.Example, prediction: dspy.Prediction) -> bool:
        return True

    learn("ab", some, engine=engine, metric=metric, observers=[MLflowObserver("halves", client=client)])
    parent, _ = runs(client, "halves")
    assert parent.info.status == "FINISHED"
    mlflow.flush_trace_async_logging()
    traces: Any = client.search_traces(locations=[parent.info.experiment_id])
    assert len(traces) == 2 and all("right" in str(trace.data.spans[0].outputs) for trace in traces)


def test_candidates_on_a_validation_set_have_no_run_of_their_own(client: MlflowClient) -> None:
    """Their attempts are the parent's artifacts, and the score of each level is a metric of its."""
    compiled = learn("abx", some, compiling={"valset": tasks("b")}, observers=[MLflowObserver("valset", client=client)])
    parent, nested = runs(client, "valset")
    assert parent.info.status == "FINISHED" and {run.info.status for run in nested} == {"FINISHED"}
    places = {item.path for item in client.list_artifacts(parent.info.run_id, "validation")}
    scores = {level.label: level.score for level in compiled.experience.validation}
    assert places == {f"validation/{label.partition('_')[0]}" for label in scores} and len(places) == 2
    assert {label: parent.data.metrics[f"validation/{label}"] for label in scores} == scores
    assert all(label.replace("_", r"\_") in parent.data.tags["mlflow.note.content"] for label in scores)
