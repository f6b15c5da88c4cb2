"""The load of nodes: calls, their pools, and the number of calls that a node may have."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

AHEAD = 0.25
"""Seconds of work that a node has waiting for each of its workers."""

MOST_AHEAD = 32
"""Calls for each worker of a node, at most."""

MESSAGES = 3
"""Exchanges with a node, for each pool, that may be under way."""


@dataclass(eq=False)
class CallPool:
    """Calls of one kind: those that wait, how many are unanswered, and how long they take."""

    name: str
    settings: bytes
    queue: deque[Call] = field(default_factory=deque)
    unanswered: int = 0
    seconds: float | None = None

    def window(self, workers: int) -> int:
        """How many calls a node may have."""
        ahead = 1.0 if self.seconds is None else min(MOST_AHEAD - 1, AHEAD / max(self.seconds, 1e-6))
        return math.ceil(workers * (1 + ahead))

    def learn(self, seconds: float) -> None:
        """Takes the time of one call into account."""
        self.seconds = seconds if self.seconds is None else 0.9 * self.seconds + 0.1 * seconds


@dataclass(eq=False)
class Call:
    """A pickled call; `losses` counts the nodes that it cost, and `alone` says that it is to have a node for itself."""

    pool: CallPool
    number: int
    payload: bytes
    group: str
    future: Future[Any]
    since: float
    losses: int = 0
    alone: bool = False


@dataclass(eq=False)
class NodeLoad:
    """A node and its load.

    Attributes:
        workers: Processes in each of its pools.
        calls: Those without an answer, by number.
        messages: Exchanges under way, by pool.
        started: The pools that it has heard of.
        reserved: Whether it gets no other calls, as one is to run alone.
        silent: Since when it owes an answer to a failed exchange, by the monotonic clock; None: it does not.
    """

    address: str
    workers: int
    calls: dict[int, Call] = field(default_factory=dict)
    messages: Counter[str] = field(default_factory=Counter)
    started: set[str] = field(default_factory=set)
    reserved: bool = False
    silent: float | None = None
    _load: Counter[str] = field(default_factory=Counter)

    def give(self, calls: Iterable[Call]) -> None:
        """It has these calls now."""
        for call in calls:
            self.calls[call.number] = call
            self._load[call.pool.name] += 1

    def take(self, number: int) -> None:
        """It has done a call."""
        call = self.calls.pop(number, None)
        if call is not None:
            self._load[call.pool.name] -= 1

    def take_all(self) -> list[Call]:
        """All its calls, the earliest first; it has none now."""
        calls = list(self.calls.values())
        self.calls.clear()
        self._load.clear()
        self.reserved = False
        return calls

    def owes(self, pool: CallPool) -> bool:
        """Whether it is to be asked for results of a pool, or to start it."""
        asked = self.messages[pool.name] or self.silent is not None
        return not asked and (self._load[pool.name] > 0 or pool.name not in self.started)

    def room(self, pool: CallPool) -> int:
        """How many more calls of a pool it may have."""
        busy = self.reserved or self.silent is not None or self.messages[pool.name] >= MESSAGES
        return 0 if busy else pool.window(self.workers) - self._load[pool.name]
