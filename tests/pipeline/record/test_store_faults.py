"""A store that fails in mid-run, a SQLite file that somebody locks or a tracking server that is away, holds these.

- A short while is waited for: nobody notices, and all is on record.
- A longer one ends the run with one line, which says where the answers are and how to resume.
- While it lasts, a command that opens the store says so in one line; after it, resuming repeats no request.
"""

import itertools
import json
import socket
import socketserver
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Protocol

import pytest
from dspy import lm15
from sqlalchemy import Engine, event

from pipeline import compile as command
from pipeline.base.errors import run_command
from pipeline.record import store
from pipeline.record.attempts import read_attempts
from tests.support import answering_lm as answering
from tests.support.answering_lm import shared_tasks
from tests.support.tracking_server import tracking_server

pytestmark = pytest.mark.usefixtures("unrendered")

OPTIONS = ("--optimizer", "adaptive", "--samples", "6", "--temperatures", "1.0,0.4", "--threads", "3", "--json")
ONE_ITERATION = 3 * 6 * 2
"""Answers to three tasks at two temperatures."""


class Outage(Protocol):
    """What happens to a store."""

    def begin(self) -> None: ...

    def end(self) -> None: ...


class Lock:
    """Another connection writes to a SQLite file, and keeps the others waiting."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)

    def begin(self) -> None:
        self._connection.execute("BEGIN EXCLUSIVE")

    def end(self) -> None:
        self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()


class Gate(socketserver.ThreadingTCPServer):
    """Stands before a server, which is away to whoever comes while it is shut."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), Visit)
        self.behind = "127.0.0.1", port
        self.shut = False

    def begin(self) -> None:
        self.shut = True

    def end(self) -> None:
        self.shut = False


class Visit(socketserver.BaseRequestHandler):
    """One connection through the gate; closing it is noticed with the next request, which then gets no answer."""

    server: Gate

    def handle(self) -> None:
        with socket.create_connection(self.server.behind) as behind:
            answers = threading.Thread(target=pump, args=(behind, self.request, lambda: True))
            answers.start()
            pump(self.request, behind, lambda: not self.server.shut)
            behind.shutdown(socket.SHUT_RDWR)
            answers.join()


def pump(source: socket.socket, sink: socket.socket, is_open: Callable[[], bool]) -> None:
    """Passes on what comes."""
    while (data := source.recv(2**16)) and is_open():
        sink.sendall(data)


class Breaking(answering.Engine):
    """Its n-th answer, counted from 1, finds the store failing."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []
        self.breaks: Callable[[], None] = lambda: None
        self.at = 0
        self._turns = itertools.count(1)

    def complete(self, request: lm15.Request) -> lm15.Response:
        self.asked.append(request.config.seed or 0)
        if next(self._turns) == self.at:
            self.breaks()
        return super().complete(request)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Breaking:
    engine = Breaking()
    answering.use(engine, monkeypatch)
    return engine


@contextmanager
def locked_file(path: Path) -> Iterator[tuple[str, Outage]]:
    """A SQLite store that waits a moment for a lock, where MLflow's waits for 20 seconds in every session."""

    def impatient(_: object, __: object, statement: str, parameters: object, *___: object) -> tuple[str, object]:
        return statement.replace("busy_timeout = 20000", "busy_timeout = 50"), parameters

    lock = Lock(path)
    event.listen(Engine, "before_cursor_execute", impatient, retval=True)
    yield f"sqlite:///{path}?timeout=0.05", lock
    event.remove(Engine, "before_cursor_execute", impatient)
    lock.close()


