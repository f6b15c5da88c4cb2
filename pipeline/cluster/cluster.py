"""A cluster as `Workers`: pools whose calls run on its nodes.

Dask's scheduler decides which node runs a batch of calls, and repeats the batches of a node that is lost. A batch is as
long as `BATCH_SECONDS` of work, as a task costs Dask more than a verdict takes. No request to Dask has a time limit, so
those that a command waits for have one here.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import multiprocessing
import pickle
import platform
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, TypeVar

from pipeline.base.config import NO_CLUSTER, ClusterConfig, local_nodes
from pipeline.base.errors import ClusterUnavailable, UsageError, print_message
from pipeline.base.text import counted, first_line, visible
from pipeline.verification.isolation import answers
from pipeline.verification.isolation.confinement import current
from pipeline.verification.pool import (
    KillableExecutor,
    LocalWorkers,
    PoolSettings,
    WorkerLost,
    WorkerPool,
    Workers,
    cores,
    settle,
)

# --- what runs on a node, in its Dask worker process ------------------------------------------------------------------
# - A node has a pool of killable workers for each client and kind of call. Only these unpickle calls, import PyTorch
# and run an author's code; calls of two groups, such as two tasks, never share a process.
# - What a worker answers is data, here and for the client: neither executes any of it.
# - Workers end with the Dask worker process, however that ends, and when their client has sent no call for a while.

PACKAGES = ("optimizers", "pipeline", "signatures", "step_runtime")
LEASE = 60.0
"""Seconds without a call after which a pool's workers end: the client is gone, or starts them again."""

Call = tuple[str, bytes]
"""The group that a call belongs to, and the pickled call."""


Software = dict[str, str]
"""The versions of one process; `code` is a digest of the sources of `PACKAGES`."""


@functools.cache
def installed() -> Software:
    """The versions of this process, found without importing PyTorch."""
    digest, root = hashlib.sha256(), Path(__file__).parents[2]
    for path in (path for package in PACKAGES for path in sorted((root / package).rglob("*.py"))):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()}\n{len(data)}\n".encode() + data)
    versions = {package: metadata.version(package) for package in ("torch", "numpy")}
    return {"code": digest.hexdigest()[:12], "python": platform.python_version(), **versions}


def unusable(client: Software, node: Software | None = None) -> str:
    """Why a client can't use this node, with both values of each difference; empty if it can."""
    if node is None and multiprocessing.current_process().daemon:
        remedy = "start it with `dask worker --no-nanny`, or set DASK_DISTRIBUTED__WORKER__DAEMON=False"
        return f"its nanny allows no worker processes; {remedy}"
    there = node or installed()
    found = ", ".join(f"{name} {own} here, {there[name]} there" for name, own in client.items() if own != there[name])
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


# --- a cluster as `Workers` -------------------------------------------------------------------------------------------

CONNECT_SECONDS = 10.0
"""Seconds in which an address must answer as a scheduler."""
JOIN_SECONDS = 60.0
"""Seconds in which the first node must join, and every node answer."""
ANSWER_SECONDS = 30.0
"""Seconds without an answer after which the scheduler is lost."""
EMPTY_SECONDS = 300.0
"""Seconds that a run waits for another node when all are lost."""
CLOSE_SECONDS = 3.0
"""Seconds that nodes get to end what they do, when the client leaves."""
POLL = 0.5
"""Seconds between two looks at the scheduler; for many nodes, a hundredth of a second for each."""
_LATE = 1.0
"""Seconds that what has a limit of its own may take beyond it."""

BATCH_SECONDS, MOST = 0.05, 32
"""Work in a batch of calls, and the most calls."""
LINGER = 0.005
"""Seconds that a call waits for others to be sent with it."""
RETRIES = 2
"""How often Dask repeats a batch that could not be run, such as one on a node whose workers can't start."""

R = TypeVar("R")
Waiting = tuple[Future[Any], tuple[str, bytes]]
"""The future of a call, and the call as `Call` has it."""


