"""Which call runs on which node; it knows no Dask, only something that carries calls there and answers back.

- Calls wait until there are `BATCH` of them, or the first has waited for `LINGER`; a batch is spread over the nodes.
- A node has as many calls as its workers can use, so that a late node gets its share and memory stays bounded: `submit`
  waits while too many calls are unanswered.
- What a lost node was doing is done again elsewhere. A call that has cost two nodes runs alone on the next one; if that
  is lost too, the call has a `WorkerLost`, and its neighbors have their own results.
- A node that gives no answer, but lives, costs a call time only: nothing is held against the call.
"""

from __future__ import annotations

import itertools
import math
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Protocol

from pipeline.base.text import counted
from pipeline.cluster.load import MOST_AHEAD, Call, CallPool, NodeLoad
from pipeline.cluster.node import Answer, Numbered
from pipeline.verification.pool import PoolSettings, WorkerLost

BATCH = 32
"""Calls that are sent at once without waiting for more."""

LINGER = 0.005
"""Seconds that a call waits for others to be sent with it."""

WAIT = 10.0
"""Seconds that a node waits for a result before it answers that there is none."""

GROUPED_LOSSES = 2
"""Nodes that a call may cost in the company of others."""

PAUSE = 3.0
"""Seconds after a failed exchange until a node that is still present counts as alive."""


class Transport(Protocol):
    """Carries calls to nodes."""

    def exchange(
        self, address: str, pool: str, settings: bytes, workers: int, calls: Sequence[Numbered], patience: float
    ) -> Future[Sequence[Answer]]:
        """See `pipeline.cluster.node.exchange`; the future raises where no answer arrives in time."""

    def end(self, address: str, pool: str) -> object:
        """Ends a node's pool."""


