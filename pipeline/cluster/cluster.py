"""A cluster as `Workers`: pools whose calls run on its nodes."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any

from pipeline.base.addresses import NO_CLUSTER
from pipeline.base.errors import print_message
from pipeline.base.text import counted
from pipeline.cluster.connection import CLOSE_SECONDS, Connection
from pipeline.cluster.dispatcher import Dispatcher
from pipeline.cluster.membership import SILENCE, Membership
from pipeline.verification.workers import KillableExecutor, LocalWorkers, PoolSettings, Workers


class ClusterPool(KillableExecutor):
    """Calls with common limits, on the nodes of a cluster.

    Leaving it as a context manager waits for all calls; where an exception is the reason, it ends them.
    """

    def __init__(self, dispatcher: Dispatcher, settings: PoolSettings) -> None:
        self._dispatcher, self._name, self._group = dispatcher, dispatcher.pool(settings), settings.group

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Calls a module's function in a worker of a node; waits while very many calls are unanswered.

        The future raises what the function raises, as `WorkerPool.submit` has it, or `WorkerLost` for a call that cost
        its worker, or its nodes.

        Raises:
            RuntimeError: The pool is shut down.
            ClusterUnavailable: The cluster is lost.
        """
        group = self._group(*args, **kwargs) if self._group else ""
        return self._dispatcher.submit(self._name, pickle.dumps((fn, args, kwargs)), group)

    def map(
        self, fn: Callable[..., Any], /, *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[Any]:
        """As `Executor.map`, but reads the arguments as results are taken: no more futures than can be running."""
        del chunksize  # calls are sent in batches anyway
        waiting: deque[Future[Any]] = deque()
        try:
            for args in zip(*iterables, strict=False):
                waiting.append(self.submit(fn, *args))
                if len(waiting) >= self._dispatcher.limit:
                    yield waiting.popleft().result(timeout)
            while waiting:
                yield waiting.popleft().result(timeout)
        finally:
            for future in waiting:
                future.cancel()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Waits for all calls, unless they are to be cancelled, and ends the workers; idempotent."""
        if wait and not cancel_futures:
            self._dispatcher.wait_until_answered(self._name)
        self._dispatcher.end(self._name)

    def kill_workers(self) -> None:
        """Takes no more calls, cancels those that wait, and ends those that run."""
        self._dispatcher.end(self._name)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.shutdown(cancel_futures=kind is not None)


class Cluster(Workers):
    """The nodes of a cluster.

    Args:
        warn: Called with a line about a node that is lost, or that joins later and can't be used.
        silence: Seconds without a heartbeat after which a node is lost.

    Raises:
        UsageError: A node has other versions.
        ClusterUnavailable: There is no node.
    """

    def __init__(self, connection: Connection, warn: Callable[[str], None], silence: float = SILENCE) -> None:
        self._connection = connection
        self._dispatcher = Dispatcher(connection, self._suspected, warn)
        present, failed = self._noted, self._dispatcher.fail
        self._membership = Membership(connection, present, failed, warn, silence=silence)
        self._nodes: dict[str, int] = {}
        try:
            self._membership.join()
        except BaseException:
            self._dispatcher.close()
            raise

    @property
    def count(self) -> int:
        """The workers of all nodes, now."""
        return sum(self._nodes.values())

    @property
    def nodes(self) -> int:
        """The number of nodes, now."""
        return len(self._nodes)

    def pool(self, settings: PoolSettings, most: int | None = None) -> ClusterPool:
        """A pool; its workers start with their node's first call."""
        del most
        return ClusterPool(self._dispatcher, settings)

    def close(self) -> None:
        """Ends all that this client has running on the nodes."""
        self._membership.close()
        self._dispatcher.close()
        wait([self._connection.end(address) for address in self._nodes], CLOSE_SECONDS + 1)

    def _suspected(self) -> None:
        self._membership.look_now()

    def _noted(self, nodes: Mapping[str, int]) -> None:
        self._nodes = dict(nodes)
        self._dispatcher.present(nodes)


@contextmanager
def open_cluster(address: str, name: str = "", silence: float = SILENCE) -> Iterator[Cluster]:
    """A cluster, for as long as the context lasts.

    `silence` is the seconds without a heartbeat after which a node is lost.

    Raises:
        UsageError: Dask is not installed, or a node has other versions.
        ClusterUnavailable: There is no scheduler, or no node.
    """
    connection = Connection(address)
    try:
        cluster = Cluster(connection, lambda line: print_message(name, line), silence)
        try:
            yield cluster
        finally:
            cluster.close()
    finally:
        connection.close()


@contextmanager
def open_workers(address: str | None, name: str) -> Iterator[Workers]:
    """The nodes of a cluster or, without an address, this machine's cores.

    Raises:
        UsageError: Dask is not installed, or a node has other versions.
        ClusterUnavailable: The cluster can't be used.
    """
    if address is None or address == NO_CLUSTER:
        yield LocalWorkers()
        return
    with open_cluster(address, name) as cluster:
        print_message(name, f"cluster {address}: {counted(cluster.nodes, 'node')}, {counted(cluster.count, 'worker')}")
        yield cluster