class ClusterPool(KillableExecutor):
    """Calls with common limits, on the nodes of a cluster.

    Leaving it as a context manager waits for all calls; where an exception is the reason, it ends them.
    """

    def __init__(self, cluster: Cluster, settings: PoolSettings) -> None:
        # Which files this machine's tasks may read means nothing to a node.
        own = replace(settings, reads=None, sandbox=replace(settings.sandbox or current(), reads=()))
        self._cluster, self._group = cluster, settings.group
        self._name, self._settings = uuid.uuid4().hex, pickle.dumps(own)
        self._dask = cluster.client.get_executor(pure=False, retries=RETRIES)
        self._changed = threading.Condition()
        self._waiting: list[Waiting] = []
        self._sent: dict[Future[Any], list[Waiting]] = {}
        self._batch = 1
        self._error: Exception | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Calls a module's function in a worker of a node.

        The future raises what the function raises, as `WorkerPool.submit` has it, or `WorkerLost` for a call that cost
        its worker, or its nodes.

        Raises:
            RuntimeError: The pool is shut down.
            ClusterUnavailable: The cluster is lost.
        """
        group = self._group(*args, **kwargs) if self._group else ""
        future: Future[Any] = Future()
        with self._changed:
            if self._error:
                raise self._error
            self._waiting.append((future, (group, pickle.dumps((fn, args, kwargs)))))
            full, first = len(self._waiting) >= self._batch, len(self._waiting) == 1
        if full:
            self._send()
        elif first:
            loop = self._cluster.client.loop
            loop.add_callback(loop.call_later, LINGER, self._send)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Waits for all calls, unless they are to be cancelled, and ends the workers; idempotent."""
        with self._changed:
            self._changed.wait_for(lambda: not (wait and not cancel_futures and (self._waiting or self._sent)))
        self.fail(RuntimeError("the pool is shut down"))

    def kill_workers(self) -> None:
        """Takes no more calls, cancels those that wait, and ends those that run."""
        self.shutdown(cancel_futures=True)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.shutdown(cancel_futures=kind is not None)

    def fail(self, error: Exception) -> None:
        """Takes no more calls, for this reason, and ends the workers on the nodes."""
        with self._changed:
            ended, self._error = self._error is not None, self._error or error
            left = [*self._waiting, *(call for batch in self._sent.values() for call in batch)]
            sent = [*self._sent]
            self._waiting.clear()
            self._sent.clear()
            self._changed.notify_all()
        for future in sent:
            future.cancel()
        for future, _ in left:
            if not future.cancel():
                future.set_exception(error)
        if not ended:
            with suppress(Exception):  # nodes end by themselves what no client asks for
                _within(CLOSE_SECONDS, partial(self._cluster.client.run, end, self._name))

    def _send(self) -> None:
        with self._changed:
            calls, self._waiting = self._waiting, []
            self._submit([call for call in calls if call[0].set_running_or_notify_cancel()])

    def _submit(self, calls: Sequence[Waiting]) -> None:
        """Has Dask run calls, in batches that leave none of its nodes without work."""
        size = min(self._batch, -(-len(calls) // max(1, self._cluster.count)))
        for start in range(0, len(calls), size or 1):
            batch = [*calls[start : start + size]]
            payload = [call for _, call in batch]
            sent = self._dask.submit(run, installed(), self._name, self._settings, payload)
            self._sent[sent] = batch
            sent.add_done_callback(self._answered)

    def _answered(self, sent: Future[Any]) -> None:
        from distributed import KilledWorker

        with self._changed:
            batch = self._sent.pop(sent, [])
            if sent.cancelled():
                self._error = self._error or self._cluster.gone()
            error = self._error if sent.cancelled() else sent.exception()
            if isinstance(error, KilledWorker) and len(batch) > 1:
                for call in batch:  # by itself, as one of them is the reason
                    self._submit([call])
                return
            self._changed.notify_all()
        if error is None:
            self._batch = _batch([answer.seconds for answer in sent.result()])
            for answer, (future, _) in zip(sent.result(), batch, strict=False):
                answer.settle(future)
        if isinstance(error, KilledWorker):
            nodes = counted(error.allowed_failures + 1, "node")
            error = WorkerLost("crashed", f"crashed all {nodes} that ran it, the last at {error.last_worker.address}")
        for future, _ in batch if error else ():
            future.set_exception(error)


def _batch(seconds: Sequence[float]) -> int:
    """How many calls that took so long make a batch."""
    return max(1, min(MOST, int(BATCH_SECONDS * len(seconds) / max(sum(seconds), 1e-6))))


class Cluster:
    """The nodes of a cluster, as a thread of its own sees them.

    Args:
        client: Dask's.
        address: The scheduler's, as the user named it.
        warn: Called with a line about nodes that are lost.

    Attributes:
        nodes: The number of nodes, now.
        count: The workers of all nodes, now.
    """

    def __init__(self, client: Any, address: str, warn: Callable[[str], None]) -> None:
        self.client, self.address, self._warn = client, address, warn
        self.nodes = self.count = 0
        self._known: set[str] = set()
        self._pools: list[ClusterPool] = []
        self._closed = threading.Event()
        try:
            _within(JOIN_SECONDS, lambda: client.wait_for_workers(1, timeout=JOIN_SECONDS))
            check = partial(client.run, unusable, installed(), on_error="return")
            found = _within(JOIN_SECONDS, check)
        except TimeoutError:
            raise ClusterUnavailable(f"no node of {address} has answered within {JOIN_SECONDS:g} s") from None
        for place, why in found.items():
            if why:
                what = f"it can't run this package: {why}" if isinstance(why, BaseException) else why
                raise UsageError(f"--cluster: the node at {place} can't be used: {what}")
        self._look()
        self._thread = threading.Thread(target=self._watch, name="cluster-watch", daemon=True)
        self._thread.start()

    def pool(self, settings: PoolSettings, most: int | None = None) -> ClusterPool:
        """A pool; its workers start with their node's first call."""
        del most
        self._pools.append(ClusterPool(self, settings))
        return self._pools[-1]

    def close(self) -> None:
        """Ends all that this client has running on the nodes."""
        self._closed.set()
        self._thread.join()
        for pool in self._pools:
            pool.kill_workers()

    def gone(self) -> ClusterUnavailable:
        """The error of a call that Dask has given up."""
        return ClusterUnavailable(f"the Dask scheduler at {self.address} is gone")

    def _look(self) -> None:
        """Counts the nodes.

        Raises:
            ClusterUnavailable: The scheduler is lost.
        """
        if self.client.status != "running":
            raise self.gone()
        ask = partial(self.client.sync, self.client.scheduler.identity, n_workers=-1)
        try:
            found = _within(ANSWER_SECONDS, ask)["workers"]
        except TimeoutError:
            raise ClusterUnavailable(f"the Dask scheduler at {self.address} does not answer") from None
        except OSError:
            raise self.gone() from None
        for place in self._known - found.keys():
            self._warn(f"the node at {place} is lost; what it was doing is repeated")
        self._known = {*found}
        self.nodes, self.count = len(found), sum(each["nthreads"] for each in found.values())

    def _watch(self) -> None:
        seen = time.monotonic()
        while not self._closed.wait(max(POLL, self.nodes / 100)):
            try:
                self._look()
                seen = time.monotonic() if self.nodes else seen
                if time.monotonic() - seen > EMPTY_SECONDS:
                    raise ClusterUnavailable(f"all nodes of {self.address} are lost, and none has joined since")
            except ClusterUnavailable as error:
                for pool in self._pools:
                    pool.fail(error)
                return


@contextmanager
def open_cluster(address: str, name: str = "", timeout: float = CONNECT_SECONDS) -> Iterator[Cluster]:
    """A cluster, for as long as the context lasts; `timeout` is the seconds in which a scheduler must answer.

    Raises:
        UsageError: Dask is not installed, it lacks the certificates for a `tls://` address, or a node can't be used.
        ClusterUnavailable: No scheduler answers, or it has no nodes.
    """
    try:
        import distributed
    except ModuleNotFoundError as error:
        raise UsageError(f"--cluster: {error.name} is missing; pip install 'adaptive-step[cluster]'") from None
    if address.startswith("tls:"):
        _check_certificates(address)
    # What Dask reports of lost nodes and schedulers is reported here, in one line each.
    for logger in [each for each in logging.root.manager.loggerDict if each.partition(".")[0] == "distributed"]:
        logging.getLogger(logger).setLevel(logging.CRITICAL + 1)
    with ExitStack() as stack:
        nodes = local_nodes(address)
        try:
            target = stack.enter_context(_local_cluster(nodes)) if nodes else address
            client: Any = _within(timeout, partial(distributed.Client, target, timeout=timeout, set_as_default=False))
        except Exception as error:  # whatever answers there
            late = isinstance(error, TimeoutError)
            why = f" within {timeout:g} s" if late else f": {visible(first_line(error), line=True)}"
            raise ClusterUnavailable(f"no Dask scheduler answers at {address}{why}") from None
        stack.callback(lambda: _within(CLOSE_SECONDS, partial(client.close, timeout=CLOSE_SECONDS)))
        cluster = Cluster(client, address, lambda line: print_message(name, line))
        stack.callback(cluster.close)
        yield cluster


@contextmanager
def open_workers(config: ClusterConfig, name: str) -> Iterator[Workers]:
    """The nodes of a cluster or, without one, this machine's cores; `name` is the command's, for its messages.

    Raises:
        UsageError: As `open_cluster`.
        ClusterUnavailable: As `open_cluster`.
    """
    address = config.cluster
    if address is None or address == NO_CLUSTER:
        yield LocalWorkers()
        return
    with open_cluster(address, name) as cluster:
        print_message(name, f"cluster {address}: {counted(cluster.nodes, 'node')}, {counted(cluster.count, 'worker')}")
        yield cluster


def _within(seconds: float, function: Callable[[], R]) -> R:
    """What a function of Dask's returns that may hang; raises `TimeoutError` if it does not return in time."""
    found: Future[R] = Future()

    def call() -> None:
        try:
            found.set_result(function())
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=call, name="cluster-request", daemon=True).start()
    return found.result(seconds + _LATE)


def _check_certificates(address: str) -> None:
    """Raises `UsageError` where Dask's own client would end with a traceback, after a minute."""
    from distributed.security import Security

    security: Any = Security
    try:
        context = security().get_connection_args("client")["ssl_context"]
    except (OSError, ValueError) as error:
        raise UsageError(f"--cluster {address}: cannot read the TLS certificates: {error}") from None
    if context is None:
        names = ("CA_FILE", "CLIENT__CERT", "CLIENT__KEY")
        expected = ", ".join(f"DASK_DISTRIBUTED__COMM__TLS__{name}" for name in names)
        raise UsageError(f"--cluster {address}: TLS needs the certificates that {expected} name")


@contextmanager
def _local_cluster(nodes: int) -> Iterator[Any]:
    """A scheduler in this process, and nodes that share this machine's cores."""
    import dask
    import distributed

    local: Any = distributed.LocalCluster
    # A nanny's process may else have no children, and a node's pool has; a node that hangs is lost after `worker-ttl`.
    settings = {"distributed.worker.daemon": False, "distributed.scheduler.worker-ttl": "30s"}
    with dask.config.set(settings), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with local(
            n_workers=nodes,
            threads_per_worker=max(1, cores() // nodes),
            host="127.0.0.1",
            scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
            worker_dashboard_address="127.0.0.1:0",
            memory_limit=0,
            silence_logs=logging.CRITICAL,
        ) as cluster:
            yield cluster
