"""Stores that need not survive a power failure: SQLite does not wait for the disk.

A run commits some hundred times, and a disk that others use takes milliseconds for each.
"""

import sqlite3
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from mlflow import MlflowClient
from mlflow.store.db import utils
from sqlalchemy import Engine, event


@cache
def use() -> None:
    """For all stores that this process opens from here on, and the processes that are forked from it."""
    event.listen(Engine, "connect", _without_waiting)
    # The same for every store; MLflow imports all its migrations to find it.
    utils._get_latest_schema_revision = cache(utils._get_latest_schema_revision)


@cache
def empty_store() -> bytes:
    """A database with MLflow's tables in it: making them takes a second, writing this none."""
    use()
    with tempfile.TemporaryDirectory() as folder:
        MlflowClient(tracking_uri=f"sqlite:///{folder}/mlflow.db").search_experiments()
        return Path(folder, "mlflow.db").read_bytes()


def _without_waiting(connection: object, _: object) -> None:
    if isinstance(connection, sqlite3.Connection):
        with suppress(sqlite3.OperationalError):  # another connection holds the file's lock
            connection.execute("PRAGMA synchronous = OFF").close()
