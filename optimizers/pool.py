"""A pool of threads for jobs that mostly wait.

Invariants: every job runs in its own copy of the context in which the pool was made, so that `dspy.context` holds in
it; no job starts after `stop`; the result of a started job is delivered, in order of completion, unless its time runs
out; nothing starts before the first iteration; at most `threads` jobs are started and not yet delivered, so that the
iterating thread can stop in time; threads are daemons, so a request that hangs does not keep the interpreter alive.

Hand-written, since `concurrent.futures` starts jobs ahead of their results and waits for its threads at exit.
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
_DONE: Any = object()


class Pool(Generic[J, R]):
    """Iterating over it gives the results of `work` over `jobs`; exceptions of `work` and `jobs` are raised there.

    Where `tick` seconds pass without a result, it gives None, so that the iterating thread can look at the clock.
    """

    def __init__(self, work: Callable[[J], R], jobs: Iterable[J], threads: int, *, tick: float = float("inf")) -> None:
        self._work, self._jobs, self._tick = work, iter(jobs), tick
        self._context = contextvars.copy_context()
        self._results: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        self._lock, self._stopped = threading.Lock(), False
        self._permits, self._threads = threading.Semaphore(threads), threads
        self._serving, self._deadline = 0, float("inf")
        self._started = False

    def stop(self, patience: float = float("inf")) -> None:
        """Starts no further jobs; delivers the results of running jobs for another `patience` seconds."""
        self._deadline = min(self._deadline, time.monotonic() + patience)
        if not self._stopped:
            self._stopped = True
            self._permits.release(self._threads)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Delays Ctrl-C (and SIGTERM, if handled the same way) until between two results, or the end.

        So no result is lost while it is processed; a second Ctrl-C is raised at once. Outside the main thread, and
        where SIGINT has another handler, nothing changes.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed.
        """
        raising = signal.default_int_handler
        ours = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is raising]
        noted = False

        def set_handlers(handler: Any) -> None:
            for number in ours if threading.current_thread() is threading.main_thread() else ():
                signal.signal(number, handler)

        def note(*_: object) -> None:
            nonlocal noted
            noted = True
            set_handlers(raising)
            self._results.put((None, KeyboardInterrupt()))  # which is safe to call from a signal handler

        set_handlers(note)
        try:
            yield
        finally:
            set_handlers(raising)
        if noted:
            raise KeyboardInterrupt

    def __iter__(self) -> Iterator[R | None]:
        if not self._started:
            self._started = True
            for number in range(self._threads):
                self._serving += 1
                threading.Thread(target=self._serve, name=f"sample-{number}", daemon=True).start()
        while self._serving:
            remaining = self._deadline - time.monotonic()
            wait = max(0.0, min(remaining, self._tick))
            try:
                result, error = self._results.get(timeout=None if wait == float("inf") else wait)
            except queue.Empty:
                if remaining <= self._tick:
                    return
                yield None
                continue
            if result is _DONE:
                self._serving -= 1
                self._permits.release()
            elif error is not None:
                self.stop()
                raise error
            else:
                yield result
                self._permits.release()

    def _next(self) -> Any:
        self._permits.acquire()
        with self._lock:
            return _DONE if self._stopped else next(self._jobs, _DONE)

    def _serve(self) -> None:
        try:
            while (job := self._next()) is not _DONE:
                self._results.put((self._context.copy().run(self._work, job), None))
        except BaseException as error:  # delivered to, and raised in, the thread that iterates
            self._results.put((None, error))
        finally:
            self._results.put((_DONE, None))
