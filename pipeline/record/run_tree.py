"""A run in MLflow and the runs nested in it, each created once.

A request to create a run may be repeated, by MLflow's HTTP client or by ours, although the server has answered the
first: its answer is lost if the server or the network fails then. Runs are therefore looked up after they were created;
the first of several stays, and the others are deleted.
"""

from __future__ import annotations

import getpass
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimizers import IterationStarted
from pipeline.record import ownership
from pipeline.verification.sandbox import applied

if TYPE_CHECKING:
    from mlflow.entities import Run

SANDBOX = "sandbox"
"""The tag that says what confines the code of a run's tasks on the machine that leads it."""
TAGS = ("command",)
"""Parameters that differ in every run: as tags they do not become axes of the UI's plots."""


def create_parent(client: Any, experiment: str, name: str, params: Mapping[str, object], owner: ownership.Owner) -> str:
    """Creates a run that a process owns; returns its id."""
    tags = {
        "mlflow.source.name": Path(sys.argv[0]).name,
        "mlflow.source.type": "LOCAL",
        **{key: str(params[key])[:5000] for key in TAGS if key in params},
        SANDBOX: applied(),
        **ownership.first_tags(owner),
    }
    run = _created_once(client, experiment, name, tags, f"tags.`{ownership.HEARTBEAT}` LIKE '{owner.id}%'")
    log_params(client, run.info.run_id, {key: value for key, value in sorted(params.items()) if key not in TAGS})
    return str(run.info.run_id)


class NestedRuns:
    """The nested runs of a run, by name; those of the process that was interrupted are used again."""

    def __init__(self, client: Any, experiment: str, parent: str) -> None:
        self._client, self._experiment, self._parent = client, experiment, parent
        self._known = nested_runs(client, experiment, parent)

    def start(self, event: IterationStarted) -> str:
        """Starts the nested run of an iteration; returns its id."""
        name = run_name(event)
        if run := self._known.get(name):
            self._client.update_run(run.info.run_id, status="RUNNING")
        else:
            of_parent = f"tags.`mlflow.parentRunId` = '{self._parent}' and attributes.run_name = '{name}'"
            run = _created_once(self._client, self._experiment, name, {"mlflow.parentRunId": self._parent}, of_parent)
        if not run.data.params:
            params = {
                "iteration": event.index + 1,
                "label": event.label,
                "cycle": event.cycle,
                "demonstrations": ", ".join(event.demos) or "none",
                "tasks": ", ".join(event.tasks),
            }
            log_params(self._client, run.info.run_id, params)
        return str(run.info.run_id)


def run_name(event: IterationStarted) -> str:
    """A nested run's name, `03 HM`, `01 bootstrap`: the iteration, from 1, and its label without the cycle."""
    label = event.label.removesuffix(f"_{event.cycle}")
    return f"{event.index + 1:02d} {label}" if event.index >= 0 else label


def recorded_points(client: Any, run_id: str) -> set[tuple[str, str, int]]:
    """The recorded points of a run's metrics: run id, name and step of each."""
    return {
        (run_id, name, point.step)
        for name in client.get_run(run_id).data.metrics
        for point in client.get_metric_history(run_id, name)
    }


def nested_runs(client: Any, experiment: str, run_id: str) -> dict[str, Run]:
    """The runs nested in a run, by name; of several with one name the first."""
    of_parent = f"tags.`mlflow.parentRunId` = '{run_id}'"
    runs = client.search_runs([experiment], of_parent, order_by=["attributes.start_time DESC"], max_results=10_000)
    return {str(run.info.run_name): run for run in runs}


def _created_once(client: Any, experiment: str, name: str, tags: Mapping[str, str], found_by: str) -> Run:
    """Creates a run that a search finds by its tags; the search's first run, should it have been created twice."""
    client.create_run(experiment, run_name=name, tags={"mlflow.user": _user(), **tags})
    runs = client.search_runs([experiment], found_by, order_by=["attributes.start_time ASC", "attributes.run_id ASC"])
    for twin in runs[1:]:
        client.delete_run(twin.info.run_id)
    first: Run = runs[0]
    return first


def log_params(client: Any, run_id: str, params: Mapping[str, object]) -> None:
    """Logs params of a run, cut to the length that MLflow takes."""
    from mlflow.entities import Param

    client.log_batch(run_id, params=[Param(key, str(value)[:6000]) for key, value in params.items()])


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # as in a container whose user has no name
        return "unknown"
