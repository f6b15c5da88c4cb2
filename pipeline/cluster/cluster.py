"""A cluster as `Workers`: pools whose calls run on its nodes.

Only live nodes with the client's versions are used.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from pipeline.base.addresses import NO_CLUSTER
from pipeline.base.config import ClusterConfig
from pipeline.base.errors import ClusterUnavailable, UsageError, print_message
from pipeline.base.text import counted
from pipeline.cluster import node
from pipeline.cluster.connection import CLOSE_SECONDS, CONNECT_SECONDS, Connection
from pipeline.cluster.dispatcher import Dispatcher
from pipeline.cluster.node import NodeFacts, installed
from pipeline.verification.pool import KillableExecutor, LocalWorkers, PoolSettings, Workers
from pipeline.verification.sandbox import current

POLL = 0.5
"""Seconds between two looks at the scheduler; for many nodes, a hundredth of a second for each."""

SILENCE = 30.0
"""Seconds without a heartbeat after which a node is lost."""

SCHEDULER_SECONDS = 30.0
"""Seconds without an answer after which the scheduler is lost."""

JOIN_SECONDS = 60.0
"""Seconds in which a node must answer, and the first node must join."""

EMPTY_SECONDS = 300.0
"""Seconds that a run waits for another node when all are lost."""


class Scheduler(Protocol):
    """The methods that `pipeline.cluster.connection.Connection` provides."""

    address: str

    @property
    def connected(self) -> bool:
        """Whether the scheduler is there."""

    def heard(self, seconds: float) -> dict[str, tuple[float, str]]:
        """Seconds since each node was last heard from, and the id of its process."""

    def call(self, address: str, function: Callable[..., Any], *args: object, seconds: float) -> Future[Any]:
        """A future of a function's result on a node."""


class Membership:
    """Looks at the scheduler from a thread of its own.

    Args:
        present: Called with the workers of each usable node after every look.
        failed: Called once, when the cluster can't be used any more.
        warn: Called with a line about a node that joins later and can't be used.
        silence: Seconds without a heartbeat after which a node is lost.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        present: Callable[[Mapping[str, int]], None],
        failed: Callable[[Exception], None],
        warn: Callable[[str], None],
        *,
        silence: float = SILENCE,
    ) -> None:
        self._scheduler, self._present, self._failed, self._warn = scheduler, present, failed, warn
        self._silence = silence
        self._known: dict[str, NodeFacts | None] = {}
        self._asked: dict[str, Future[NodeFacts]] = {}
        self._ids: dict[str, str] = {}
        self._look_now, self._closed = threading.Event(), False
        self._thread = threading.Thread(target=self._watch, name="cluster-members", daemon=True)
        self._empty = 0.0
        self._seen = 0

    def join(self) -> int:
        """Waits for the first nodes, then watches; returns the number of their workers.

        Raises:
            ClusterUnavailable: There is no node, or no scheduler.
        """
        end = time.monotonic() + JOIN_SECONDS
        while not (usable := self._look(refuse=True)) or self._asked:
            if time.monotonic() > end:
                if usable:
                    break
                raise ClusterUnavailable(f"no node has joined {self._scheduler.address} within {JOIN_SECONDS:g} s")
            self._look_now.wait(POLL)
        self._present(usable)
        self._thread.start()
        return sum(usable.values())

    def look_now(self) -> None:
        """Looks at once."""
        self._look_now.set()

    def close(self) -> None:
        """Ends the watch."""
        self._closed = True
        self._look_now.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        while True:
            self._look_now.wait(max(POLL, self._seen / 100))
            self._look_now.clear()
            if self._closed:
                return
            try:
                usable = self._look(refuse=False)
            except ClusterUnavailable as error:
                if not self._closed:
                    self._failed(error)
                return
            self._present(usable)
            if self._none_for_long(usable):
                message = f"all nodes of {self._scheduler.address} are lost, and none has joined since"
                self._failed(ClusterUnavailable(message))
                return

    def _none_for_long(self, usable: Mapping[str, int]) -> bool:
        now = time.monotonic()
        self._empty = 0.0 if usable else self._empty or now
        return bool(self._empty) and now - self._empty > EMPTY_SECONDS

    def _look(self, *, refuse: bool) -> dict[str, int]:
        """The workers of each usable node; raises for one that is to be refused, or if the scheduler is gone."""
        try:
            heard = self._scheduler.heard(SCHEDULER_SECONDS)
        except Exception as error:
            reason = "does not answer" if self._scheduler.connected else "is gone"
            detail = f": {error}" if str(error) else ""
            raise ClusterUnavailable(f"the Dask scheduler at {self._scheduler.address} {reason}{detail}") from None
        self._seen = len(heard)
        # A process that took the place of another one at its address is met in the next look: the other is lost.
        same = {address for address, (_, number) in heard.items() if self._ids.get(address, number) == number}
        self._ids = {address: number for address, (_, number) in heard.items()}
        self._known = {address: facts for address, facts in self._known.items() if address in same}
        self._asked = {address: future for address, future in self._asked.items() if address in same}
        alive = [address for address, (age, _) in heard.items() if address in same and age < self._silence]
        for address in alive:
            if address not in self._known and address not in self._asked:
                self._asked[address] = self._scheduler.call(address, node.facts, seconds=JOIN_SECONDS)
        self._meet(refuse=refuse)
        return {address: facts.workers for address in alive if (facts := self._known.get(address))}

    def _meet(self, *, refuse: bool) -> None:
        """Takes what new nodes have answered; one that does not answer delays no other."""
        for address in [each for each, future in self._asked.items() if future.done()]:
            try:
                facts = self._asked.pop(address).result()
            except (OSError, TimeoutError):
                continue  # it is on its way out, or is asked again
            except Exception as error:
                self._refused(address, f"it can't run this package: {error}", refuse=refuse)
                continue
            why = _unusable(facts)
            if why:
                self._refused(address, why, refuse=refuse)
            else:
                self._known[address] = facts

    def _refused(self, address: str, why: str, *, refuse: bool) -> None:
        message = f"the node at {address} can't be used: {why}"
        if refuse:
            raise UsageError(f"--cluster: {message}")
        self._known[address] = None
        self._warn(message)


def _unusable(facts: NodeFacts) -> str:
    """Why a node can't be used; empty if it can."""
    if facts.daemonic:
        remedy = "start it with `dask worker --no-nanny`, or set DASK_DISTRIBUTED__WORKER__DAEMON=False"
        return f"its nanny allows no worker processes; {remedy}"
    differences = installed().differences(facts.software)
    return f"its versions differ: {differences}; install the same versions on every node" if differences else ""


