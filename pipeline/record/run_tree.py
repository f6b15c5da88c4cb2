"""One run in MLflow with its folder, in which every file of the record is written first.

The folder is the truth: a file that cannot be copied to MLflow stays there. It is copied at the beginning and at the
end of each iteration. Whatever is recorded already, as before an interruption, is not recorded again.

A request to create a run may be repeated, by MLflow's HTTP client or by ours, although the server has answered the
first: its answer is lost if the server or the network fails then. Runs are therefore looked up after they were created;
the first of several stays, and the others are deleted.
"""

from __future__ import annotations

import getpass
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimizers import Attempt, IterationStarted
from pipeline.base.errors import RunLost
from pipeline.base.files import write_bytes
from pipeline.base.text import redacted
from pipeline.record import store
from pipeline.record.attempts import GROWING, AttemptWriter, reported
from pipeline.verification.isolation.confinement import applied

if TYPE_CHECKING:
    from mlflow.entities import Run

SANDBOX = "sandbox"
"""The tag that says what confines the code of a run's tasks on the machine that leads it."""
TAGS = ("command", "sweep_key")
"""Parameters that differ in every run: as tags they do not become axes of the UI's plots."""
DIGITS = 6
"""Significant digits of a metric that is no whole number."""
_UNNAMEABLE = re.compile(r"[^\w\-. /]")
"""Characters that MLflow accepts in no metric's name, such as the brackets of `steps[0]`."""


class RunRecord:
    """A run that is being recorded, and the nested run of its current iteration.

    Args:
        client: MLflow's, which may retry.
        experiment: Its id.
        run_id: The parent's.
        folder: Where its files are; those that are there have been recorded before.
    """

    def __init__(self, client: Any, experiment: str, run_id: str, folder: Path) -> None:
        self.client, self.experiment, self.run_id, self.folder = client, experiment, run_id, folder
        own = folder / store.WRITER
        self._writer = own.read_text(encoding="utf-8") if own.exists() else None
        self._copied = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
        self._points = _recorded_points(client, run_id)
        self._known_nested = nested_runs(client, experiment, run_id)
        self._attempts: AttemptWriter | None = None
        self.nested: str | None = None

    def check(self) -> None:
        """Raises `RunLost` if another process has taken over the run."""
        if self._writer is not None and (found := store.writer_of(self.client, self.run_id)) != self._writer:
            raise RunLost(f"run {self.run_id[:8]} was taken over by {found}; this process writes no more of it")

    def write(self, place: str, text: str) -> None:
        """Writes a file of the record; half of a pair of UTF-16 becomes an escape."""
        with reported():
            write_bytes(self.folder / place, redacted(text).encode(errors="backslashreplace"))

    def start_attempts(self, place: str) -> None:
        """Opens the file of an iteration's attempts."""
        with reported():
            self._attempts = AttemptWriter(self.folder / place)

    def write_attempt(self, attempt: Attempt) -> None:
        """Writes it at once."""
        if self._attempts:
            with reported():
                self._attempts.write(attempt)

    def end_attempts(self) -> None:
        """Makes the file of the iteration's attempts the one that is copied."""
        attempts, self._attempts = self._attempts, None
        if attempts:
            with reported():
                attempts.close()

    def copy(self) -> None:
        """Copies to MLflow what has changed since the last time."""
        self.check()
        for path in sorted(path for path in self.folder.rglob("*") if path.is_file()):
            changed = path.stat().st_mtime_ns
            if path.name != GROWING and path.name[0] != "." and self._copied.get(path) != changed:
                place = path.parent.relative_to(self.folder).as_posix()
                self.client.log_artifact(self.run_id, str(path), None if place == "." else place)
                self._copied[path] = changed

    def start_nested(self, event: IterationStarted) -> None:
        """Starts the nested run of an iteration, or goes on with that of an interrupted process."""
        name = run_name(event)
        if run := self._known_nested.get(name):
            self.client.update_run(run.info.run_id, status="RUNNING")
        else:
            of_parent = f"tags.`mlflow.parentRunId` = '{self.run_id}' and attributes.run_name = '{name}'"
            run = _created_once(self.client, self.experiment, name, {"mlflow.parentRunId": self.run_id}, of_parent)
        self.nested = str(run.info.run_id)
        self._points |= _recorded_points(self.client, self.nested)
        if not run.data.params:
            params = {
                "iteration": event.index + 1,
                "label": event.label,
                "cycle": event.cycle,
                "demonstrations": ", ".join(event.demos) or "none",
                "tasks": ", ".join(event.tasks),
            }
            log_params(self.client, self.nested, params)

    def end_nested(self, status: str) -> None:
        """Ends the nested run, if one is open."""
        nested, self.nested = self.nested, None
        if nested:
            self.client.set_terminated(nested, status)

    def log_metrics(self, metrics: Mapping[str, float], step: int, run_id: str | None = None) -> None:
        """Logs metrics of the parent, or of another run; a point of a metric is logged once."""
        from mlflow.entities import Metric

        now, run_id = int(time.time() * 1000), run_id or self.run_id
        metrics = {_UNNAMEABLE.sub("_", key): value for key, value in metrics.items()}
        new = {key: value for key, value in metrics.items() if (run_id, key, step) not in self._points}
        if new:
            self.client.log_batch(run_id, [Metric(key, _rounded(value), now, step) for key, value in new.items()])
            self._points |= {(run_id, key, step) for key in new}

    def link(self, model_id: str) -> None:
        """Makes the run's totals metrics of a model, too, on the run's dataset: the points are logged again."""
        from mlflow.entities import Metric

        run = self.client.get_run(self.run_id)
        totals = [
            self.client.get_metric_history(self.run_id, n)[-1] for n in run.data.metrics if n.startswith("total_")
        ]
        used = [each.dataset for each in run.inputs.dataset_inputs[:1]]
        on = {"dataset_name": used[0].name, "dataset_digest": used[0].digest} if used else {}
        points = [Metric(p.key, p.value, p.timestamp, p.step, model_id=model_id, **on) for p in totals]
        self.client.log_batch(self.run_id, points)

    @property
    def curves(self) -> set[str]:
        """The names of the parent's metrics that have points."""
        return {name for run_id, name, _ in self._points if run_id == self.run_id}

    def tag(self, name: str, value: str, run_id: str | None = None) -> None:
        """Sets a tag of the parent, or of another run."""
        self.client.set_tag(run_id or self.run_id, name, value)


