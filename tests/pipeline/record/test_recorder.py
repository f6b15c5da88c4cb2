"""The record of a run holds these.

- The parent has a curve per metric, the iteration as step; each iteration is a nested run named for people.
- Every attempt is on record once, in the algorithm's order, also those of a run that is interrupted.
- A run's status says how it ended: finished, interrupted or failed.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from mlflow import MlflowClient
from mlflow.entities import Run

from optimizers import Attempt, Budget, Experience
from pipeline.base.errors import RecordError
from pipeline.record import store
from pipeline.record.attempts import GROWING, read_iteration
from pipeline.record.mlflow_metrics import FIRST
from pipeline.record.recorder import recorded
from step_runtime.tasks.reader import loads_task
from tests.pipeline.conftest import Recorded
from tests.support.scripted_runs import RIGHT, Engine, learn, tasks

pytestmark = pytest.mark.usefixtures("unrendered")  # `recorded_run` is drawn before


def runs(folder: Path) -> tuple[Run, list[Run]]:
    """The one parent run in the store, and its nested runs in their order."""
    client = MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db")
    found = client.search_runs([client.get_experiment_by_name(store.EXPERIMENT).experiment_id])
    parents = [run for run in found if "mlflow.parentRunId" not in run.data.tags]
    nested = [run for run in found if "mlflow.parentRunId" in run.data.tags]
    assert len(parents) == 1
    assert {run.data.tags["mlflow.parentRunId"] for run in nested} <= {parents[0].info.run_id}
    return parents[0], sorted(nested, key=lambda run: str(run.info.run_name))


def artifacts(run: Run) -> Path:
    return Path(run.info.artifact_uri.removeprefix("file://"))


def attempts(run: Run, place: str) -> list[dict[str, Any]]:
    return [attempt.to_dict() for attempt in read_iteration(artifacts(run) / "iterations" / place)]


def record(engine: Engine | None = None, budget: Budget | None = None) -> Experience:
    with recorded("adaptive scripted", {"samples": 2, "lm": "scripted"}, tasks()) as recorder:
        return learn([recorder], engine, budget)


def test_a_run_is_a_parent_with_curves_and_a_nested_run_per_iteration(recorded_run: Recorded) -> None:
    """Names for people, the iteration as step, everything to run it again as params."""
    parent, nested = runs(recorded_run.folder)
    assert parent.info.run_name == "adaptive scripted"
    assert parent.info.status == "FINISHED"
    assert parent.data.params == {"lm": "scripted", "samples": "2", "temperatures": "1.0,0.4"}
    assert [run.info.run_name for run in nested] == ["01 None", "02 H", "03 H", "04 HM"]
    client = MlflowClient(tracking_uri=f"sqlite:///{recorded_run.folder}/mlflow.db")
    history = client.get_metric_history(parent.info.run_id, "pass_at_n")
    assert [(point.step, round(point.value, 3)) for point in history] == [
        (1, 0.333),
        (2, 0.667),
        (3, 0.667),
        (4, 0.667),
    ]
    assert parent.data.metrics["solved"] == 2
    wanted = {"pass_at_8", "tokens_prompt", "tokens_completion", "samples", "seconds_sampling", "seconds_verifying"}
    assert {*wanted, *FIRST} <= parent.data.metrics.keys()
    assert [point.value for point in client.get_metric_history(parent.info.run_id, "samples")] == [12, 8, 4, 4]
    assert all(value for run in nested for value in run.data.metrics.values()), "a curve of zeros says nothing"
    assert "cost_usd" not in parent.data.metrics, "no price is known"
    assert nested[1].data.metrics["tokens_prompt"] == 8 * 300, "question and answer of the demonstration, then the task"
    assert nested[1].data.metrics["proposer/calls"] == 8
    assert nested[1].data.params["demonstrations"] == "easy/0"
    assert "2 of 3 tasks solved" in parent.data.tags["mlflow.note.content"]
    said = nested[1].data.tags["mlflow.note.content"]
    tokens = nested[1].data.metrics["tokens_prompt"] + nested[1].data.metrics["tokens_completion"]
    assert said.startswith(rf"**H\_1** shows easy/0, and solves hard/0: {tokens:,.0f} tokens, "), said
    failed = {"parse": 0, "type": 0, "affine": 0, "limits": 0, "shape": 0, "run": 0, "value": 0}
    assert {f"failed/{stage}" for stage in failed} & parent.data.metrics.keys() == {"failed/parse"}, "others are zero"
    spent = parent.data.metrics
    assert spent["total_tokens"] == spent["total_tokens_prompt"] + spent["total_tokens_completion"]


def test_a_command_s_run_has_its_tasks_and_what_is_worth_looking_at(store_of_run: Recorded) -> None:
    """As a dataset, and as traces with assessments: the answers that solve tasks, and the nearest misses."""
    parent, _ = runs(store_of_run.folder)
    (dataset,) = parent.inputs.dataset_inputs
    assert dataset.dataset.name == "trainset" and json.loads(dataset.dataset.profile)["num_rows"] == 3
    traces = MlflowClient().search_traces(locations=[parent.info.experiment_id], run_id=parent.info.run_id)
    found = {t.info.tags["task"]: (t.info.tags["result"], t.info.assessments[0].feedback.value) for t in traces}
    assert found == {"easy/0": ("right", True), "hard/0": ("right", True), "no/0": ("nearest miss", False)}


def in_order(attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    found = sorted(attempts, key=lambda attempt: (attempt.iteration, attempt.task, attempt.temperature, attempt.sample))
    return [attempt.to_dict() for attempt in found]


def test_what_became_of_each_task_is_a_table_that_mlflow_reads(store_of_run: Recorded) -> None:
    """Named in the tag by which the UI shows it: across iterations, how many samples are right, and why others fail."""
    parent, _ = runs(store_of_run.folder)
    assert "tasks.json" in parent.data.tags["mlflow.loggedArtifacts"]
    table = MlflowClient().load_table(parent.info.experiment_id, "tasks.json", [parent.info.run_id])
    rows = table[["task", "iteration", "label", "right", "samples", "stage"]].values.tolist()
    assert [row for row in rows if row[0] == "hard/0"] == [
        ["hard/0", 1, "None", 0, 4, "parse"], ["hard/0", 2, "H_1", 4, 4, ""],
    ]  # fmt: skip
    assert set(table["program"]) == {RIGHT, "wrong"}


def test_what_was_shown_is_on_record_as_yaml(recorded_run: Recorded) -> None:
    """Demonstrations with their success rates, and the messages that every predictor sends, as legible text."""
    parent, _ = runs(recorded_run.folder)
    folder = artifacts(parent) / "iterations" / "02_H"
    shown = yaml.safe_load((folder / "demonstrations.yaml").read_text())
    assert shown["tasks"] == ["easy/0"]
    assert shown["success_rates"] == {"easy/0": "2/2 at temperature 1.0"}
    assert shown["predictors"]["proposer"][0]["impl"] == RIGHT
    prompt = yaml.safe_load((folder / "prompt.yaml").read_text())
    assert [message["role"] for message in prompt["proposer"]] == ["system", "user", "assistant", "user"]
    assert RIGHT in prompt["proposer"][2]["content"]
    assert "content: |" in (folder / "prompt.yaml").read_text()


def test_solutions_experience_tasks_and_pictures_are_artifacts(recorded_run: Recorded) -> None:
    """Solved tasks as task files, PNGs, and the record that another run can start from."""
    experience = recorded_run.experience
    parent, _ = runs(recorded_run.folder)
    folder = artifacts(parent)
    solutions = sorted((folder / "solutions").rglob("*.yaml"))
    assert [path.relative_to(folder / "solutions").as_posix() for path in solutions] == ["easy/0.yaml", "hard/0.yaml"]
    assert loads_task(solutions[0].read_text()).impl == RIGHT
    assert loads_task((folder / "tasks" / "no" / "0.yaml").read_text()) == tasks()[2]
    read = Experience.load(folder / "experience.json")
    assert (read.solved, read.iterations) == (experience.solved, experience.iterations)
    for name in ("learning_curve.png", "pass_at_k.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    assert not list((recorded_run.folder / "running").iterdir())


def interrupting(folder: Path) -> Engine:
    """An LM at whose 15th request Ctrl-C comes, when the two before it in the second iteration are on file."""
    heard = threading.Event()

    def written() -> int:
        files = folder.glob(f"running/*/iterations/02_H/{GROWING}")
        return sum(path.read_bytes().count(b"\n") for path in files)

    def before(number: int) -> None:
        if number == 15:
            end = time.monotonic() + 120
            while written() < 2 and time.monotonic() < end:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.3)  # the main thread has nothing to do but to hear of it
            heard.set()
        elif number > 15:
            heard.wait(120)

    return Engine(before)


def test_an_exception_marks_the_run_as_failed_and_keeps_its_work(store_folder: Path) -> None:
    """A fault of the machinery ends the run; what it had sampled stays."""

    class Broken:
        def __getattr__(self, name: str) -> Any:
            return self.sample_done

        def sample_done(self, payload: Any) -> None:
            if getattr(payload, "sample", 0) == 1:
                raise RuntimeError("the disk is full")

    def attempt() -> None:
        with recorded("adaptive scripted", {}, tasks()) as recorder:
            learn([recorder, Broken()])

    with pytest.raises(RuntimeError, match="the disk is full"):
        attempt()
    parent, nested = runs(store_folder)
    assert [parent.info.status, *(run.info.status for run in nested)] == ["FAILED", "FAILED"]
    assert len(attempts(parent, "01_None")) >= 1


def points(folder: Path, run: Run) -> dict[str, list[int]]:
    """The steps of every metric of a run."""
    client = MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db")
    return {name: [p.step for p in client.get_metric_history(run.info.run_id, name)] for name in run.data.metrics}


def test_an_interrupted_run_keeps_its_work_and_has_each_iteration_on_the_curves_once(store_folder: Path) -> None:
    """Ctrl-C in the second iteration: it is on no curve, its attempts are on record, and the run is marked as killed.

    Resumed, it has one point like any other; the run's totals get a later step.
    """
    cut = record(interrupting(store_folder))
    parent, nested = runs(store_folder)
    assert (cut.stopped, parent.info.status) == ("interrupted", "KILLED")
    assert [run.info.status for run in nested] == ["FINISHED", "KILLED"]
    assert attempts(parent, "01_None") == in_order(cut.attempts[:12])
    assert attempts(parent, "02_H") == in_order(cut.attempts[12:]) and len(cut.attempts) >= 15
    assert points(store_folder, parent)["solved"] == [1]
    assert nested[1].data.metrics == {}
    assert parent.data.metrics["total_solved"] == len(cut.solved)
    with recorded("again", {}, tasks(), resumed=parent.info.run_id) as recorder:
        done = learn([recorder], journal=recorder.journal)
    parent, nested = runs(store_folder)
    steps = points(store_folder, parent)
    assert {tuple(found) for name, found in steps.items() if not name.startswith("total_")} == {(1, 2, 3, 4)}
    assert steps["total_solved"][-1] == len(done.attempts) == 12 + 3 * 8 - 4 - 4
    assert all(found == [0] for run in nested for found in points(store_folder, run).values())
    assert [run.info.status for run in nested] == ["FINISHED"] * 4


def test_a_full_disk_ends_the_run_in_one_line(store_folder: Path) -> None:
    """What was written until then stays."""
    kept: list[Any] = []

    def fill_up(number: int) -> None:
        if number == 5:  # of two threads: three attempts have been written
            attempts = recorder.record._attempts
            assert attempts
            kept.append(attempts._file)
            attempts._file = full

    with (
        Path("/dev/full").open("ab") as full,
        pytest.raises(RecordError, match=r"cannot write the record of the run: .*No space left on device"),
        recorded("full", {}, tasks()) as recorder,
    ):
        learn([recorder], Engine(fill_up))
    kept[0].close()
    store.open_store()
    parent, _ = runs(store_folder)
    assert parent.info.status == "FAILED"
    assert 1 <= len(attempts(parent, "01_None")) <= 12
