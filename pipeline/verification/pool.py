"""Worker processes for code that is not trusted, behind `concurrent.futures.Executor`.

- A call that hangs, crashes or eats memory without end costs itself a `WorkerLost`, and no other call anything.
- Calls of one group, such as those of one task, share a process, and those of two groups never do. What runs there
  can't reach this process: its answers are data. See `isolation.warden`, which enforces the limits, and `docs`.
- A call whose process is lost is tried once more in a fresh one, unless its time was up, so that none is blamed for
  what an earlier call left behind, or for a process that somebody else killed.
- A call may say what it is at (`notes`). Later calls of its group know what it was lost at, so that none need be lost
  there again; those of another group don't, as an author's code could write any note.
- Workers end when their parent does, however it ends, and in the midst of a call too. Ctrl-C is the parent's alone.

`concurrent.futures.ProcessPoolExecutor` and loky give up all calls when a worker dies, and neither they nor
`multiprocessing.Pool` can bound a call's time. Pebble can, but its pool breaks when an idle worker is killed, and
its busy workers outlive a parent that is killed.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import multiprocessing
import os
import pickle
import queue
import signal
import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Any, Literal, Protocol

from pipeline.verification.isolation import answers, warden
from pipeline.verification.isolation.confinement import Sandbox, current

BATCH = 8
"""Calls sent to a worker at a time, so that it continues while the parent's threads wait for their turn."""

PATIENCE = 10
"""Wall time of one call, as a multiple of the limit of its processor time, unless a pool has another."""

_START = 60.0
"""Seconds that a worker may take until it is ready."""

_GRACE = 30.0
"""Seconds beyond a call's limit after which its worker itself is killed."""
MAX_LOST = 1000
"""What calls were lost at is remembered for so many of them, the latest ones."""

_FAREWELL = 10.0
"""Seconds that a worker has to end what it has running, and itself."""

_UNGUARDED = 86
"""The exit code of a worker whose parent's script starts workers when it is imported."""
_GUARD = 'ran the script that starts them: put the script\'s calls under `if __name__ == "__main__":`'
_METHOD = "forkserver" if sys.platform == "linux" else "spawn"
"""Both are safe with threads; a fork of a server that has imported everything is ready in 15 ms, not in seconds."""


LossCode = Literal["time-limit", "memory-limit", "crashed", "killed", "tampered"]