@pytest.fixture(scope="module")
def server(empty_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of MLflow's tracking server, the artifacts in its care, in a process of its own."""
    with tracking_server(tmp_path_factory.mktemp("server"), empty_store) as port:
        yield port


@contextmanager
def shut_gate(port: int) -> Iterator[tuple[str, Outage]]:
    """A tracking server that can be away."""
    with Gate(port) as gate:
        threading.Thread(target=gate.serve_forever).start()
        yield f"http://127.0.0.1:{gate.server_address[1]}", gate
        gate.shutdown()


@pytest.fixture(params=["locked file", "server away"])
def outage(
    request: pytest.FixtureRequest, store_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Outage]:
    """Of the store that MLFLOW_TRACKING_URI names, for which MLflow itself has no patience."""
    monkeypatch.setattr(store, "MLRUNS", tmp_path / "of servers")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    locked = request.param == "locked file"
    with locked_file(store_folder / "mlflow.db") if locked else shut_gate(request.getfixturevalue("server")) as made:
        uri, outage = made
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        yield outage


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """What happens while a run waits for its store: a call a wait, no time, and nothing after the last."""
    happens: list[Callable[[], None]] = []
    monkeypatch.setattr(store, "time", SimpleNamespace(sleep=lambda seconds: happens.pop(0)() if happens else None))
    return happens


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    """The exit code, stdout and stderr of a compile."""
    capsys.readouterr()
    code = run_command(command.NAME, command.main, argv)
    return code, *capsys.readouterr()


def answers_on_record(run_id: str) -> list[int]:
    """The seeds of those that a run has, sorted."""
    client, _ = store.open_store()
    return sorted(attempt.seed for attempt in read_attempts(client, run_id) if attempt.scored)


def test_a_short_while_is_waited_for_and_all_is_on_record(
    engine: Breaking, outage: Outage, waits: list[Callable[[], None]], capsys: pytest.CaptureFixture[str]
) -> None:
    """In the first iteration, and once more in the second."""

    def begin_again() -> None:
        outage.end()
        engine.at = ONE_ITERATION + 10

    engine.at, engine.breaks = 10, outage.begin
    waits += [lambda: None, begin_again, lambda: None, outage.end]
    code, out, err = run(capsys, *OPTIONS, "--tasks", str(shared_tasks()))
    assert (code, waits) == (0, []), err
    assert "record of the run" not in err and "Traceback" not in err
    result = json.loads(out)
    assert answers_on_record(result["run_id"]) == sorted(engine.asked)
    client, _ = store.open_store()
    assert client.get_run(result["run_id"]).info.status == "FINISHED"


@pytest.mark.parametrize(
    ("outage", "at"), [("locked file", 10), ("server away", ONE_ITERATION + 10)], indirect=["outage"]
)
def test_a_longer_one_ends_the_run_and_resumed_nothing_is_asked_twice(
    engine: Breaking, outage: Outage, waits: object, at: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the first iteration, or in the second, when there are answers on record."""
    engine.at, engine.breaks = at, outage.begin
    code, out, err = run(capsys, *OPTIONS, "--tasks", str(shared_tasks()))
    message = err.splitlines()[-1]
    assert (code, json.loads(out)["error"]["kind"]) == (3, "record")
    assert message.startswith("pipeline.compile: cannot write the record of the run: ") and "Traceback" not in err
    (folder,) = (store.folder() / "running").iterdir()
    assert f"All answers are kept in {folder}; the next command that reaches the store uploads them" in message
    go_on = f"--resume {folder.name[:8]}"
    assert message.endswith(f"Then resume: python -m pipeline.compile {go_on}")

    code, out, err = run(capsys, *go_on.split(), "--json")
    assert (code, json.loads(out)["error"]["kind"], err.count("\n")) == (2, "usage", 1)
    assert err.startswith("pipeline.compile: cannot open the record of the runs at ")

    outage.end()
    asked = sorted(engine.asked)
    code, out, err = run(capsys, *go_on.split(), "--json")
    assert code == 0, err
    assert json.loads(out)["run_id"] == folder.name
    assert f"resumes with {len(asked)} recorded answers" in err
    assert set(Counter(engine.asked).values()) == {1}
    assert answers_on_record(folder.name) == sorted(engine.asked)
    assert not folder.exists()
