"""The record of any program's run in MLflow: curves, nested runs, every attempt, and what it takes to continue."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dspy
import pytest
from dspy import lm15
from dspy.utils.exceptions import LMAuthError
from mlflow import MlflowClient

from optimizers import Experience
from pipeline import MLflowObserver
from tests.support.scripted_program import failing, learn, shown_two, some, tasks


@pytest.fixture
def client(store_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MlflowClient:
    monkeypatch.chdir(tmp_path)  # where MLflow keeps artifacts by default
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

    with MLflowObserver("any", "first", client) as observer:
        compiled = learn("abcx", shown_two, student=Listed(), observers=[observer])
        observer.log_program(compiled)
    experience: Experience = compiled.experience
    parent, nested = runs(client, "any")
    assert (parent.info.run_id, parent.info.run_name, parent.info.status) == (observer.run_id, "first", "FINISHED")
    assert [run.info.run_name for run in nested] == ["01 None", "02 H", "03 HM", "04 HME"][: len(nested)]
    curve = [(point.step, point.value) for point in client.get_metric_history(parent.info.run_id, "solved")]
    assert curve == [(result.index + 1, result.solved_total) for result in experience.iterations]
    assert parent.data.params["tasks"] == "a, b, c, x" and parent.data.params["num_samples"] == "4"
    assert nested[0].data.metrics["steps_0_/calls"] == 16
    (tmp_path / "got").mkdir()
    folder = Path(client.download_artifacts(parent.info.run_id, "", str(tmp_path / "got")))
    attempts = [json.loads(line) for path in folder.rglob("attempts.jsonl") for line in path.read_text().splitlines()]
    assert sorted(a["seed"] for a in attempts) == sorted(a.seed for a in experience.attempts)
    assert json.loads((folder / "compiled.json").read_text())["steps[0]"]["demos"]
    later = learn("ay", some, compiling={"experience": Experience.load(folder / "experience.json")}).experience
    assert later.solved == ("a",) and later.iterations[0].demos


def test_a_run_that_an_exception_ends_is_marked_as_failed(client: MlflowClient) -> None:
    """What it had sampled stays."""
    with pytest.raises(LMAuthError), MLflowObserver("refused", client=client) as observer:
        learn("ab", some, engine=failing(lm15.AuthError("bad key"), 0), observers=[observer])
    parent, nested = runs(client, "refused")
    assert [run.info.status for run in (parent, *nested)] == ["FAILED", "KILLED"]


def test_candidates_on_a_validation_set_have_no_run_of_their_own(client: MlflowClient) -> None:
    """Their attempts are the parent's artifacts."""
    with MLflowObserver("valset", client=client) as observer:
        learn("abx", some, compiling={"valset": tasks("b")}, observers=[observer])
    parent, nested = runs(client, "valset")
    assert parent.info.status == "FINISHED" and {run.info.status for run in nested} == {"FINISHED"}
    places = {item.path for item in client.list_artifacts(parent.info.run_id, "iterations")}
    assert {"iterations/valset_H_2", "iterations/01_None"} <= places and len(nested) == len(places) - 2
