"""The part that runs on a node, in its Dask worker process.

- A node has a pool of killable workers for each client and kind of call. Only these unpickle calls, import PyTorch and
  run an author's code; calls of two groups, such as two tasks, never share a process.
- What a worker answers is data, here and for the client: neither executes any of it.
- Workers end with the Dask worker process, however that ends, and when their client has sent no call for a while.
"""

from __future__ import annotations

import functools
import hashlib
import multiprocessing
import pickle
import platform
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from pipeline.base.errors import UsageError
from pipeline.verification.isolation import answers
from pipeline.verification.pool import PoolSettings, WorkerLost, WorkerPool, settle
from pipeline.verification.sandbox import current

PACKAGES = ("optimizers", "pipeline", "signatures", "step_runtime")
LEASE = 60.0
"""Seconds without a call after which a pool's workers end: the client is gone, or starts them again."""

Call = tuple[str, bytes]
"""The group that a call belongs to, and the pickled call."""


@dataclass(frozen=True)
class Software:
    """The versions of one process; `code` is a digest of the sources of `PACKAGES`."""

    code: str
    python: str
    torch: str
    numpy: str


@functools.cache
def installed() -> Software:
    """The versions of this process, found without importing PyTorch."""
    return Software(_digest(Path(__file__).parents[2]), platform.python_version(), _version("torch"), _version("numpy"))


def _digest(root: Path) -> str:
    """A digest of all source files of the packages below a folder."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            data = path.read_bytes()
            digest.update(f"{path.relative_to(root).as_posix()}\n{len(data)}\n".encode() + data)
    return digest.hexdigest()[:12]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"


def unusable(client: Software, node: Software | None = None) -> str:
    """Why a client can't use this node, with both values of each difference; empty if it can."""
    if node is None and multiprocessing.current_process().daemon:
        remedy = "start it with `dask worker --no-nanny`, or set DASK_DISTRIBUTED__WORKER__DAEMON=False"
        return f"its nanny allows no worker processes; {remedy}"
    here, there = asdict(client), asdict(node or installed())
    found = ", ".join(f"{name} {here[name]} here, {there[name]} there" for name in here if here[name] != there[name])
    return f"its versions differ: {found}; install the same versions on every node" if found else ""


@dataclass(frozen=True)
class Answer:
    """What a call returned or raised, as `isolation.answers` writes it, or how it cost its worker; and its seconds."""

    result: str = ""
    lost: tuple[Any, str, dict[str, Any]] | None = None
    seconds: float = 0.0

    def settle(self, future: Future[Any]) -> None:
        """Gives the result, or the exception, to the call's future."""
        if self.lost is None:
            settle(future, self.result.encode())
            return
        code, text, attributes = self.lost
        error = WorkerLost(code, text)
        error.__dict__.update(attributes)
        future.set_exception(error)


def run(client: Software, pool: str, settings: bytes, calls: Sequence[Call]) -> list[Answer]:
    """Runs a client's calls in its pool of these pickled `PoolSettings`.

    Raises:
        UsageError: The client can't use this node, which joined late.
    """
    from distributed import get_worker

    dask_worker: Any = get_worker()
    if why := unusable(client):
        raise UsageError(f"--cluster: the node at {dask_worker.address} can't be used: {why}")
    with _leased(pool, settings, dask_worker.state.nthreads) as workers:
        return [_answer(future) for future in [workers.submit(run_pickled, *call) for call in calls]]


def _answer(future: Future[tuple[float, str]]) -> Answer:
    try:
        seconds, result = future.result()
        return Answer(result, seconds=seconds)
    except WorkerLost as error:
        return Answer(lost=(error.code, str(error), vars(error)))


@dataclass
class _Lease:
    """A client's workers, the batches that they have, and what ends them once they have had none for a while."""

    workers: WorkerPool
    batches: int
    expiry: threading.Timer


_LEASES: dict[str, _Lease] = {}
_LOCK = threading.Lock()


@contextmanager
def _leased(pool: str, settings: bytes, count: int) -> Iterator[WorkerPool]:
    with _LOCK:
        if pool not in _LEASES:
            asked: PoolSettings = pickle.loads(settings)
            sandbox = replace(current(), mode=(asked.sandbox or current()).mode)
            workers = replace(asked, group=group_of, sandbox=sandbox).start(count)
            _LEASES[pool] = _Lease(workers, 0, threading.Timer(LEASE, _expire))
        lease = _LEASES[pool]
        lease.batches += 1
        lease.expiry.cancel()
    try:
        yield lease.workers
    finally:
        with _LOCK:
            lease.batches -= 1
            if not lease.batches:
                lease.expiry = threading.Timer(LEASE, _expire, (pool,))
                lease.expiry.daemon = True
                lease.expiry.start()


def _expire(pool: str) -> None:
    with _LOCK:
        idle = pool in _LEASES and not _LEASES[pool].batches
    if idle:
        end(pool)


def end(pool: str) -> None:
    """Ends a pool, whatever its workers are doing."""
    with _LOCK:
        lease = _LEASES.pop(pool, None)
    if lease is not None:
        lease.expiry.cancel()
        lease.workers.kill_workers()


# --- what runs in a worker of the pool --------------------------------------------------------------------------------


def group_of(group: str, call: bytes) -> str:
    """The group of a call of `run_pickled`, which the client has named."""
    del call
    return group


def run_pickled(group: str, call: bytes) -> tuple[float, str]:
    """The seconds of a pickled call, and its result or exception, as `isolation.answers` writes it."""
    del group
    start = time.perf_counter()
    try:
        function, args, kwargs = pickle.loads(call)
        result = answers.returned(function(*args, **kwargs))
    except MemoryError:
        raise  # and ends the worker
    except Exception as error:
        result = answers.raised(error)
    return time.perf_counter() - start, result.decode()
