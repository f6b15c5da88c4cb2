"""The project's MLflow store: a SQLite file and artifacts below `mlruns/`, or the one that MLFLOW_TRACKING_URI names.

A run at work holds a lock on a folder of its own below `mlruns/running/`, where it also keeps what is not uploaded yet.
The system lets go of the lock when the process ends, however it ends; so a folder without a lock is that of a run that
was killed, or that could not write its record any longer. `open_store` marks such runs as failed and uploads what they
left; until that succeeds, the folder stays.
"""

from __future__ import annotations

import fcntl
import gzip
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.errors import RecordError, UsageError
from pipeline.paths import MLRUNS

if TYPE_CHECKING:
    from mlflow import MlflowClient

EXPERIMENT = "compile"
EXPERIMENT_TAGS = {
    "mlflow.experimentKind": "custom_model_development",  # the UI opens with runs and charts, not with traces
    "mlflow.note.content": "Agents that learn to write STeP programs. One run a compile, one nested an iteration.",
}
WAITS = (1.0, 5.0, 15.0)
"""Seconds before a call that the store did not answer is made again; MLflow's own patience comes on top."""
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


class Steady:
    """The client of a run at work: what the store does not take is tried again, and then told in one line.

    Raises:
        RecordError: by any call that failed again and again.
    """

    def __init__(self, client: MlflowClient) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        from mlflow.exceptions import MlflowException

        call = getattr(self._client, name)

        def steady(*args: Any, **kwargs: Any) -> Any:
            for wait in (*WAITS, None):
                try:
                    return call(*args, **kwargs)
                except (MlflowException, OSError) as error:
                    if wait is None:
                        raise RecordError(f"can't write the record of the run: {name}: {first_line(error)}") from error
                    time.sleep(wait)

        return steady


def first_line(error: Exception) -> str:
    """An error in one line."""
    return (str(error).strip() or type(error).__name__).partition("\n")[0]


@contextmanager
def run_at_work(run_id: str) -> Iterator[Path]:
    """The folder of a run at work, locked while the context lasts and removed at its end.

    After a `RecordError` it stays, for `open_store` to put on record what is in it.

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
        except RecordError:
            raise
        except BaseException:
            shutil.rmtree(own)
            raise
        shutil.rmtree(own)


def compress(path: Path, key: Callable[[Mapping[str, Any]], Any] | None = None) -> Path:
    """Replaces a file of attempts, one a line, by a compressed one, `NAME.gz`.

    A line that a killed process left half-written is dropped; of two attempts at one sample the later one stays.

    Args:
        path: of the file.
        key: by which the attempts are sorted; None: they stay in their order.
    """
    compressed, partial = path.with_name(f"{path.name}.gz"), path.with_name(f"{path.name}.gz.partial")
    starts: dict[tuple[Any, ...], tuple[Any, int]] = {}
    start = 0
    with path.open("rb") as lines:  # where each line begins is kept, the lines themselves are not
        for line in lines:
            if line.endswith(b"\n"):
                attempt = json.loads(line)
                sample = attempt["task"], attempt["temperature"], attempt["sample"]
                starts[sample] = (key(attempt) if key else 0, start)
            start += len(line)
        ordered = sorted(starts.values(), key=lambda found: found[0])
        with partial.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
            for _, start in ordered:
                lines.seek(start)
                packed.write(lines.readline())
    partial.replace(compressed)
    path.unlink()
    return compressed


def known_metrics(client: MlflowClient, run_id: str) -> set[tuple[str, str, int]]:
    """The points on record of a run's metrics: run, name and step of each."""
    return {
        (run_id, name, point.step)
        for name in client.get_run(run_id).data.metrics
        for point in client.get_metric_history(run_id, name)
    }


def nested_runs(client: MlflowClient, experiment: str, run_id: str) -> dict[str, str]:
    """The ids of the runs nested in a run, by name; of several of one name the first."""
    of_parent = f"tags.`mlflow.parentRunId` = '{run_id}'"
    runs = client.search_runs([experiment], of_parent, order_by=["attributes.start_time DESC"], max_results=10_000)
    return {str(run.info.run_name): run.info.run_id for run in runs}


def _mark_killed_runs(client: MlflowClient) -> None:
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
            if _is_known(client, left.name):
                _mark_killed(client, left)
            shutil.rmtree(left)


def _is_known(client: MlflowClient, run_id: str) -> bool:
    """Whether the store has such a run; a database that was removed has none of its runs."""
    from mlflow.exceptions import MlflowException

    try:
        client.get_run(run_id)
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return False
        raise
    return True


def _mark_killed(client: MlflowClient, left: Path) -> None:
    client.log_artifacts(left.name, str(left))
    info = client.get_run(left.name).info
    nested = f"tags.`mlflow.parentRunId` = '{left.name}' and attributes.status = 'RUNNING'"
    for run in client.search_runs([info.experiment_id], nested):
        client.set_terminated(run.info.run_id, "FAILED")
    if info.status == "RUNNING":  # else it died when all was done
        client.set_terminated(left.name, "FAILED")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
