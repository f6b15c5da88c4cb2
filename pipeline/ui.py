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
from pipeline.cli.options import Parser, TrackingURI
from pipeline.record import experiment_view, store

NAME = "pipeline.ui"
EPILOG = "Ctrl-C stops it. exit codes: 2 a bad option, a port in use or a server that does not start, 130 interrupted"
SETTINGS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "PYTHONWARNINGS": "ignore",
}
LOOPBACK = ("127.0.0.1", "localhost")
START_SECONDS = 120


class UIOptions(Config):
    """Where the server listens."""

    port: Count = option(5000, "the port to listen on", "N")
    host: str = option(
        LOOPBACK[0],
        "the address to listen on; anyone who can reach an address such as 0.0.0.0 can read and change the record"
        " (default: 127.0.0.1, this machine only)",
    )
    tracking_uri: TrackingURI = None


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
    _check_port(options.host, options.port)
    _, experiment = store.open_store()
    log = store.folder() / "ui.log"
    log.unlink(missing_ok=True)
    with open_new(log) as output:
        server = subprocess.Popen(
            server_command(uri, options.host, options.port),
            env=os.environ | SETTINGS,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _wait_until_up(server, options.host, options.port, log)
            address = experiment_view.address(f"http://{options.host}:{options.port}", experiment)
            print(f"the record of the runs: {address}   (Ctrl-C stops it; log: {shown(log)})", flush=True)
            server.wait()
        finally:
            _stop(server)
    raise PipelineError(f"the MLflow server stopped; see {shown(log)}")


def server_command(uri: str, host: str, port: int) -> list[str]:
    """The command line of the server; the store is always an argument, as `mlflow ui` ignores MLFLOW_TRACKING_URI."""
    command = [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", uri, "--host", host, "--port", str(port)]
    command += ["--default-artifact-root", store.artifacts_uri(), "--workers", "1"]
    return command if host in LOOPBACK else [*command, "--allowed-hosts", "*"]


def _check_port(host: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else "no such port"
            raise UsageError(f"can't listen on {host}:{port}: {reason}; try --port {port % 60000 + 1}") from None


def _wait_until_up(server: subprocess.Popen[bytes], host: str, port: int, log: Path) -> None:
    reachable = LOOPBACK[0] if host == "0.0.0.0" else host
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise PipelineError(f"the MLflow server did not start; see {shown(log)}")
        with socket.socket() as probe:
            if probe.connect_ex((reachable, port)) == 0:
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
