"""`python -m pipeline.ui`: the MLflow UI on the project's own store.

`mlflow ui` itself would open another store, access the network for prices and news, and start workers that are not
needed here; without a network it hangs. This command passes the right store and settings, and prints the address.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence

from pipeline.base.errors import Exit, PipelineError, UsageError, start
from pipeline.base.settings import Config, Count, option
from pipeline.base.text import without_secrets
from pipeline.cli.options import Parser
from pipeline.record import experiment_view, store

NAME = "pipeline.ui"
EPILOG = "Ctrl-C stops it. exit codes: 2 a bad option, a port in use or a server that stops, 130 interrupted"
SETTINGS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "PYTHONWARNINGS": "ignore",
}
HOST = "127.0.0.1"
"""This machine only: who can reach the server can read and change the record."""


class UIOptions(Config):
    """Where the server listens."""

    port: Count = option(5000, "the port to listen on", "N")


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until interrupted."""
    description = "Serves the record of the runs, and prints the address to open in a browser."
    options = UIOptions.of(Parser(NAME, description, EPILOG, UIOptions).given(argv))
    uri = store.store_uri()
    if not uri.startswith("sqlite:"):
        _, experiment = store.open_store()
        address = experiment_view.address(without_secrets(uri).rstrip("/"), experiment)
        print(f"the record of the runs is on a server: {address}")
        return Exit.OK
    _check_port(options.port)
    _, experiment = store.open_store()
    address = experiment_view.address(f"http://{HOST}:{options.port}", experiment)
    print(f"the record of the runs: {address}   (Ctrl-C stops it)", flush=True)
    command = server_command(uri, options.port)
    server = subprocess.Popen(command, env=os.environ | SETTINGS, start_new_session=True)
    try:
        server.wait()
    finally:
        _stop(server)
    raise PipelineError("the MLflow server stopped")


def server_command(uri: str, port: int) -> list[str]:
    """The command line of the server; the store is always an argument, as `mlflow ui` ignores MLFLOW_TRACKING_URI."""
    command = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", uri, "--host", HOST, "--port", str(port)]
    return [*command, "--default-artifact-root", store.artifacts_uri(), "--workers", "1"]


def _check_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else "no such port"
            raise UsageError(f"can't listen on port {port}: {reason}; try --port {port % 60000 + 1}") from None


def _stop(server: subprocess.Popen[bytes]) -> None:
    """Stops the server and the workers that it started."""
    if server.poll() is not None:
        return
    os.killpg(server.pid, signal.SIGTERM)
    try:
        server.wait(timeout=5)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


if __name__ == "__main__":
    start(NAME, main)