class Dispatcher:
    """Runs calls on nodes, from a thread of its own; its methods may be called from any thread.

    Args:
        suspect: Called when a node gives no answer, for `present` to be called soon.
        warn: Called with a line about a node that is lost.
    """

    def __init__(
        self,
        transport: Transport,
        suspect: Callable[[], object] = lambda: None,
        warn: Callable[[str], object] = lambda line: None,
    ) -> None:
        self._transport, self._suspect, self._warn = transport, suspect, warn
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._events: deque[Callable[[], None]] = deque()
        self._pools: dict[str, CallPool] = {}
        self._unanswered: dict[int, Call] = {}
        self.limit = MOST_AHEAD * BATCH  # calls without an answer at which `submit` waits
        self._error: Exception | None = None
        self._closed = False
        # What follows belongs to the thread.
        self._nodes: dict[str, NodeLoad] = {}
        self._suspects: deque[Call] = deque()
        self._thread = threading.Thread(target=self._run, name="cluster-dispatch", daemon=True)
        self._thread.start()

    def pool(self, settings: PoolSettings) -> str:
        """A new kind of calls; returns its name."""
        with self._changed:
            pool = CallPool(f"pool-{next(self._numbers)}", pickle.dumps(settings))
            self._pools[pool.name] = pool
            self._events.append(lambda: None)  # so that nodes start its workers
            self._changed.notify_all()
            return pool.name

    def submit(self, pool: str, payload: bytes, group: str = "") -> Future[Any]:
        """The future of a pickled call of a group; waits while too many are unanswered.

        Raises:
            RuntimeError: The pool has ended.
            PipelineError: The cluster can't be used any more.
        """
        with self._changed:
            self._changed.wait_for(lambda: len(self._unanswered) < self.limit or self._error)
            if self._error is not None:
                raise self._error
            if pool not in self._pools:
                raise RuntimeError("the pool is shut down")
            call = Call(self._pools[pool], next(self._numbers), payload, group, Future(), time.monotonic())
            self._unanswered[call.number] = call
            call.pool.unanswered += 1
            self._events.append(partial(call.pool.queue.append, call))
            self._changed.notify_all()
            return call.future

    def present(self, nodes: Mapping[str, int]) -> None:
        """These nodes may be used, with so many workers each; the calls of other nodes are lost."""
        self._post(partial(self._update, dict(nodes)))

    def fail(self, error: Exception) -> None:
        """No call is answered any more, for this reason."""
        self._post(partial(self._fail, error))

    def wait_until_answered(self, pool: str) -> None:
        """Waits until no call of a pool lacks an answer."""
        with self._changed:
            self._changed.wait_for(lambda: pool not in self._pools or not self._pools[pool].unanswered)

    def end(self, pool: str) -> None:
        """Cancels a pool's calls that wait, ends those that run, and its workers; idempotent."""
        with self._changed:
            ended = self._pools.pop(pool, None)
            self._changed.notify_all()
        if ended is not None:
            self._post(partial(self._end, ended))

    def close(self) -> None:
        """Ends the thread; a call that still lacks an answer is cancelled or, if it runs, fails."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
        for call in list(self._unanswered.values()):
            if not call.future.cancel():
                self._fail_call(call, RuntimeError("the cluster was closed"))

    def _post(self, event: Callable[[], None]) -> None:
        with self._changed:
            self._events.append(event)
            self._changed.notify_all()

    # --- in the thread ---

    def _run(self) -> None:
        wake: float | None = None
        while True:
            with self._changed:
                left = None if wake is None else max(0.0, wake - time.monotonic())
                self._changed.wait_for(lambda: self._events or self._closed, left)
                if self._closed:
                    return
                events, self._events = self._events, deque()
            try:
                for event in events:
                    event()
                wake = self._send_all()
            except Exception as error:  # a fault here must not leave calls without an answer
                self._fail(error)

    def _update(self, nodes: dict[str, int]) -> None:
        for address in [each for each in self._nodes if each not in nodes]:
            calls = self._nodes.pop(address).take_all()
            running = counted(len(calls), "call")
            self._warn(f"the node at {address} is lost; {running} that it was doing will be repeated")
            for call in reversed(calls):
                self._lost(call)
        for address, workers in nodes.items():
            node = self._nodes.setdefault(address, NodeLoad(address, workers))
            if node.silent is not None and time.monotonic() - node.silent > PAUSE:
                # It lives; what it did not answer is done again, and nothing is held against a call.
                node.silent = None
                for call in reversed(node.take_all()):
                    (self._suspects if call.alone else call.pool.queue).appendleft(call)
        with self._changed:
            self.limit = MOST_AHEAD * max(BATCH, 2 * sum(node.workers for node in self._nodes.values()))
            self._changed.notify_all()

    def _lost(self, call: Call) -> None:
        """The node that had a call is lost."""
        call.losses += 1
        if call.alone:
            message = f"cost each of the {call.losses} nodes that it ran on; the last ran only this call"
            self._fail_call(call, WorkerLost("crashed", message))
        elif call.losses < GROUPED_LOSSES:
            call.pool.queue.appendleft(call)
        else:
            call.alone = True
            self._suspects.append(call)

    def _fail(self, error: Exception) -> None:
        with self._changed:
            self._error = self._error or error
        for call in list(self._unanswered.values()):
            self._fail_call(call, self._error)

    def _end(self, pool: CallPool) -> None:
        for node in self._nodes.values():
            for call in [each for each in node.calls.values() if each.pool is pool]:
                node.take(call.number)
            self._transport.end(node.address, pool.name)
        for call in [each for each in self._unanswered.values() if each.pool is pool]:
            if call.future.cancel():
                self._forget(call)
            else:
                self._fail_call(call, RuntimeError("the pool was shut down"))

    def _fail_call(self, call: Call, error: Exception) -> None:
        if self._forget(call) and _started(call.future):
            call.future.set_exception(error)

    def _forget(self, call: Call) -> bool:
        """Whether the call still lacked an answer."""
        with self._changed:
            found = self._unanswered.pop(call.number, None)
            call.pool.unanswered -= found is not None
            self._changed.notify_all()
        return found is not None

    def _send_all(self) -> float | None:
        """Sends what can be sent; returns the time at which there may be more."""
        now, wakes = time.monotonic(), []
        if self._suspects:
            self._send_suspects()
        with self._changed:
            pools = list(self._pools.values())
        for pool in pools:
            if pool.queue and len(pool.queue) < BATCH and (due := pool.queue[0].since + LINGER) > now:
                wakes.append(due)
            elif pool.queue:
                self._spread(pool)
        for node in self._nodes.values():
            for pool in pools:
                if node.owes(pool):
                    self._exchange(node, pool, [])
        return min(wakes, default=None)

    def _spread(self, pool: CallPool) -> None:
        """Gives waiting calls to the nodes with the most room."""
        while pool.queue:
            room = {node.address: free for node in self._nodes.values() if (free := node.room(pool)) > 0}
            if not room:
                return
            share = math.ceil(len(pool.queue) / len(room))
            for address in sorted(room, key=lambda each: -room[each] / self._nodes[each].workers):
                node = self._nodes[address]
                if calls := self._next(pool, min(room[address], share, max(BATCH, 2 * node.workers))):
                    self._exchange(node, pool, calls)

    def _next(self, pool: CallPool, count: int) -> list[Call]:
        """The next calls of a pool that have no answer, and that nobody has cancelled."""
        calls: list[Call] = []
        while pool.queue and len(calls) < count:
            if self._starts(call := pool.queue.popleft()):
                calls.append(call)
        return calls

    def _starts(self, call: Call) -> bool:
        if call.number not in self._unanswered:
            return False
        if not (started := _started(call.future)):
            self._forget(call)
        return started

    def _send_suspects(self) -> None:
        """Runs each call that has cost nodes on a node that has nothing else to do."""
        usable = [node for node in self._nodes.values() if node.silent is None]
        for node in usable:
            while self._suspects and not node.calls:
                if self._starts(call := self._suspects.popleft()):
                    node.reserved = True
                    self._exchange(node, call.pool, [call])
        if self._suspects and usable and not any(node.reserved for node in usable):
            min(usable, key=lambda node: len(node.calls)).reserved = True

    def _exchange(self, node: NodeLoad, pool: CallPool, calls: Sequence[Call]) -> None:
        node.give(calls)
        node.messages[pool.name] += 1
        node.started.add(pool.name)
        payloads = [(call.number, call.group, call.payload) for call in calls]
        future = self._transport.exchange(node.address, pool.name, pool.settings, node.workers, payloads, WAIT)
        future.add_done_callback(lambda done: self._post(partial(self._exchanged, node, pool, done)))

    def _exchanged(self, node: NodeLoad, pool: CallPool, done: Future[Sequence[Answer]]) -> None:
        """Takes a node's answers, even if it was counted as lost meanwhile."""
        node.messages[pool.name] -= 1
        if done.cancelled() or done.exception() is not None:
            if node.silent is None:
                node.silent = time.monotonic()
                self._suspect()
            return
        for answer in done.result():
            node.take(answer.number)
            call = self._unanswered.get(answer.number)
            if call is not None and self._forget(call) and _started(call.future):
                if answer.result is not None:
                    pool.learn(answer.seconds)
                answer.settle(call.future)
        node.reserved = node.reserved and bool(node.calls)


def _started(future: Future[Any]) -> bool:
    """Whether a future without a result is running, now at the latest; False if it was cancelled."""
    return future.running() or (not future.done() and future.set_running_or_notify_cancel())