def create_parent(client: Any, experiment: str, name: str, params: Mapping[str, object], writer: str) -> str:
    """Creates a run that a process records; returns its id."""
    tags = {
        "mlflow.source.name": Path(sys.argv[0]).name,
        "mlflow.source.type": "LOCAL",
        **{key: str(params[key])[:5000] for key in TAGS if key in params},
        SANDBOX: applied(),
        store.WRITER_TAG: writer,
    }
    run = _created_once(client, experiment, name, tags, f"tags.`{store.WRITER_TAG}` = '{writer}'")
    log_params(client, run.info.run_id, {key: value for key, value in sorted(params.items()) if key not in TAGS})
    return str(run.info.run_id)


def run_name(event: IterationStarted) -> str:
    """A nested run's name, `03 HM`, `01 bootstrap`: the iteration, from 1, and its label without the cycle."""
    label = event.label.removesuffix(f"_{event.cycle}")
    return f"{event.index + 1:02d} {label}" if event.index >= 0 else label


def nested_runs(client: Any, experiment: str, run_id: str) -> dict[str, Run]:
    """The runs nested in a run, by name; of several with one name the first."""
    of_parent = f"tags.`mlflow.parentRunId` = '{run_id}'"
    runs = client.search_runs([experiment], of_parent, order_by=["attributes.start_time DESC"], max_results=10_000)
    return {str(run.info.run_name): run for run in runs}


def log_params(client: Any, run_id: str, params: Mapping[str, object]) -> None:
    """Logs params of a run, cut to the length that MLflow takes."""
    from mlflow.entities import Param

    client.log_batch(run_id, params=[Param(key, str(value)[:6000]) for key, value in params.items()])


def _recorded_points(client: Any, run_id: str) -> set[tuple[str, str, int]]:
    """The recorded points of a run's metrics: run id, name and step of each."""
    return {
        (run_id, name, point.step)
        for name in client.get_run(run_id).data.metrics
        for point in client.get_metric_history(run_id, name)
    }


def _created_once(client: Any, experiment: str, name: str, tags: Mapping[str, str], found_by: str) -> Run:
    """Creates a run that a search finds by its tags; the search's first run, should it have been created twice."""
    client.create_run(experiment, run_name=name, tags={"mlflow.user": _user(), **tags})
    runs = client.search_runs([experiment], found_by, order_by=["attributes.start_time ASC", "attributes.run_id ASC"])
    for twin in runs[1:]:
        client.delete_run(twin.info.run_id)
    first: Run = runs[0]
    return first


def _rounded(value: float) -> float:
    return value if float(value).is_integer() else float(f"{value:.{DIGITS}g}")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # as in a container whose user has no name
        return "unknown"