def cores() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class WorkerLost(Exception):
    """A call that cost the process that it ran in.

    Attributes:
        code: How: `killed` by something else, or `tampered` with what judges programs; the others say it.
        at: What the call said last that it was at.
        seconds: How much of its limit it used after that.
        spent: Processor time that it had used when it was lost, in seconds.
    """

    def __init__(self, code: LossCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.at = ""
        self.seconds = 0.0
        self.spent = 0.0
        self.waited = False


@dataclass(frozen=True)
class PoolSettings:
    """How the workers of a pool are made, and what their calls may use.

    Attributes:
        seconds: Processor time of one call.
        memory: Bytes that a call may hold, its own processes included; its process ends at half of that between two
            calls. Kept by Linux only.
        initializer: A module's function, called in every worker before its first call; what it returns, if anything,
            says after a call whether what judges programs is what it was.
        preload: Modules that workers find imported.
        group: A module's function, called with a call's arguments: only calls of one group share a process.
        reads: Likewise: the files that a process of its group may read.
        sandbox: What these processes are confined to; None for what applies where they are.
        patience: The limit of a call by the clock, as a multiple of its processor time; None for `PATIENCE`.
        alone: Whether each call has a process of its own, so that nothing of it reaches a later one.
    """

    seconds: float
    memory: int
    initializer: Callable[[], Callable[[], bool] | None] | None = None
    preload: tuple[str, ...] = ()
    group: Callable[..., str] | None = None
    reads: Callable[..., tuple[str, ...]] | None = None
    sandbox: Sandbox | None = None
    patience: int | None = None
    alone: bool = False

    def start(self, workers: int) -> WorkerPool:
        """A pool of this machine's processes."""
        return WorkerPool(workers, **vars(self))


class WorkerPool(Executor):
    """Processes that start in the background as soon as the pool is made.

    Leaving it as a context manager waits for all calls; where an exception is the reason, it kills the workers.

    Args:
        workers: How many calls run at a time.
        settings: The fields of `PoolSettings`.

    Attributes:
        sandbox: What its processes are confined to.
    """

    def __init__(self, workers: int, **settings: Any) -> None:
        # True in a worker while it imports its parent's script, in which it may start no processes.
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            os._exit(_UNGUARDED)
        self._how = how = PoolSettings(**settings)
        self.sandbox = how.sandbox or current()
        self._context = multiprocessing.get_context(_METHOD)
        self._context.set_forkserver_preload([*how.preload])
        patience = how.patience or PATIENCE
        self._longest = patience * how.seconds
        limits = warden.Limits(how.seconds, patience, how.memory, how.alone)
        self._settings = (how.initializer, limits, self.sandbox)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = self._killed = False
        self._lock = threading.Lock()
        self._lost_at: dict[tuple[str, str], str] = {}
        self._workers: dict[int, _Worker] = {}
        self._threads = [
            threading.Thread(target=self._serve, args=(number,), name=f"worker-{number}", daemon=True)
            for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()
        # Before multiprocessing's own, which asks politely and waits.
        atexit.register(self.kill_workers)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Calls a module's function in a worker; it and its arguments are pickled, and its result is data.

        The future raises what the function raises, if that is one of Python's exceptions or of this project's, or
        `WorkerLost`. See `isolation.answers` on results and exceptions.

        Raises:
            RuntimeError: The pool is shut down.
        """
        group = self._how.group(*args, **kwargs) if self._how.group else ""
        reads = self._how.reads(*args, **kwargs) if self._how.reads else ()
        # What runs an author's code answers with what the function gives, and raises what the language raises.
        result = answers.result_type(fn) if self._how.group else None
        job = _Job(Future(), pickle.dumps((fn, args, kwargs)), group, fn.__module__, reads, result)
        with self._lock:
            if self._closed:
                raise RuntimeError("the pool is shut down")
            self._jobs.put(job)
        return job.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no more calls, and ends the workers when those it has are done; idempotent."""
        with self._lock:
            closed, self._closed = self._closed, True
        if cancel_futures:
            with contextlib.suppress(queue.Empty):
                while True:
                    if job := self._jobs.get_nowait():
                        job.future.cancel()
        if not closed or cancel_futures:
            for _ in self._threads:
                self._jobs.put(None)
        if wait:
            for number, thread in enumerate(self._threads):
                # One that waits for its first process ends by itself: the server that starts it imports torch before.
                worker = self._workers.get(number)
                if not self._killed or (worker and worker.started):
                    thread.join()
            atexit.unregister(self.kill_workers)

    def kill_workers(self) -> None:
        """Takes no more calls, cancels those that wait, and kills those that run."""
        self._killed = True
        self.shutdown(wait=False, cancel_futures=True)
        for worker in list(self._workers.values()):
            worker.kill()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.kill_workers()
        self.shutdown()

    def _serve(self, number: int) -> None:
        """One worker's thread: keeps a process alive, and does what is asked of the pool in it."""
        # Otherwise it starts with the first process, and undoes what follows. A warning, which may be an error here,
        # reports that it has died; the next call replaces it.
        with contextlib.suppress(UserWarning):
            resource_tracker.ensure_running()
        resource_tracker.ensure_running()
        # Inherited by the processes that start from here, from their first moment on.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        jobs: deque[_Job] = deque()
        more = True
        while more and not self._killed:
            worker = self._workers[number] = _Worker(self._context, self._settings)
            try:
                worker.start()
                while more := bool(jobs) or self._take(jobs):
                    self._batch(worker, jobs)
            except WorkerLost as error:
                more = self._killed or bool(jobs) or self._take(jobs)
                if more and not self._killed and jobs[0].lost(error, worker.ready):
                    self._learn(error, jobs.popleft())
                    # Where none can start, the next call is waited for: a start that the end of this process
                    # interrupts has its child print a traceback.
                    more = worker.ready or bool(jobs) or self._take(jobs)
            finally:
                worker.kill()
        for job in jobs:
            job.future.set_exception(RuntimeError("the pool was shut down"))

    def _batch(self, worker: _Worker, jobs: deque[_Job]) -> None:
        """Has calls answered; those whose process was lost, and that are to be tried again, stay in `jobs`."""
        worker.send([(job.group, job.module, job.reads, self._lost_of(job.group), job.call) for job in jobs])
        again = []
        try:
            while jobs:
                answer = worker.receive(self._longest + _GRACE)
                job = jobs.popleft()
                if isinstance(answer, bytes):
                    settle(job.future, answer, job.result)
                elif job.lost(answer.error, answer.ready):
                    self._learn(answer.error, job)
                else:
                    again.append(job)
        finally:
            jobs.extend(again)

    def _learn(self, error: WorkerLost, job: _Job) -> None:
        """Keeps what a call was lost at, where that alone is the reason: half the time went there, or two workers."""
        alone = error.seconds >= self._how.seconds / 2 if error.code == "time-limit" else job.at == error.at
        if error.at and alone and error.code != "killed":
            with self._lock:
                self._lost_at[job.group, error.at] = str(error)
                if len(self._lost_at) > MAX_LOST:
                    del self._lost_at[next(iter(self._lost_at))]

    def _lost_of(self, group: str) -> dict[str, str]:
        """What calls of a group were lost at."""
        with self._lock:
            return {at: what for (own, at), what in self._lost_at.items() if own == group} if self._lost_at else {}

    def _take(self, jobs: deque[_Job]) -> bool:
        """Waits for a call, and takes this worker's share of those that wait too; False when there will be none."""
        job = self._jobs.get()
        share = min(BATCH, 1 + self._jobs.qsize() // len(self._threads))
        with contextlib.suppress(queue.Empty):
            while job is not None:
                if job.future.set_running_or_notify_cancel():
                    jobs.append(job)
                if len(jobs) == share:
                    return True
                job = self._jobs.get(block=not jobs)
            self._jobs.put(None)
        return bool(jobs)


def settle(future: Future[Any], answer: bytes, result: Any = None) -> None:
    """Gives a call's result or exception to its future; an invalid answer is the loss of its worker.

    Args:
        future: The call's.
        answer: What the worker answered.
        result: The type of what an author's code may have made up, which then may raise no more than the language's
            exceptions; None for a call that runs none.
    """
    try:
        returned, value = answers.read(answer)
        if result is not None and returned and not answers.conforms(value, result):
            raise ValueError("answered with something else than the call gives")
        if result is not None and not returned and not type(value).__module__.startswith("step_runtime."):
            raise ValueError(f"raised {type(value).__name__}: {value}")
    except ValueError as error:
        returned, value = False, WorkerLost("crashed", str(error))
    if returned:
        future.set_result(value)
    else:
        future.set_exception(value)


@dataclass
class _Job:
    """A call, pickled, its future, and what it gives if it runs an author's code.

    It is `retried` once it has cost a process, when it was `at` something.
    """

    future: Future[Any]
    call: bytes
    group: str
    module: str
    reads: tuple[str, ...]
    result: Any = None
    retried: bool = False
    at: str = ""

    def lost(self, error: WorkerLost, ready: bool) -> bool:
        """A process was lost, at this call or, not ready yet, before it; whether that settles the call."""
        if not self.retried and not (ready and error.code in ("time-limit", "tampered")):
            self.retried, self.at = True, error.at
            return False
        self.future.set_exception(error if ready else RuntimeError(f"worker processes can't start: the last {error}"))
        return True


@dataclass(frozen=True)
class _Loss:
    """A call that was lost, as its worker reports it; `ready` if its process had started."""

    error: WorkerLost
    ready: bool


class _Worker:
    """A warden, and the parent's end of its pipe; `ready` once it has started."""

    def __init__(self, context: Any, settings: tuple[Any, ...]) -> None:
        self._connection, self._theirs = context.Pipe()
        self._process = context.Process(target=warden.run, args=(self._theirs, *settings), daemon=True)
        self.ready = False

    @property
    def started(self) -> bool:
        """Whether there is a process, ready, running or gone."""
        return self._process.pid is not None

    def start(self) -> None:
        """Starts the process, and waits until it is ready.

        Raises:
            WorkerLost: It could not be started, or died on the way.
        """
        try:
            self._process.start()
        # A RuntimeError where a script is imported by its own workers; a warning, which may be an error, where
        # multiprocessing's resource tracker has died.
        except (OSError, EOFError, RuntimeError, UserWarning) as error:
            raise WorkerLost("crashed", f"was refused by the system: {error}") from error
        self._theirs.close()
        self.receive(_START)
        self.ready = True

    def send(self, message: Any) -> None:
        """Sends calls."""
        # A worker that is gone is noticed when its answer is waited for.
        with contextlib.suppress(OSError):
            self._connection.send(message)

    def receive(self, seconds: float) -> bytes | _Loss:
        """The next answer, or the loss of its call.

        Raises:
            WorkerLost: There is none within the time given, or the process died.
        """
        try:
            if not self._connection.poll(seconds):
                raise WorkerLost("time-limit", f"did not answer within {seconds:g} s, nor was it killed")
            message: bytes = self._connection.recv_bytes()
        except (EOFError, OSError) as error:
            self._process.join(_FAREWELL)
            code = self._process.exitcode
            if code is None or code < 0:
                raise WorkerLost("killed", "was killed by the system") from error
            ended = _GUARD if code == _UNGUARDED else f"ended its process with exit code {code}"
            raise WorkerLost("crashed", ended) from error
        if message[:1] == warden.ANSWER:
            return message[1:]
        report = json.loads(message[1:])
        lost = WorkerLost(report["code"], report["message"])
        lost.at, lost.seconds, lost.waited = report["at"], report["seconds"], report["waited"]
        lost.spent = report["spent"]
        return _Loss(lost, report["ready"])

    def kill(self) -> None:
        """Ends the process and all that it has running."""
        if self.started:
            self._process.terminate()
            self._process.join(_FAREWELL)
            self._process.kill()
            self._process.join()


class KillableExecutor(Executor, ABC):
    """An executor whose running calls can be ended; a call that costs its worker raises `WorkerLost`."""

    @abstractmethod
    def kill_workers(self) -> None:
        """Takes no more calls, cancels those that wait, and ends those that run."""


class Workers(Protocol):
    """Workers on one machine or many."""

    @property
    def count(self) -> int:
        """How many calls can run at a time, now."""

    def pool(self, settings: PoolSettings, most: int | None = None) -> WorkerPool | KillableExecutor:
        """An executor whose calls have these limits, and which gets `most` calls, if that is known."""


class LocalWorkers:
    """Workers of this machine: in each pool so many, or one per core."""

    def __init__(self, count: int | None = None) -> None:
        self.count = count or cores()

    def pool(self, settings: PoolSettings, most: int | None = None) -> WorkerPool:
        """A pool of processes that start at once."""
        return settings.start(self.count if most is None else max(1, min(self.count, most)))
