"""The project's MLflow store: a SQLite file and artifacts below `mlruns/`, or the one that MLFLOW_TRACKING_URI names.

A run at work holds a lock on a folder of its own below `mlruns/running/`, where it also keeps what is not uploaded yet.
The system lets go of the lock when the process ends, however it ends; so a folder without a lock is that of a run that
was killed. `open_store` marks such runs as failed and uploads what they left.
"""

from __future__ import annotations

import fcntl
import gzip
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.errors import UsageError
from pipeline.paths import MLRUNS

if TYPE_CHECKING:
    from mlflow import MlflowClient

EXPERIMENT = "compile"
EXPERIMENT_TAGS = {
    "mlflow.experimentKind": "custom_model_development",  # the UI opens with runs and charts, not with traces
    "mlflow.note.content": "Agents that learn to write STeP programs. One run a compile, one nested an iteration.",
}
_LOCK = "lock"


def store_uri() -> str:
    """Where the record of the runs is kept."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{MLRUNS / 'mlflow.db'}"


def folder() -> Path:
    """The folder of the store: its SQLite file's, or `mlruns/` where a server keeps the record."""
    uri = store_uri()
    return Path(uri.removeprefix("sqlite:///")).absolute().parent if uri.startswith("sqlite:") else MLRUNS


def artifacts_uri() -> str:
    """Where a new experiment in a SQLite store keeps its artifacts."""
    return (folder() / "artifacts").as_uri()


def open_store() -> tuple[MlflowClient, str]:
    """A client of the store and the id of the experiment `compile` in it; both are made where they are missing.

    Raises:
        UsageError: the store can't be opened.
    """
    # MLflow looks prices up on the network through LiteLLM, and reports its use, unless told not to.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    logging.getLogger("mlflow").setLevel(logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    uri = store_uri()
    try:
        folder().mkdir(parents=True, exist_ok=True)
        with _locked(folder() / "store.lock"):  # two first runs at once would both create the tables
            client = MlflowClient(tracking_uri=uri)
            experiment = client.get_experiment_by_name(EXPERIMENT)
            location = artifacts_uri() if uri.startswith("sqlite:") else None
            if experiment:
                experiment_id = experiment.experiment_id
            else:
                experiment_id = client.create_experiment(EXPERIMENT, location, tags=EXPERIMENT_TAGS)
            _mark_killed_runs(client)
    except (MlflowException, OSError) as error:
        raise UsageError(f"can't open the record of the runs at {uri}: {error}") from None
    return client, experiment_id


@contextmanager
def run_at_work(run_id: str) -> Iterator[Path]:
    """The folder of a run at work, locked while the context lasts and removed at its end.

    Raises:
        UsageError: the run is at work already.
    """
    own = folder() / "running" / run_id
    with ExitStack() as stack:
        with _locked(folder() / "store.lock"):  # nobody may find the folder before it is locked
            if own.exists():
                raise UsageError(f"the run {run_id} is at work; wait for its end, or stop it first")
            own.mkdir(parents=True)
            stack.enter_context(_locked(own / _LOCK))
        try:
            yield own
        finally:
            shutil.rmtree(own)


def compress(path: Path, key: Callable[[str], Any] | None = None) -> Path:
    """Replaces a file of attempts, one a line, by a compressed one, `NAME.gz`.

    A line that a killed process left half-written is dropped; of two attempts at one sample the later one stays.

    Args:
        path: of the file.
        key: by which the lines are sorted; None: they stay in their order.
    """
    complete = path.read_bytes().rpartition(b"\n")[0].decode().splitlines()
    attempts = ((json.loads(line), line) for line in complete)
    lines = list({(a["task"], a["temperature"], a["sample"]): line for a, line in attempts}.values())
    compressed = path.with_name(f"{path.name}.gz")
    data = "".join(f"{line}\n" for line in (sorted(lines, key=key) if key else lines)).encode()
    compressed.write_bytes(gzip.compress(data, mtime=0))
    path.unlink()
    return compressed


def known_metrics(client: MlflowClient, run_id: str) -> dict[tuple[str, int], dict[str, float]]:
    """The metrics on record of a run, by run and step."""
    known: dict[tuple[str, int], dict[str, float]] = {}
    for name in client.get_run(run_id).data.metrics:
        for point in client.get_metric_history(run_id, name):
            known.setdefault((run_id, point.step), {})[name] = point.value
    return known


def nested_runs(client: MlflowClient, experiment: str, run_id: str) -> dict[str, str]:
    """The ids of the runs nested in a run, by name; of several of one name the first."""
    of_parent = f"tags.`mlflow.parentRunId` = '{run_id}'"
    runs = client.search_runs([experiment], of_parent, order_by=["attributes.start_time DESC"], max_results=10_000)
    return {str(run.info.run_name): run.info.run_id for run in runs}


def _mark_killed_runs(client: MlflowClient) -> None:
    from mlflow.exceptions import MlflowException

    for left in sorted((folder() / "running").glob("*/")):
        with (left / _LOCK).open("a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            (left / _LOCK).unlink()
            for path in left.rglob("*.partial"):
                path.unlink()
            for path in left.rglob("*.jsonl"):
                compress(path)
            with suppress(MlflowException):  # a database that was removed knows no such run
                client.log_artifacts(left.name, str(left))
                nested = f"tags.`mlflow.parentRunId` = '{left.name}' and attributes.status = 'RUNNING'"
                for run in client.search_runs([client.get_run(left.name).info.experiment_id], nested):
                    client.set_terminated(run.info.run_id, "FAILED")
                if client.get_run(left.name).info.status == "RUNNING":  # else it died when all was done
                    client.set_terminated(left.name, "FAILED")
            shutil.rmtree(left)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
