"""The project's MLflow store: a SQLite file and artifacts below `mlruns/`, or the one that MLFLOW_TRACKING_URI names.

A run at work holds a lock on a folder of its own in the store's `running/`, where it keeps what is not uploaded yet.
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
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.base.errors import RecordError, UsageError
from pipeline.base.paths import MLRUNS

if TYPE_CHECKING:
    from mlflow import MlflowClient

EXPERIMENT = "compile"
EXPERIMENT_TAGS = {
    "mlflow.experimentKind": "custom_model_development",  # the UI opens with runs and charts, not with traces
    "mlflow.note.content": "Agents that learn to write STeP programs. One run a compile, one nested an iteration.",
}
WAITS = (1.0, 5.0, 15.0)
"""Seconds before a call that the store did not answer is made again; MLflow's own patience comes on top."""
SETTINGS = {
    # MLflow looks prices up on the network through LiteLLM, and reports its use, unless told not to.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # where a command's JSON goes
    # A server that is away is told of after a minute; MLflow's own tries would make it an hour.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
}
"""MLflow's, where the environment does not say otherwise."""
ENDS = 120
"""Characters of a long error's beginning, and of its end, that a person is told."""
_LOCK = "lock"
_SQLITE = "sqlite:///"


def store_uri() -> str:
    """Where the record of the runs is kept."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{MLRUNS / 'mlflow.db'}"


def folder() -> Path:
    """The folder of the store: its SQLite file's, or one of the server's own in `mlruns/servers`."""
    uri = store_uri()
    if uri.startswith(_SQLITE):
        return _database(uri).parent
    return MLRUNS / "servers" / re.sub(r"[^\w.-]+", "-", _shown(uri).partition("://")[2]).strip("-")


def artifacts_uri() -> str:
    """Where a new experiment in a SQLite store keeps its artifacts."""
    return (folder() / "artifacts").as_uri()


def open_store() -> tuple[MlflowClient, str]:
    """A client of the store and the id of the experiment `compile` in it; both are made where they are missing.

    Raises:
        UsageError: the store can't be opened.
    """
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)  # it tells every error with its traceback
    uri = store_uri()
    try:
        folder().mkdir(parents=True, exist_ok=True)
        with _locked(folder() / "store.lock"):  # two first runs at once would both create the tables
            if uri.startswith(_SQLITE):
                _make_database(_database(uri))
            client = MlflowClient(tracking_uri=uri)
            experiment = client.get_experiment_by_name(EXPERIMENT)
            location = artifacts_uri() if uri.startswith(_SQLITE) else None
            if experiment:
                experiment_id = experiment.experiment_id
            else:
                experiment_id = client.create_experiment(EXPERIMENT, location, tags=EXPERIMENT_TAGS)
            _mark_killed_runs(client)
    except faults() as error:
        raise UsageError(f"can't open the record of the runs at {_shown(uri)}: {first_line(error)}") from None
    return client, experiment_id


def faults() -> tuple[type[Exception], ...]:
    """What a store raises that is away, busy, full or not to be written to."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    return MlflowException, SQLAlchemyError, OSError


class Steady:
    """The client of a run at work: what the store does not take is tried again, and then told in one line.

    After that, what else there is to be written is tried once: a store that is away keeps nobody waiting.

    Raises:
        RecordError: by any call that failed again and again.
    """

    def __init__(self, client: MlflowClient) -> None:
        self._client = client
        self._failed = False

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)

        def steady(*args: Any, **kwargs: Any) -> Any:
            for wait in (*(() if self._failed else WAITS), None):
                try:
                    return call(*args, **kwargs)
                except faults() as error:
                    if wait is None:
                        self._failed = True
                        raise RecordError(f"can't write the record of the run: {name}: {first_line(error)}") from error
                    time.sleep(wait)

        return steady


def first_line(error: Exception) -> str:
    """An error in one line, of a long one its beginning and its end."""
    line = (str(error).strip() or type(error).__name__).partition("\n")[0]
    return line if len(line) <= 2 * ENDS else f"{line[:ENDS]} … {line[-ENDS:]}"


@contextmanager
def run_at_work(run_id: str) -> Iterator[Path]:
    """The folder of a run at work, locked while the context lasts and removed at its end.

    After a `RecordError` it stays, for `open_store` to put on record what is in it.

    Raises:
        UsageError: the run is at work already, or the folder can't be made.
    """
    own, kept = folder() / "running" / run_id, False
    with ExitStack() as stack:
        try:
            with _locked(folder() / "store.lock"):  # nobody may find the folder before it is locked
                if own.exists():
                    raise UsageError(f"the run {run_id} is at work; wait for its end, or stop it first")
                own.mkdir(parents=True)
                stack.enter_context(_locked(own / _LOCK))
        except OSError as error:
            raise UsageError(f"can't keep a run's files in {own}: {first_line(error)}") from None
        try:
            yield own
        except RecordError:
            kept = True
            raise
        finally:
            if not kept:
                with _locked(folder() / "store.lock"):  # nor when its lock is gone and its files are not
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


def _shown(uri: str) -> str:
    """An address without the user and the password in it."""
    return re.sub(r"(?<=://)[^/@]*@", "", uri)


def _database(uri: str) -> Path:
    return Path(uri.removeprefix(_SQLITE).partition("?")[0]).absolute()


def _make_database(path: Path) -> None:
    """A SQLite file with MLflow's tables, all of them at once: one left half-made could never be opened."""
    from mlflow import MlflowClient

    if path.is_file() and path.stat().st_size:
        return
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}.partial")  # MLflow knows by name which it has made
    try:
        MlflowClient(tracking_uri=f"{_SQLITE}{partial}")
        partial.replace(path)
    finally:
        for left in path.parent.glob(f"{path.name}.*.partial*"):  # a killed process's, too, with SQLite's own beside it
            left.unlink()


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
