"""A shared record on loopback: PostgreSQL, moto's S3 server, and MLflow's tracking server in front of both.

MLflow's server, its settings and its bucket are those of compose.yaml, with the addresses of this machine. Each server
is a process of its own that can be killed and started again, with its data and its port.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from urllib.error import HTTPError
from urllib.request import urlopen

import yaml

from tests.support.paths import PROJECT

PATIENCE = 300.0
"""Seconds for a server to start on a busy machine; far more than it takes."""


def missing() -> str | None:
    """Why the stack cannot be started here; None if it can."""
    absent = [name for name in ("initdb", "postgres", "createdb") if not _found(name)]
    if absent:
        return f"PostgreSQL is not installed: no {', '.join(absent)}"
    if os.getuid() == 0 and _unprivileged() is None:
        return "PostgreSQL does not run as root, and there is no user `postgres` or `nobody`"
    return None


class Server:
    """A process that listens on a port.

    Args:
        command: Its command line.
        env: Environment variables to add.
        log: The file of its output.
        is_up: Whether it answers.
        user: The user that it runs as; None for this one.
    """

    def __init__(
        self, command: list[str], env: Mapping[str, str], log: Path, is_up: Callable[[], bool], user: str | None = None
    ) -> None:
        self._command, self._env, self._log, self._is_up, self._user = command, env, log, is_up, user
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, and returns when it answers."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=PROJECT,
                env={**os.environ, "PYTHONPATH": str(PROJECT), **self._env},
                stdout=log,
                stderr=subprocess.STDOUT,
                user=self._user,
                start_new_session=True,
            )
        end = time.monotonic() + PATIENCE
        while not self._is_up():
            assert self._process.poll() is None, self._log.read_text(errors="replace")[-3000:]
            assert time.monotonic() < end, self._log.read_text(errors="replace")[-3000:]
            time.sleep(0.1)

    def kill(self) -> None:
        """Kills it, and the processes that it has started, with SIGKILL."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


class Stack:
    """The three servers, as a context manager.

    Attributes:
        database: PostgreSQL.
        artifacts: The S3 server.
        server: MLflow's.
        uri: The address of MLflow's.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tracking-stack-"))
        self.folder.chmod(0o755)
        self._full = self.folder / "full"
        user = _unprivileged() if os.getuid() == 0 else None
        sql, s3, http = (_free_port() for _ in range(3))
        self.database = Server(
            [str(_found("postgres")), "-D", str(self.folder / "db"), "-k", str(self.folder / "db"), "-p", str(sql),
             "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"],
            {}, self.folder / "postgres.log", lambda: _answers(sql), user,
        )  # fmt: skip
        self.artifacts = Server(
            [sys.executable, "-m", "tests.support.s3_server", str(s3), str(self._full)],
            {}, self.folder / "s3.log", lambda: _answers(s3),
        )  # fmt: skip
        self.uri = f"http://127.0.0.1:{http}"
        self._s3 = f"http://127.0.0.1:{s3}"
        compose = yaml.safe_load((PROJECT / "compose.yaml").read_text(encoding="utf-8"))["services"]
        secrets = {"AWS_SECRET_ACCESS_KEY": "secret", "MLFLOW_S3_ENDPOINT_URL": self._s3}
        self._settings = {**compose["server"]["environment"], **secrets, "PYTHONWARNINGS": "ignore"}
        self._make_bucket = [sys.executable, *compose["bucket"]["command"][1:]]
        here = {
            "--host": "127.0.0.1",
            "--port": str(http),
            "--workers": "1",
            "--backend-store-uri": f"postgresql+psycopg://mlflow@127.0.0.1:{sql}/mlflow",
            "--allowed-hosts": f"127.0.0.1:{http}",
        }
        options = dict(option.split("=", 1) for option in compose["server"]["command"][2:])
        words = [f"{name}={value}" for name, value in {**options, **here}.items()]
        self.server = Server(
            [sys.executable, "-m", "mlflow", "server", *words],
            self._settings, self.folder / "mlflow.log", lambda: _healthy(self.uri),
        )  # fmt: skip
        self._user, self._sql = user, sql

    def __enter__(self) -> "Stack":
        try:
            self._make_database()
            self.artifacts.start()
            subprocess.run(self._make_bucket, env={**os.environ, **self._settings}, check=True)
            self.server.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for each in (self.server, self.artifacts, self.database):
            each.kill()
        shutil.rmtree(self.folder)

    def fill_up(self) -> None:
        """The S3 server has no room from here on."""
        self._full.touch()

    def make_room(self) -> None:
        """It has room again."""
        self._full.unlink()

    def _make_database(self) -> None:
        folder = self.folder / "db"
        folder.mkdir(mode=0o700)
        if self._user:
            shutil.chown(folder, self._user)
        self._run("initdb", "-D", str(folder), "-U", "mlflow", "-A", "trust", "--no-sync", "-E", "UTF8")
        self.database.start()
        end = time.monotonic() + PATIENCE
        while self._run("createdb", "-h", "127.0.0.1", "-p", str(self._sql), "-U", "mlflow", "mlflow", check=False):
            assert time.monotonic() < end
            time.sleep(0.1)

    def _run(self, name: str, *words: str, check: bool = True) -> int:
        log = self.folder / f"{name}.log"
        with log.open("ab") as output:
            done = subprocess.run(
                [str(_found(name)), *words], cwd=self.folder, stdout=output, stderr=output, user=self._user, check=False
            )
        assert not check or done.returncode == 0, log.read_text()
        return done.returncode


def _found(name: str) -> Path | None:
    """A program of PostgreSQL's: on the PATH, or where Debian keeps those of a server, the latest version's."""
    if known := shutil.which(name):
        return Path(known)
    return max(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), default=None)


def _unprivileged() -> str | None:
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in known), None)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _healthy(uri: str) -> bool:
    try:
        with urlopen(f"{uri}/health", timeout=10) as response:
            return bool(response.status == 200)
    except HTTPError:
        raise
    except OSError:
        return False
