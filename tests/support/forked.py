"""Processes that are there at once: forks of a server that has imported all that commands take.

A fresh interpreter spends ten times as long on its imports as a small run on its work. What a test needs of another
process (its death, its signals, its exit code, a store shared with it) is the same in a fork of a server that has
done nothing but import. A test of imports, of start-up or of the environment that libraries read while they are
imported takes a fresh interpreter.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable
from functools import cache
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import wait
from pathlib import Path
from typing import TextIO

from tests.support.paths import PROJECT

LIBRARIES = ("mlflow.store.tracking.sqlalchemy_store", "matplotlib.pyplot", "dspy", "sympy", "torch")
PACKAGES = ("step_runtime", "signatures", "optimizers", "pipeline")


class Forked:
    """A process that runs `python -m MODULE` or `python -c CODE`, as `subprocess.Popen` would; its output is text."""

    def __init__(self, *words: str) -> None:
        self.returncode: int | None = None
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(_server())
        self.stdout, out = _pipe()
        self.stderr, err = _pipe()
        request = json.dumps({"words": words, "env": dict(os.environ)}).encode()
        socket.send_fds(self._connection, [len(request).to_bytes(8, "big")], [out, err])
        self._connection.sendall(request)
        os.close(out)
        os.close(err)
        self._answers = self._connection.makefile()
        self.pid = int(self._answers.readline())

    def wait(self) -> int:
        """The exit code, negative for a signal's number."""
        if self.returncode is None:
            self.returncode = int(self._answers.readline())
            self._answers.close()
            self._connection.close()
        return self.returncode

    def poll(self) -> int | None:
        """The exit code of a process that has ended."""
        if self.returncode is None and wait([self._connection], 0):
            self.wait()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends a signal to the process alone."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kills the process, and waits for its end."""
        self.send_signal(signal.SIGKILL)
        self.wait()

    def communicate(self) -> tuple[str, str]:
        """What is left of its output, at its end."""
        errors: list[str] = []
        reader = threading.Thread(target=lambda: errors.append(self.stderr.read()))
        reader.start()
        output = self.stdout.read()
        reader.join()
        self.wait()
        self.stdout.close()
        self.stderr.close()
        return output, errors[0]

    def __enter__(self) -> "Forked":
        return self

    def __exit__(self, *_: object) -> None:
        if self.returncode is None:
            self.kill()
        self.stdout.close()
        self.stderr.close()


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` of `python WORDS` with its output captured."""
    with Forked(*words) as process:
        out, err = process.communicate()
    return subprocess.CompletedProcess(words, process.wait(), out, err)


def run_code(code: str, *argv: str) -> subprocess.CompletedProcess[str]:
    """Runs code, indented as it may be."""
    return run("-c", textwrap.dedent(code), *argv)


def _pipe() -> tuple[TextIO, int]:
    reading, writing = os.pipe()
    return os.fdopen(reading, encoding="utf-8"), writing


@cache
def _server() -> str:
    """The address of this process's server, which ends with it."""
    folder = Path(tempfile.mkdtemp(prefix="forked-"))
    address = str(folder / "socket")
    # Hashes other than this process's, so that whatever depends on the order of a set shows between them.
    env = {**os.environ, "PYTHONHASHSEED": "1", "MPLBACKEND": "agg"}
    words = [sys.executable, "-m", "tests.support.forked", address]
    server = subprocess.Popen(words, cwd=PROJECT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def end() -> None:
        assert server.stdin and server.stdout
        server.stdin.close()
        server.stdout.close()
        server.wait()
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()

    atexit.register(end)
    assert server.stdout
    assert server.stdout.readline() == "ready\n"
    return address


# --- what runs in the server ------------------------------------------------------------------------------------------


def _import_all() -> None:
    for name in LIBRARIES:
        importlib.import_module(name)
    for package in PACKAGES:
        root = importlib.import_module(package)
        for module in pkgutil.walk_packages(root.__path__, f"{package}."):
            importlib.import_module(module.name)


def _warm_up() -> None:
    """Fills what a process fills once, whatever it is asked for: prompts and the names of installed packages."""
    from mlflow.utils.requirements_utils import _init_modules_to_packages_map

    from pipeline.agent.agent import Agent
    from tests.support import quick_stores

    quick_stores.use()
    _init_modules_to_packages_map()  # type: ignore[no-untyped-call]
    Agent("paper")


def _serve(address: str) -> Callable[[], object]:
    """Takes requests until stdin ends; in each process that it forks for one, what that is to do."""
    # One server of workers for all, as every process would import the same into its own.
    forkserver.set_forkserver_preload(
        [
            "step_runtime",
            "pipeline.verification.judge",
            "pipeline.verification.proving",
            "pipeline.synthesis.parallel_search",
            "pipeline.lms.embedded.answering",
        ]
    )
    forkserver.ensure_running()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        print("ready", flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while sys.stdin.fileno() not in (ready := wait([server, sys.stdin.fileno()])):
            assert ready
            connection, _ = server.accept()
            if not os.fork():
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                server.close()
                return _start(connection)
            connection.close()
    return lambda: None


def _start(connection: socket.socket) -> Callable[[], object]:
    """Forks once more: the parent waits for the child, and tells how it ended."""
    head, fds, _, _ = socket.recv_fds(connection, 8, 2)
    request = json.loads(connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
    if pid := os.fork():
        for fd in fds:
            os.close(fd)
        connection.sendall(f"{pid}\n".encode())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        connection.sendall(f"{code}\n".encode())
        os._exit(0)
    connection.close()
    null = os.open(os.devnull, os.O_RDONLY)
    for number, fd in enumerate([null, *fds]):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(request["env"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    forkserver._forkserver.ensure_running = resource_tracker.ensure_running  # type: ignore[method-assign]
    option, what, *argv = request["words"]
    if option == "-c":
        sys.argv = ["-c", *argv]
        program = compile(what, "<string>", "exec")
        return lambda: exec(program, {"__name__": "__main__"})
    assert option == "-m"
    sys.argv = [what, *argv]
    sys.modules.pop(what, None)
    # Not as sys.modules["__main__"], which its workers would import.
    return lambda: runpy.run_module(what, run_name="__main__")


if __name__ == "__main__":
    gc.disable()  # imports leave next to no garbage
    _import_all()
    _warm_up()
    gc.freeze()  # no child copies what its collector would only have looked at
    gc.enable()
    _serve(sys.argv[1])()
