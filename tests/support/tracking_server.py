"""MLflow's tracking server on a SQLite file, in a process of its own."""

import shutil
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.forked import Forked

SERVER = """
    from wsgiref.simple_server import make_server
    import sys
    from mlflow.server import app
    sys.stderr = open("/dev/null", "w")
    server = make_server("127.0.0.1", 0, app)
    print(server.server_port, flush=True)
    server.serve_forever()
"""


@contextmanager
def tracking_server(folder: Path, empty_store: Path) -> Iterator[int]:
    """Serves a copy of a database, and keeps the artifacts in the same folder; gives the port."""
    shutil.copy(empty_store, folder)
    settings = {
        "_MLFLOW_SERVER_FILE_STORE": f"sqlite:///{folder}/mlflow.db",
        "_MLFLOW_SERVER_ARTIFACT_ROOT": "mlflow-artifacts:/",
        "_MLFLOW_SERVER_ARTIFACT_DESTINATION": str(folder / "artifacts"),
        "_MLFLOW_SERVER_SERVE_ARTIFACTS": "true",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        process = Forked("-c", textwrap.dedent(SERVER))
    with process:
        yield int(process.stdout.readline())