class ClusterPool(KillableExecutor):
    """Calls with common limits, on the nodes of a cluster.

    Leaving it as a context manager waits for all calls; where an exception is the reason, it ends them.
    """

    def __init__(self, dispatcher: Dispatcher, settings: PoolSettings) -> None:
        # Which files this machine's tasks may read means nothing to a node.
        own = replace(settings, reads=None, sandbox=replace(settings.sandbox or current(), reads=()))
        self._dispatcher, self._name, self._group = dispatcher, dispatcher.pool(own), settings.group

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Calls a module's function in a worker of a node; waits while very many calls are unanswered.

        The future raises what the function raises, as `WorkerPool.submit` has it, or `WorkerLost` for a call that cost
        its worker, or its nodes.
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
def open_cluster(
    address: str, name: str = "", silence: float = SILENCE, timeout: float = CONNECT_SECONDS
) -> Iterator[Cluster]:
    """A cluster, for as long as the context lasts.

    `silence` is the seconds without a heartbeat after which a node is lost, `timeout` those in which the address must
    answer as a scheduler.
    """
    connection = Connection(address, timeout)
    try:
        cluster = Cluster(connection, lambda line: print_message(name, line), silence)
        try:
            yield cluster
        finally:
            cluster.close()
    finally:
        connection.close()


@contextmanager
def open_workers(config: ClusterConfig, name: str) -> Iterator[Workers]:
    """The nodes of a cluster or, without one, this machine's cores; `name` is the command's, for its messages.

    Raises:
        UsageError: Dask is not installed, or a node has other versions.
        ClusterUnavailable: The cluster can't be used.
    """
    address = config.cluster
    if address is None or address == NO_CLUSTER:
        yield LocalWorkers()
        return
    with open_cluster(address, name, timeout=config.cluster_timeout) as cluster:
        print_message(name, f"cluster {address}: {counted(cluster.nodes, 'node')}, {counted(cluster.count, 'worker')}")
        yield cluster
