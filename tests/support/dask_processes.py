"""A Dask scheduler and its nodes as processes of this machine, which tests may kill, stop and continue."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from tests.support.paths import PROJECT

PATIENCE = 240.0
"""Seconds for what takes a few, unless it hangs."""


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Waits until a condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"never happened: {what}"
        time.sleep(0.05)


class DaskProcesses:
    """A scheduler and nodes; leaving the context kills all that are left."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._file = folder, folder / "scheduler.json"
        self.nodes: list[subprocess.Popen[bytes]] = []
        options = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
        options += ["--scheduler-file", str(self._file)]
        self.scheduler = self._start("dask_scheduler", options, {})
        eventually(lambda: self._file.exists() and bool(self._file.read_text()), "the scheduler's file")

    @property
    def address(self) -> str:
        return str(json.loads(self._file.read_text())["address"])

    def add_node(self, sources: Path = PROJECT, *options: str, workers: int = 1) -> subprocess.Popen[bytes]:
        """Starts a node that runs the packages in a folder."""
        fixed = ["--host", "127.0.0.1", "--no-dashboard", "--memory-limit", "0", "--nthreads", str(workers)]
        fixed += ["--scheduler-file", str(self._file), "--local-directory", str(self._folder)]
        node = self._start("dask_worker", [*fixed, *(options or ("--no-nanny",))], {"PYTHONPATH": str(sources)})
        self.nodes.append(node)
        return node

    def __enter__(self) -> "DaskProcesses":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for process in [*self.nodes, self.scheduler]:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

    def _start(self, command: str, options: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        log = (self._folder / f"{command}-{len(self.nodes)}.log").open("wb")
        arguments = [sys.executable, "-m", f"distributed.cli.{command}", *options]
        settings = {"PYTHONPATH": str(PROJECT), "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__GIL__ENABLED": "False"}
        settings["DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL"] = "10s"  # after which a node that hangs is lost
        with log:
            return subprocess.Popen(
                arguments, stdout=log, stderr=log, env={**os.environ, **settings, **environment}, cwd=self._folder
            )


def one_process_cluster(workers: int, protocol: Literal["tcp", "tls"] = "tcp") -> Any:
    """A scheduler on the loopback interface and a node, both in this process; a context manager.

    The certificates of TLS are those that Dask's configuration names.
    """
    from distributed import LocalCluster
    from distributed.security import Security

    return LocalCluster(
        n_workers=1,
        threads_per_worker=workers,
        processes=False,
        protocol=protocol,
        security=Security() if protocol == "tls" else None,
        host="127.0.0.1",
        scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
    )


@contextmanager
def dask_processes(folder: Path, nodes: int) -> Iterator[DaskProcesses]:
    """A scheduler with so many nodes."""
    with DaskProcesses(folder) as cluster:
        for _ in range(nodes):
            cluster.add_node()
        yield cluster
