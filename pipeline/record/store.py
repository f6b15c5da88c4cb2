"""The project's MLflow store: a SQLite file and artifacts below `mlruns/`, or the one that MLFLOW_TRACKING_URI names.

While a run is running, it locks its own folder in the store's `running/`, which has the files that are not
uploaded yet. The system releases the lock when the process ends in any way. A folder without a lock therefore
belongs to a run that was killed or could no longer write its record. `open_store` marks such runs as failed and uploads
their files; until that succeeds, the folder stays. If a process of another machine records the run meanwhile, the run's
tag names that process, and the files are set aside.
"""

from __future__ import annotations

import gzip
import logging
import os
import re
import shutil
import socket
import time
import uuid
import warnings
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.base.errors import RecordError, RunLive, RunLost, UsageError
from pipeline.base.files import MLRUNS, shown
from pipeline.base.text import first_line, redacted, redacted_value, visible, without_secrets
from pipeline.record import experiment_view
from pipeline.record.artifacts import own_place, own_run

if TYPE_CHECKING:
    from filelock import FileLock
    from mlflow import MlflowClient

EXPERIMENT = "compile"
EXPERIMENT_TAGS = {
    "mlflow.experimentKind": "custom_model_development",  # the UI opens with runs and charts, not with traces
    "mlflow.note.content": (
        "Agents that learn to write STeP programs. Each `pipeline.compile` is one run; its nested runs are its"
        " iterations. For the columns solved, pass@1, tokens and dollars, open the address that `python -m pipeline.ui`"
        f" prints, which ends in `?viewStateShareKey={experiment_view.KEY}`."
    ),
    experiment_view.TAG: experiment_view.VIEW,
}
RETRY_SECONDS = (1.0, 5.0, 15.0, 30.0, 60.0)
"""Seconds before each retry of a call that failed; MLflow's own retries come on top."""
SETTINGS = {
    # By default MLflow looks prices up on the network through LiteLLM, and reports its use.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # where a command's JSON goes
    # The threads that log traces look for their end once a second, and each run would wait for it twice.
    "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false",
    # An unreachable server is reported after a minute; with MLflow's defaults it would take an hour.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
}
"""MLflow's settings, where the environment does not set them."""
LASTING = ("BAD_REQUEST", "INVALID_PARAMETER_VALUE", "RESOURCE_ALREADY_EXISTS", "RESOURCE_DOES_NOT_EXIST")
"""MLflow's codes of errors that no retry changes."""
WRITER_TAG = "recorded_by"
"""The tag that names the process which records a run."""
WRITER = ".recorded_by"
"""The file in a run's folder that has this name, too. What is hidden is not copied to MLflow."""
UNREADABLE = (
    ValueError, KeyError, TypeError, RecursionError, EOFError, zlib.error, gzip.BadGzipFile, IsADirectoryError,
)  # fmt: skip
"""What is raised by files that no run has written."""
_LOCK = ".lock"
_LONGEST = 300
"""Characters of a process's description that a message shows."""
_SQLITE = "sqlite:///"


def store_uri() -> str:
    """The tracking URI of the store."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{MLRUNS / 'mlflow.db'}"


def checked_uri(text: str) -> str:
    """A tracking URI that can be used.

    Raises:
        ValueError: It is not the address of a server or of a SQLite file.
    """
    if not text.startswith(("http://", "https://", _SQLITE)):
        hint = "; start `mlflow server` on the database" if re.match(r"(postgres|mysql|mssql)", text) else ""
        raise ValueError(f"expected http://…, https://… or sqlite:///…, got {without_secrets(text)!r}{hint}")
    return text


def folder() -> Path:
    """The local folder of the store: that of its SQLite file, or the server's own one in `mlruns/servers`."""
    uri = store_uri()
    if uri.startswith(_SQLITE):
        return _database(uri).parent
    return MLRUNS / "servers" / re.sub(r"[^\w.-]+", "-", without_secrets(uri).partition("://")[2]).strip("-")


def artifacts_uri() -> str:
    """Where a new experiment in a SQLite store keeps its artifacts."""
    return (folder() / "artifacts").as_uri()


