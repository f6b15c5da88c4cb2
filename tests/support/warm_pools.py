"""Worker processes that commands in this process use one after another: their start takes as long as their work.

A pool is handed on when it is left, unless a call of it was lost or goes on, and until it has met many tasks.
"""

from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

from pipeline.verification.isolation.confinement import current
from pipeline.verification.pool import PoolSettings, WorkerLost, WorkerPool

MOST_GROUPS = 24
"""Each has a process in a worker, which takes memory."""
MOST_POOLS = 6
"""That wait for another test."""
MOMENT = 2.0
"""Seconds, after which it is cheaper to start another pool."""


class WarmPools:
    """Pools of workers that are ready, by their settings and their number of workers, the latest last."""

    def __init__(self) -> None:
        self._home = Path.cwd()
        self._ready: list[_Pool] = []
        self._lock = Lock()

    def start(self, settings: PoolSettings, workers: int) -> Executor:
        """In the place of `PoolSettings.start`; a test that has changed its folder gets workers there."""
        settings = replace(settings, sandbox=settings.sandbox or current())
        if Path.cwd() != self._home:
            return WorkerPool(workers, **vars(settings))
        with self._lock:
            found = next((pool for pool in self._ready if pool.key == (settings, workers)), None)
            self._ready = [pool for pool in self._ready if pool is not found]
        return Lease(found or _Pool(settings, workers), self._keep)

    def _keep(self, pool: "_Pool") -> None:
        with self._lock:
            ready = [*self._ready, pool]
            old, self._ready = ready[:-MOST_POOLS], ready[-MOST_POOLS:]
        for each in old:
            each.kill_workers()

    def close(self) -> None:
        """Ends the workers."""
        for pool in self._ready:
            pool.kill_workers()


class _Pool(WorkerPool):
    def __init__(self, settings: PoolSettings, workers: int) -> None:
        super().__init__(workers, **vars(settings))
        self.key = settings, workers
        self.group_of = settings.group or (lambda *args, **kwargs: "")
        self.groups: set[str] = set()


class Lease(Executor):
    """A pool until it is left; then, or if it is lost, it takes no more calls, as one's own."""

    def __init__(self, pool: _Pool, hand_on: Callable[[_Pool], object]) -> None:
        self._pool, self._hand_on = pool, hand_on
        self._futures: list[Future[Any]] = []
        self._left = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self._left:
            raise RuntimeError("the pool is shut down")
        self._pool.groups.add(self._pool.group_of(*args, **kwargs))
        self._futures.append(self._pool.submit(fn, *args, **kwargs))
        return self._futures[-1]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures or not wait:
            self.kill_workers()
        self._leave()

    def kill_workers(self) -> None:
        """As of a pool of one's own; what ends at once is waited for."""
        for future in self._futures:
            future.cancel()
        if wait(self._futures, MOMENT).not_done:
            self._left = True
            self._pool.kill_workers()
        self._leave()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.kill_workers()
        self._leave()

    def _leave(self) -> None:
        if self._left:
            return
        self._left = True
        wait(self._futures)
        lost = any(not each.cancelled() and isinstance(each.exception(), WorkerLost) for each in self._futures)
        if lost or len(self._pool.groups) > MOST_GROUPS:
            self._pool.kill_workers()
        else:
            self._hand_on(self._pool)
