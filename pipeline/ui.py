"""`python -m pipeline.ui`: the MLflow UI on the project's own store.

`mlflow ui` alone would open another store, look for prices and news on the network, and start workers that nothing here
needs; on a machine without network it hangs. This command gives it the right store and settings, waits until it
answers, and prints the address.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pipeline.base.errors import Exit, PipelineError, UsageError, start
from pipeline.base.paths import shown
from pipeline.cli.options import Parser, at_least
from pipeline.record import store

NAME = "pipeline.ui"
EPILOG = "Ctrl-C ends it. exit codes: 2 a bad option, a port in use or a server that does not start, 130 interrupted"
SETTINGS = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "PYTHONWARNINGS": "ignore",
}
LOOPBACK = ("127.0.0.1", "localhost")
START_SECONDS = 120


def make_parser() -> Parser:
    """The command's options."""
    parser = Parser(NAME, "Serves the record of the runs, and prints the address to open in a browser.", EPILOG)
    parser.add_argument("--port", type=at_least(1), metavar="N", default=5000, help="(default: %(default)s)")
    parser.add_argument(
        "--host",
        default=LOOPBACK[0],
        help="the address to listen on (default: %(default)s, this machine only). Whoever can reach another one,"
        " such as 0.0.0.0, can read and change the record",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Serves until interrupted."""
    args = make_parser().parse_args(argv)
    uri = store.store_uri()
    if not uri.startswith("sqlite:"):
        print(f"MLFLOW_TRACKING_URI is set: the record is kept, and shown, at {uri}")
        return Exit.OK
    _check_port(args.host, args.port)
    _, experiment = store.open_store()
    log = store.folder() / "ui.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            server_command(uri, args.host, args.port),
            env=os.environ | SETTINGS,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            _wait_until_up(server, args.host, args.port, log)
            address = f"http://{args.host}:{args.port}/#/experiments/{experiment}/runs"
            print(f"the record of the runs: {address}   (Ctrl-C ends it; log: {shown(log)})", flush=True)
            server.wait()
        finally:
            _stop(server)
    raise PipelineError(f"the MLflow server ended by itself; see {shown(log)}")


def server_command(uri: str, host: str, port: int) -> list[str]:
    """The command line of the server; the store is always named, as `mlflow ui` ignores MLFLOW_TRACKING_URI."""
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
            raise UsageError(
                f"can't listen on {host}:{port}: {reason}; another one: --port {port % 60000 + 1}"
            ) from None


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
    """Ends the server and the workers that it started."""
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
