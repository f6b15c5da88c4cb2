"""`pipeline.ui` holds these:

- the server that it starts shows the project's own store, whatever the environment says to `mlflow ui`;
- it prints the address, and leaves no process behind when it is interrupted;
- a port in use is reported in one line.
"""

import random
import signal
import socket
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline import ui
from pipeline.base.errors import UsageError
from tests.support.forked import Forked


def free_port() -> int:
    """None of those that systems hand out to connections, which may come before the server does."""
    for port in random.SystemRandom().sample(range(20_000, 30_000), 100):
        if not answers(port):
            return port
    raise AssertionError("no port is free")


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_the_store_is_named_on_the_command_line() -> None:
    """`mlflow ui` ignores MLFLOW_TRACKING_URI, so the store has to be an argument."""
    command = ui.server_command("sqlite:////x/mlflow.db", 5001)
    assert command[command.index("--backend-store-uri") + 1] == "sqlite:////x/mlflow.db"


def test_a_port_that_cannot_be_had_is_reported_in_a_line() -> None:
    """The message names the address and how to choose another one; ports end at 65535."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"can't listen on port {port}: Address already in use.*--port \d+"):
            ui.main(["--port", str(port)])

    with pytest.raises(UsageError, match="no such port"):
        ui.main(["--port", "70000"])


def test_a_remote_store_needs_no_server_of_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a server as the store, the command prints the address of the runs there, without its password."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@tracking.example:5000/")
    monkeypatch.setattr("pipeline.record.store.open_store", lambda: (None, "7"))
    assert ui.main([]) == 0
    assert capsys.readouterr().out == (
        "the record of the runs is on a server:"
        " http://tracking.example:5000/#/experiments/7/runs?viewStateShareKey=adaptive-step\n"
    )


@pytest.mark.parametrize("uri", ["postgresql://me:secret@db/mlflow", "server:5000"])
def test_only_a_server_or_a_sqlite_file_is_a_store(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database alone would leave the artifacts on this machine; the message has no password."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    message = r"MLFLOW_TRACKING_URI: expected http://…, https://… or sqlite:///…, got "
    with pytest.raises(UsageError, match=message) as caught:
        ui.main([])
    assert "secret" not in str(caught.value)
    assert ("start `mlflow server` on the database" in str(caught.value)) == uri.startswith("postgresql")


def test_it_serves_until_interrupted_and_leaves_nothing_behind(store_folder: Path) -> None:
    """Address printed, page served, exit code 130, port free again."""
    port = free_port()
    with Forked("-m", "pipeline.ui", "--port", str(port)) as command:
        assert f"http://127.0.0.1:{port}" in command.stdout.readline()
        until(lambda: answers(port))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=300) as answer:
            assert answer.read() == b"OK"
        command.send_signal(signal.SIGINT)
        assert command.wait() == 130
    until(lambda: not answers(port))
