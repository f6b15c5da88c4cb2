"""The client's side of Dask: who is there, and requests to nodes, each with a time limit.

Requests go through `Client.run`, outside of Dask's task scheduling: a task's result is gathered without a time limit,
together with others, so that one hung node would delay the results of all; and a request costs the scheduler a third of
a task's time. What is done again, and where, is decided by `pipeline.cluster.dispatcher`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import pickle
import threading
import uuid
import warnings
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from pipeline.base.addresses import local_nodes
from pipeline.base.errors import ClusterUnavailable, UsageError
from pipeline.base.machine import cores
from pipeline.base.text import first_line, visible
from pipeline.cluster import node
from pipeline.cluster.node import Answer, Numbered

CONNECT_SECONDS = 10.0
"""Seconds in which an address must answer as a scheduler, unless `--cluster-timeout` says otherwise."""

_LATE = 1.0
"""Seconds that what has a limit of its own may take beyond it."""

BACKSTOP = 120.0
"""Seconds beyond the wait asked for until an exchange has failed, whatever the reason."""

_GLANCE = 0.5
"""Seconds between two looks at the connection while an answer is waited for."""

CLOSE_SECONDS = 3.0
"""Seconds that nodes get to end what they do, when the client leaves."""

R = TypeVar("R")


class Connection:
    """A connection to a scheduler, which for `local:N` is one of this process, with N nodes on the loopback interface.

    Args:
        address: As `--cluster` accepts it.
        seconds: In which the address must answer as a scheduler.

    Raises:
        UsageError: Dask is not installed, or lacks the certificates for a `tls://` address.
        ClusterUnavailable: The scheduler can't be reached.
    """

    def __init__(self, address: str, seconds: float = CONNECT_SECONDS) -> None:
        self.address, self.session = address, uuid.uuid4().hex
        try:
            import distributed
        except ModuleNotFoundError as error:
            raise UsageError(f"--cluster: {error.name} is missing; pip install 'adaptive-step[cluster]'") from None
        if address.startswith("tls:"):
            _check_certificates(address)
        _silence_dask()
        self._stack = contextlib.ExitStack()
        try:
            if nodes := local_nodes(address):
                target: Any = self._stack.enter_context(_local_cluster(nodes))
            else:
                target = address
                _within(seconds, lambda: asyncio.run(asyncio.wait_for(_identified(address, seconds), seconds)))
            client: Any = distributed.Client
            make = functools.partial(client, target, timeout=seconds, set_as_default=False)
            self._client: Any = _within(max(seconds, CONNECT_SECONDS), make)
        except (OSError, ValueError, RuntimeError, ImportError) as error:
            self._stack.close()
            late = isinstance(error, TimeoutError)
            why = f" within {seconds:g} s" if late else f": {visible(first_line(error), line=True)}"
            raise ClusterUnavailable(f"no Dask scheduler answers at {address}{why}") from None
        self._loop = self._client.loop.asyncio_loop

    @property
    def connected(self) -> bool:
        """Whether the scheduler is there."""
        return bool(self._client.status == "running")

    def heard(self, seconds: float) -> dict[str, tuple[float, str]]:
        """How many seconds ago the scheduler heard from each node that is ready for work, and the process's id there.

        Raises:
            OSError: The scheduler gave no answer within the time given.
        """
        request = self._start(self._client.run_on_scheduler, seconds, _heard)
        while not wait([request], _GLANCE).done:
            if not self.connected:  # Dask would try for long, and a scheduler that is back knows nothing
                raise OSError("the connection was closed")
        nodes: dict[str, tuple[float, str]] = request.result()
        return nodes

    def call(self, address: str, function: Callable[..., Any], *args: object, seconds: float) -> Future[Any]:
        """Calls a module's function in a node's process; a coroutine function in its event loop.

        The future raises what the function raises, or an `OSError` if the node gives no answer within the time given.
        """
        return self._start(self._on_node, seconds, address, function, *args)

    def exchange(
        self, address: str, pool: str, settings: bytes, workers: int, calls: Sequence[Numbered], patience: float
    ) -> Future[Sequence[Answer]]:
        """As `pipeline.cluster.dispatcher.Transport` has it."""

        async def exchanged() -> Sequence[Answer]:
            place = (self.session, pool)
            answers: Sequence[Answer] = pickle.loads(
                await self._on_node(address, node.exchange, place, settings, workers, calls, patience)
            )
            return answers

        return self._start(exchanged, patience + BACKSTOP)

    def end(self, address: str, pool: str | None = None) -> Future[None]:
        """Ends a node's pool, or all of this client's."""
        return self._start(self._on_node, CLOSE_SECONDS, address, node.end, self.session, pool)

    def close(self) -> None:
        """Leaves the cluster; nodes of `local:N` end."""
        with contextlib.suppress(Exception):
            self._client.close(timeout=CLOSE_SECONDS)
        self._stack.close()

    async def _on_node(self, address: str, function: Callable[..., Any], *args: object) -> Any:
        answers: Any = await self._client.run(function, *args, workers=[address])
        return answers[address]

    def _start(self, function: Callable[..., Any], seconds: float, *args: object) -> Future[Any]:
        async def within() -> Any:
            try:
                return await asyncio.wait_for(function(*args), seconds)
            except asyncio.CancelledError:
                raise OSError("the request was cancelled") from None

        work: Coroutine[Any, Any, Any] = within()
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError as error:  # the loop has ended
            work.close()
            failed: Future[Any] = Future()
            failed.set_exception(OSError(str(error)))
            return failed


def _within(seconds: float, function: Callable[[], R]) -> R:
    """What a function returns that may hang.

    Raises:
        TimeoutError: It did not return in time.
    """
    found: Future[R] = Future()

    def call() -> None:
        try:
            found.set_result(function())
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=call, name="cluster-connect", daemon=True).start()
    return found.result(seconds + _LATE)


async def _identified(address: str, seconds: float) -> None:
    """Checks who answers; raises `OSError` for anything but a scheduler."""
    from distributed.comm.core import connect
    from distributed.security import Security

    security: Any = Security
    comm: Any = None
    try:
        comm = await connect(address, timeout=seconds, **security().get_connection_args("client"))
        await comm.write({"op": "identity", "reply": True})
        answer = await comm.read()
    except OSError:
        raise
    except Exception:  # lengths and messages that Dask can't read
        answer = None
    finally:
        if comm is not None:
            comm.abort()
    if not isinstance(answer, dict) or answer.get("type") != "Scheduler":
        raise OSError("something else answers there")


def _check_certificates(address: str) -> None:
    """Dask's own client ends with a traceback, after a minute.

    Raises:
        UsageError: Dask's configuration names no certificates, or some that cannot be read.
    """
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


def _silence_dask() -> None:
    """What Dask reports of lost nodes and schedulers is reported here, in one line each."""
    for name in [each for each in logging.root.manager.loggerDict if each.partition(".")[0] == "distributed"]:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


@contextlib.contextmanager
def _local_cluster(nodes: int) -> Iterator[Any]:
    """A scheduler in this process, and nodes that share this machine's cores."""
    import dask
    import distributed

    local: Any = distributed.LocalCluster

    # A nanny's process may else have no children, and a node's pool has.
    with dask.config.set({"distributed.worker.daemon": False}), warnings.catch_warnings():
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


def _heard(dask_scheduler: Any) -> dict[str, tuple[float, str]]:
    """Runs on the scheduler: seconds since each node's last heartbeat, and Dask's id of its process."""
    from time import time

    return {
        address: (time() - worker.last_seen, worker.server_id)
        for address, worker in dask_scheduler.workers.items()
        if worker.status.name == "running"
    }
