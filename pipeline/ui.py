"""`python -m pipeline.ui`: the MLflow UI on the project's own store.

`mlflow ui` itself would open another store, access the network for prices and news, and start workers that are not
needed here; without a network it hangs. This command passes the right store and settings, waits until the server
answers, and prints the address.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pipeline.base.errors import Exit, PipelineError, UsageError, start
from pipeline.base.files import open_new
from pipeline.base.paths import shown
from pipeline.base.redaction import without_secrets
from pipeline.base.settings import Config, Count, option
from pipeline.cli.options import Parser
from pipeline.record import experiment_view, store

NAME = "pipeline.ui"
EPILOG = "Ctrl-C stops it. exit codes: 2 a bad option, a port in use or a server that does not start, 130 interrupted"
SETTINGS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "PYTHONWARNINGS": "ignore",
}
HOST = "127.0.0.1"
"""This machine only: who can reach the server can read and change the record."""
START_SECONDS = 120


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
    log = store.folder() / "ui.log"
    log.unlink(missing_ok=True)
    with open_new(log) as output:
        server = subprocess.Popen(
            server_command(uri, options.port),
            env=os.environ | SETTINGS,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _wait_until_up(server, options.port, log)
            address = experiment_view.address(f"http://{HOST}:{options.port}", experiment)
            print(f"the record of the runs: {address}   (Ctrl-C stops it; log: {shown(log)})", flush=True)
            server.wait()
        finally:
            _stop(server)
    raise PipelineError(f"the MLflow server stopped; see {shown(log)}")


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


def _wait_until_up(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise PipelineError(f"the MLflow server did not start; see {shown(log)}")
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) == 0:
                return
        time.sleep(0.2)
    raise PipelineError(f"the MLflow server does not answer after {START_SECONDS} s; see {shown(log)}")


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
