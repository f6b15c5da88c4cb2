"""The part that runs on a node, in its Dask worker process.

- A node has a mailbox for each client and kind of call, with a pool of killable workers. Only these unpickle calls,
  import PyTorch and run an author's code; calls of two groups, such as two tasks, never share a process.
- What a worker answers is data, here and for the client: neither executes any of it.
- An exchange brings calls and takes whatever results there are, so that a call that takes long delays no other.
- A mailbox that its client has not asked for a while is closed, and its workers end: the client is gone.
- Workers end with the Dask worker process, however that ends.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import multiprocessing
import os
import pickle
import platform
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, fields, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from pipeline.verification.isolation import answers
from pipeline.verification.pool import PoolSettings, WorkerLost, settle
from pipeline.verification.sandbox import current

PACKAGES = ("optimizers", "pipeline", "signatures", "step_runtime")


@dataclass(frozen=True)
class Software:
    """The versions of one process; `code` is a digest of the sources of `PACKAGES`."""

    code: str
    python: str
    torch: str
    numpy: str

    def differences(self, other: Software) -> str:
        """The differences, with both values: `torch 2.13.0 here, 2.12.1 there`; empty without any."""
        return ", ".join(
            f"{field.name} {mine} here, {theirs} there"
            for field in fields(self)
            if (mine := getattr(self, field.name)) != (theirs := getattr(other, field.name))
        )


@functools.cache
def installed() -> Software:
    """The versions of this process."""
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


LEASE = 60.0
"""Seconds without a request from its client after which a mailbox is closed."""

LINGER = 0.05
"""Seconds that a result may wait for others to join it, while the workers have enough to do."""

ENOUGH = 32
"""Results that wait for no others."""

Numbered = tuple[int, str, bytes]
"""A call's number, the group that it belongs to, and the pickled call."""


@dataclass(frozen=True)
class NodeFacts:
    """A node's facts about itself.

    Attributes:
        workers: Processes in each of its pools.
        daemonic: Whether its process may have no children, so that it can't be used.
    """

    software: Software
    workers: int
    daemonic: bool
    pid: int


@dataclass(frozen=True)
class Answer:
    """The result of a call.

    Attributes:
        seconds: How long it ran, by the clock.
        result: What it returned or raised, as `isolation.answers` writes it; None if it cost its worker.
        lost: The code and the text of a `WorkerLost`, and its attributes.
    """

    number: int
    seconds: float = 0.0
    result: str | None = None
    lost: tuple[Any, str, dict[str, Any]] | None = None

    def settle(self, future: Future[Any]) -> None:
        """Gives the result, or the exception, to the call's future."""
        if self.lost is None:
            settle(future, (self.result or "").encode())
            return
        code, text, attributes = self.lost
        error = WorkerLost(code, text)
        error.__dict__.update(attributes)
        future.set_exception(error)


class Mailbox:
    """A pool of so many workers, and the results that wait for the client; for use in one event loop."""

    def __init__(self, settings: PoolSettings, workers: int) -> None:
        mode = settings.sandbox.mode if settings.sandbox else current().mode
        own = replace(settings, group=group_of, sandbox=replace(current(), mode=mode))
        self._pool, self._workers = own.start(workers), workers
        self._finished: list[Answer] = []
        self._open = 0  # calls without a result
        # The pool hands out several calls at once where many wait, which those behind a slow one would wait for.
        self._turn = asyncio.Semaphore(2 * workers)
        self._changed = asyncio.Condition()
        self._waiting, self._asked = 0, time.monotonic()

    @property
    def abandoned(self) -> bool:
        """Whether the client has not asked for longer than `LEASE`."""
        return not self._waiting and time.monotonic() - self._asked > LEASE

    def put(self, calls: Sequence[Numbered]) -> None:
        """Starts calls."""
        self._open += len(calls)
        for number, group, call in calls:
            keep_running(self._run(number, group, call))

    async def take(self, wait: float) -> list[Answer]:
        """The results so far; where there is none, waits for one up to a number of seconds."""
        self._waiting += 1
        try:
            if await self._reached(lambda: bool(self._finished) or not self._open, wait):
                await self._reached(self._worth_sending, LINGER)
            taken, self._finished = self._finished, []
            return taken
        finally:
            self._waiting -= 1
            self._asked = time.monotonic()

    def close(self) -> None:
        """Ends the workers, whatever they do."""
        self._pool.kill_workers()

    def _worth_sending(self) -> bool:
        """Whether workers will soon have nothing to do, or the answer would get long."""
        return self._open <= 2 * self._workers or len(self._finished) >= ENOUGH or not self._finished

    async def _reached(self, condition: Callable[[], bool], seconds: float) -> bool:
        async with self._changed:
            try:
                return await asyncio.wait_for(self._changed.wait_for(condition), seconds)
            except TimeoutError:
                return False

    async def _run(self, number: int, group: str, call: bytes) -> None:
        try:
            async with self._turn:
                seconds, result = await asyncio.wrap_future(self._pool.submit(run_pickled, group, call))
            answer = Answer(number, seconds, result)
        except WorkerLost as error:
            answer = Answer(number, lost=(error.code, str(error), vars(error)))
        except Exception as error:  # the pool was closed, or can't start its workers
            answer = Answer(number, result=answers.raised(RuntimeError(f"{type(error).__name__}: {error}")).decode())
        async with self._changed:
            self._finished.append(answer)
            self._open -= 1
            self._changed.notify_all()