def open_store() -> tuple[MlflowClient, str]:
    """A client of the store and the id of its experiment `compile`; both are created if missing.

    Raises:
        UsageError: The store cannot be opened.
    """
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    from mlflow import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)  # it logs every error with its traceback
    uri = store_uri()
    try:
        checked_uri(uri)
    except ValueError as error:
        raise UsageError(f"MLFLOW_TRACKING_URI: {error}") from None
    try:
        folder().mkdir(parents=True, exist_ok=True)
        with store_lock():  # two first runs at the same time would both create the tables
            if uri.startswith(_SQLITE):
                _make_database(_database(uri))
            client = MlflowClient(tracking_uri=uri)
            experiment_id = _experiment(client)
            _mark_killed_runs(client)
    except faults() as error:
        raise UsageError(f"cannot open the record of the runs at {without_secrets(uri)}: {first_line(error)}") from None
    return client, experiment_id


def _experiment(client: MlflowClient) -> str:
    """The id of the experiment; it is created if there is none."""
    from mlflow.exceptions import MlflowException

    location = artifacts_uri() if store_uri().startswith(_SQLITE) else None
    if not (experiment := client.get_experiment_by_name(EXPERIMENT)):
        try:
            return client.create_experiment(EXPERIMENT, location, tags=EXPERIMENT_TAGS)
        except MlflowException:  # another machine may have created it
            if not (experiment := client.get_experiment_by_name(EXPERIMENT)):
                raise
    own_place(store_uri(), experiment.artifact_location)
    # It may be of an earlier version; a person may have edited its description.
    if experiment.tags.get(experiment_view.TAG) != experiment_view.VIEW:
        client.set_experiment_tag(experiment.experiment_id, experiment_view.TAG, experiment_view.VIEW)
    return str(experiment.experiment_id)


def faults() -> tuple[type[Exception], ...]:
    """The exceptions of a store that is unreachable, busy, full or read-only."""
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    return MlflowException, SQLAlchemyError, OSError


class RetryingClient:
    """An MLflow client that retries a failed call, then reports the failure in one line.

    After such a failure every further call is tried only once, so that an unreachable store causes no further delays.

    Raises:
        RecordError: By any method, if all retries of the call fail.
    """

    def __init__(self, client: MlflowClient) -> None:
        self._client = client
        self._failed = False

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)

        def retrying(*args: Any, **kwargs: Any) -> Any:
            args, kwargs = _redacted(args), _redacted(kwargs)
            for wait in (*(() if self._failed else RETRY_SECONDS), None):
                try:
                    return call(*args, **kwargs)
                except faults() as error:
                    lasting = getattr(error, "error_code", None) in LASTING
                    if wait is None or lasting:
                        self._failed = not lasting
                        raise RecordError(f"cannot write the record of the run: {name}: {first_line(error)}") from error
                    time.sleep(wait)

        return retrying


def _redacted(value: Any) -> Any:
    """What a call of the client is handed, without secrets; paths of files stay."""
    from mlflow.entities import Metric, Param, RunTag

    if isinstance(value, Param | RunTag):
        return type(value)(value.key, redacted(str(value.value)))
    if isinstance(value, list | tuple):
        return type(value)(_redacted(item) for item in value)
    if isinstance(value, dict):
        return {key: _redacted(item) for key, item in value.items()}
    return value if isinstance(value, Metric) else redacted_value(value)


@contextmanager
def locked_run_folder(run_id: str) -> Iterator[Path]:
    """The folder of a running run, locked within the context and removed at its end.

    After a `RecordError` it stays, so that `open_store` uploads its files. If the run is lost to another process, the
    files are set aside: what they have besides the record is not part of the run.

    Raises:
        RunLive: The run is running already.
        UsageError: The folder cannot be created.
    """
    from filelock import FileLock

    own, kept = folder() / "running" / run_id, False
    with ExitStack() as stack:
        try:
            with store_lock():  # no other process may find the folder before it is locked
                if own.exists():
                    raise RunLive(f"run {run_id} is still running; wait for it to finish or stop it")
                own.mkdir(parents=True)
                stack.enter_context(FileLock(own / _LOCK, timeout=0))
        except OSError as error:
            raise UsageError(f"cannot write the run's files to {own}: {first_line(error)}") from None
        try:
            yield own
        except RunLost as error:
            kept = True
            with store_lock():
                aside = _set_aside(own, "superseded")
            raise RunLost(f"{error}; its latest answers are in {shown(aside)}") from None
        except RecordError:
            kept = True
            raise
        finally:
            if not kept:
                with store_lock():  # nor while its files are being removed
                    shutil.rmtree(own)


def store_lock() -> FileLock:
    """The lock of the store on this machine, for what takes a moment."""
    from filelock import FileLock

    return FileLock(folder() / "store.lock")


def _database(uri: str) -> Path:
    return Path(uri.removeprefix(_SQLITE).partition("?")[0]).absolute()


