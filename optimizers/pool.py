"""A pool of threads for jobs that mostly wait.

Invariants: every job runs in its own copy of the context in which the pool was made, so `dspy.context` holds
in it; no job begins after `stop`; a job that began is delivered, in order of completion, unless its time ran
out; nothing begins before the first iteration; no more than `threads` jobs have begun and not been taken in,
so whoever iterates can stop in time;
threads are daemons, so a request that hangs cannot keep the interpreter from leaving.
"""

from __future__ import annotations

import contextvars
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

J = TypeVar("J")
R = TypeVar("R")
_LEFT: Any = object()


class Pool(Generic[J, R]):
    """Iterating over it delivers the results of `work` over `jobs`; what `work` or `jobs` raises is raised there."""

    def __init__(self, work: Callable[[J], R], jobs: Iterable[J], threads: int) -> None:
        self._work, self._jobs = work, iter(jobs)
        self._context = contextvars.copy_context()
        self._outcomes: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        self._lock, self._stopped = threading.Lock(), False
        self._permits, self._threads = threading.Semaphore(threads), threads
        self._serving, self._deadline = 0, float("inf")
        self._begun = False

    def stop(self, patience: float = float("inf")) -> None:
        """Lets no further job begin; those that run have `patience` seconds left to be delivered."""
        self._stopped = True
        self._deadline = min(self._deadline, time.monotonic() + patience)
        self._permits.release(self._threads)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Within, Ctrl-C (and SIGTERM, where it is handled alike) is raised between two results, or else at the end.

        So no result is lost while it is taken in; a second Ctrl-C is raised at once. Nothing changes in other threads
        than the main one, and where SIGINT is handled in another way.

        Raises:
            KeyboardInterrupt: As told.
        """
        raising = signal.default_int_handler
        ours = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is raising]
        noted = False

        def settle(handler: Any) -> None:
            for number in ours if threading.current_thread() is threading.main_thread() else ():
                signal.signal(number, handler)

        def note(*_: object) -> None:
            nonlocal noted
            noted = True
            settle(raising)
            self._outcomes.put((None, KeyboardInterrupt()))  # which is safe to call from a signal handler

        settle(note)
        try:
            yield
        finally:
            settle(raising)
        if noted:
            raise KeyboardInterrupt

    def __iter__(self) -> Iterator[R]:
        if not self._begun:
            self._begun = True
            for number in range(self._threads):
                self._serving += 1
                threading.Thread(target=self._serve, name=f"sample-{number}", daemon=True).start()
        while self._serving:
            try:
                result, error = self._outcomes.get(timeout=self._remaining())
            except queue.Empty:
                return
            if result is _LEFT:
                self._serving -= 1
                self._permits.release()
            elif error is not None:
                self.stop()
                raise error
            else:
                yield result
                self._permits.release()

    def _remaining(self) -> float | None:
        return None if self._deadline == float("inf") else max(0.0, self._deadline - time.monotonic())

    def _next(self) -> Any:
        self._permits.acquire()
        with self._lock:
            return _LEFT if self._stopped else next(self._jobs, _LEFT)

    def _serve(self) -> None:
        try:
            while (job := self._next()) is not _LEFT:
                self._outcomes.put((self._context.copy().run(self._work, job), None))
        except BaseException as error:  # delivered to, and raised in, the thread that iterates
            self._outcomes.put((None, error))
        finally:
            self._outcomes.put((_LEFT, None))