_RUNNING: set[asyncio.Task[None]] = set()


def keep_running(work: Coroutine[Any, Any, None]) -> None:
    """Runs what nobody awaits, and what the event loop alone would let be collected."""
    task = asyncio.ensure_future(work)
    _RUNNING.add(task)
    task.add_done_callback(_RUNNING.discard)


_MAILBOXES: dict[tuple[str, str], Mailbox] = {}
"""By the client's session and the pool's name."""


def facts(dask_worker: Any) -> NodeFacts:
    """The facts that the client needs about this node, whose Dask worker Dask itself passes."""
    daemonic = bool(multiprocessing.current_process().daemon)
    return NodeFacts(installed(), dask_worker.state.nthreads, daemonic, os.getpid())


async def exchange(
    place: tuple[str, str], settings: bytes, workers: int, calls: Sequence[Numbered], wait: float
) -> bytes:
    """Starts calls, and gives the results of these and of earlier ones, as a pickled list of `Answer`s.

    `place` is the client's session and the pool's name; the first exchange brings the pickled `PoolSettings` and the
    number of the pool's processes. `wait` is the seconds to wait for a result.
    """
    if place not in _MAILBOXES:
        # In a thread, as it may import PyTorch, while the node must go on with its heartbeats.
        unpickled = await asyncio.to_thread(pickle.loads, settings)
        if place not in _MAILBOXES:  # another exchange may have been first
            _MAILBOXES[place] = Mailbox(unpickled, workers)
            keep_running(_close_when_abandoned(place))
    box = _MAILBOXES[place]
    box.put(calls)
    return pickle.dumps(await box.take(wait))


async def end(session: str, pool: str | None = None) -> None:
    """Ends a client's pool, or all of them, whatever the workers are doing."""
    for place in [each for each in _MAILBOXES if each[0] == session and pool in (None, each[1])]:
        await asyncio.to_thread(_MAILBOXES.pop(place).close)


async def _close_when_abandoned(place: tuple[str, str]) -> None:
    while place in _MAILBOXES:
        await asyncio.sleep(LEASE / 8)
        if place in _MAILBOXES and _MAILBOXES[place].abandoned:
            await end(*place)


# --- what runs in a worker of the pool --------------------------------------------------------------------------------


def group_of(group: str, call: bytes) -> str:
    """The group of a call of `run_pickled`, which the client has named."""
    del call
    return group


def run_pickled(group: str, call: bytes) -> tuple[float, str]:
    """The seconds of a pickled call, and its result or exception, as `isolation.answers` writes it.

    Raises:
        MemoryError: The call exceeded the memory limit, which ends the worker.
    """
    del group
    start = time.perf_counter()
    try:
        function, args, kwargs = pickle.loads(call)
        result = answers.returned(function(*args, **kwargs))
    except MemoryError:
        raise
    except Exception as error:
        result = answers.raised(error)
    return time.perf_counter() - start, result.decode()