def _make_database(path: Path) -> None:
    """Creates a SQLite file with all of MLflow's tables at once: a partial one could never be opened."""
    from mlflow import MlflowClient

    if path.is_file() and path.stat().st_size:
        return
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex}.partial")  # MLflow remembers by name which it has created
    try:
        MlflowClient(tracking_uri=f"{_SQLITE}{partial}")
        partial.replace(path)
    finally:
        for left in path.parent.glob(f"{path.name}.*.partial*"):  # also a killed process's, with SQLite's own files
            left.unlink()


def _mark_killed_runs(client: MlflowClient) -> None:
    for left in sorted((folder() / "running").glob("*/")):
        if left.is_symlink() or not left.is_dir() or not _is_dead(left):
            continue
        try:
            _pack(left)
            known = _is_known(client, left.name)
            if known:
                own_run(client, left.name)
        except (*UNREADABLE, UsageError) as error:
            aside = _set_aside(left, "unreadable")
            message = f"the files of a killed run cannot be recorded, and were moved to {aside}: {first_line(error)}"
            warnings.warn(message, stacklevel=2)
            continue
        if known and not _mark_killed(client, left):
            aside = _set_aside(left, "superseded")
            message = f"run {left.name[:8]}, which was killed here, was taken over; its files were moved to {aside}"
            warnings.warn(message, stacklevel=2)
            continue
        shutil.rmtree(left)


def _is_dead(left: Path) -> bool:
    """Whether nobody holds the lock of a run's folder, which then is removed; a link or a folder is no lock."""
    from filelock import FileLock, Timeout

    lock = left / _LOCK
    if lock.is_symlink() or lock.is_dir():
        return False
    try:
        with FileLock(lock, timeout=0):
            lock.unlink()
    except Timeout:
        return False
    return True


def _pack(left: Path) -> None:
    """Makes what a run left ready to be uploaded: whole, and without links, which are none of ours."""
    from pipeline.record import attempts  # here, as it imports DSPy and `--help` has to be fast

    for path in sorted(left.rglob("*")):
        if path.is_symlink() or (path.name.endswith(".partial") and path.is_file()):
            path.unlink()
    for own in sorted({path.parent for path in left.rglob(f"{attempts.GROWING}*")}):
        attempts.pack(own)
        for _ in attempts.read_iteration(own):  # to its end, where it is damaged
            pass


def _set_aside(left: Path, place: str) -> Path:
    aside = folder() / place
    aside.mkdir(exist_ok=True)
    return left.rename(aside / f"{left.name}-{uuid.uuid4().hex[:8]}")


def _is_known(client: MlflowClient, run_id: str) -> bool:
    """Whether the store has such a run; the database may have been removed since."""
    from mlflow.exceptions import MlflowException

    try:
        client.get_run(run_id)
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return False
        raise
    return True


def _mark_killed(client: MlflowClient, left: Path) -> bool:
    """Uploads the files of a killed run, and marks it; False if another process records the run meanwhile."""
    run = client.get_run(left.name)
    run_id, info, writer = left.name, run.info, left / WRITER
    if writer.is_file():
        if writer.read_text(encoding="utf-8") != run.data.tags.get(WRITER_TAG):
            return False
        writer.unlink()
    client.log_artifacts(run_id, str(left))
    nested = f"tags.`mlflow.parentRunId` = '{run_id}' and attributes.status = 'RUNNING'"
    for each in client.search_runs([info.experiment_id], nested):
        client.set_terminated(each.info.run_id, "FAILED")
    if info.status == "RUNNING":  # else it was killed when all was done
        client.set_terminated(run_id, "FAILED")
    return True


def writer_of(client: Any, run_id: str) -> str:
    """The process that records a run, in words that anybody may have written; empty for none."""
    return visible(str(client.get_run(run_id).data.tags.get(WRITER_TAG, "")), line=True)[:_LONGEST]


def claim(client: Any, run_id: str, force: bool) -> str:
    """Makes this process the one that records a run; returns its name in words.

    Raises:
        RunLive: The run is still running, and this is no takeover by `force`.
    """
    if client.get_run(run_id).info.status == "RUNNING" and not force:
        other = writer_of(client, run_id) or "another process"
        hint = "wait for it to finish or stop it; --force takes over the run of a machine that is gone"
        raise RunLive(f"run {run_id[:8]} is still running: {other}; {hint}")
    writer = this_process()
    client.set_tag(run_id, WRITER_TAG, writer)
    return writer


def this_process() -> str:
    """This process and now: words for people, which no other process has."""
    return f"process {os.getpid()} on {socket.gethostname()}, since {datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f} UTC"
