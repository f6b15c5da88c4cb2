"""Worker processes that may be killed, behind `concurrent.futures.Executor`.

- A call that hangs, crashes or eats memory without end costs itself a `WorkerLost` and the pool one worker; every
  other call is answered as if nothing had happened.
- A worker that is lost is replaced at once. Its call is tried once more in the fresh one, unless its time was up, so
  that none is blamed for what an earlier call left behind, or for a process that somebody else killed.
- A call may say what it is at (`note`). Calls that come later are told of what others were lost at (`lost_at`), so
  that none need be lost there again.
- Workers end when their parent does, however it ends, and in the midst of a call too. Ctrl-C is the parent's alone.

`concurrent.futures.ProcessPoolExecutor` and loky give up all calls when a worker dies, and neither they nor
`multiprocessing.Pool` can bound a call's time. Pebble can, but its pool breaks when an idle worker is killed, and
its busy workers outlive a parent that is killed.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import pickle
import queue
import resource
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NoReturn

from pipeline.base.redaction import secret_names

BATCH = 8
"""Calls sent to a worker at a time, so that it goes on while the parent's threads wait for their turn."""

PATIENCE = 10
"""Wall time of one call, as a multiple of the limit of its processor time."""

_START = 60.0
"""Seconds that a worker may take until it is ready."""

_LAST_BREATH = 30.0
"""Seconds from the end of a worker's pipe to its exit code."""

_NOTE_BYTES = 512

_OUT_OF_MEMORY = 86
_RETIRED = 87
"""Exit codes of a worker that exceeded the memory limit, and of one that holds too much to continue."""

_METHOD = "forkserver" if sys.platform == "linux" else "spawn"
"""Both are safe with threads; a fork of a server that has imported everything is ready in 15 ms, not in seconds."""


class WorkerLost(Exception):
    """A call that cost its worker.

    Attributes: `code` says how; `at`, what the call said last that it was at; `seconds`, how much of its limit was left
    then; `waited`, that its limit was the clock's.
    """

    def __init__(self, code: Literal["time-limit", "memory-limit", "crashed"], message: str) -> None:
        super().__init__(message)
        self.code = code
        self.at = ""
        self.seconds = 0.0
        self.waited = False


class WorkerPool(Executor):
    """Processes that start in the background as soon as the pool is made.

    Leaving it as a context manager waits for all calls; where an exception is the reason, it kills the workers.

    Args:
        workers: how many.
        seconds: processor time of one call; one that waits may take `PATIENCE` times as long by the clock.
        memory: bytes that calls may hold in a worker, which ends at half of that between two; kept by Linux only.
        initializer: called in every worker before its first call.
        preload: modules that workers find imported when they start.
    """

    def __init__(
        self,
        workers: int,
        *,
        seconds: float,
        memory: int,
        initializer: Callable[[], object] | None = None,
        preload: Sequence[str] = (),
    ) -> None:
        self._context = multiprocessing.get_context(_METHOD)
        self._context.set_forkserver_preload([*preload])
        self._seconds = seconds
        self._settings = (initializer, memory, seconds)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = self._killed = False
        self._lock = threading.Lock()
        self._lost_at: dict[str, str] = {}
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
        """Calls a module's function in a worker; it and its arguments are pickled.

        The future raises what the function raises, or `WorkerLost`.

        Raises:
            RuntimeError: the pool is shut down.
        """
        job = _Job(Future(), pickle.dumps((fn, args, kwargs)))
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
        # Else it is started with the first process, and undoes what follows. One that died is told by a warning, which
        # may be an error here; the next call replaces it.
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
                    worker.send((dict(self._lost_at), [job.call for job in jobs]))
                    while jobs:
                        jobs[0].finish(*worker.receive(PATIENCE * self._seconds))
                        jobs.popleft()
            except _Retired:
                pass
            except WorkerLost as error:
                more = self._killed or bool(jobs) or self._take(jobs)
                if more and not self._killed and jobs[0].lost(error, worker.ready):
                    self._learn(error, jobs.popleft())
            finally:
                worker.kill()
        for job in jobs:
            job.future.set_exception(RuntimeError("the pool was shut down"))

    def _learn(self, error: WorkerLost, job: _Job) -> None:
        """Keeps what a call was lost at, where that alone is the reason: half the time went there, or two workers."""
        alone = error.seconds >= self._seconds / 2 if error.code == "time-limit" else job.at == error.at
        if error.at and alone:
            self._lost_at[error.at] = str(error)

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


@dataclass
class _Job:
    """A call, pickled, and its future; `retried` once it has cost a worker, when it was `at` something."""

    future: Future[Any]
    call: bytes
    retried: bool = False
    at: str = ""

    def finish(self, returned: bool, value: Any) -> None:
        """The call was answered."""
        if returned:
            self.future.set_result(value)
        else:
            self.future.set_exception(value)

    def lost(self, error: WorkerLost, ready: bool) -> bool:
        """A worker was lost, at this call or, not ready yet, before it; whether that settles the call."""
        if not self.retried and not (ready and error.code == "time-limit"):
            self.retried, self.at = True, error.at
            return False
        self.future.set_exception(error if ready else RuntimeError(f"worker processes can't start: the last {error}"))
        return True


class _Retired(Exception):
    """A worker ended by itself between two calls."""


class _Worker:
    """A process and the parent's end of its pipe; `ready` once it has started."""

    def __init__(self, context: Any, settings: tuple[Any, ...]) -> None:
        self._connection, self._theirs = context.Pipe()
        self._note = context.RawArray("c", _NOTE_BYTES)
        self._process = context.Process(target=_work, args=(self._theirs, self._note, *settings), daemon=True)
        self._seconds = settings[-1]
        self.ready = False

    @property
    def started(self) -> bool:
        """Whether there is a process, be it ready, at work or gone."""
        return self._process.pid is not None

    def start(self) -> None:
        """Starts the process, and waits until it is ready.

        Raises:
            WorkerLost: it could not be started, or died on the way.
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
        # A worker that is gone is noticed when its answer is waited for.
        with contextlib.suppress(OSError):
            self._connection.send(message)

    def receive(self, seconds: float) -> Any:
        """The next answer.

        Raises:
            WorkerLost: there is none within the time given, or the process died.
            _Retired: the process ended as it should.
        """
        try:
            if self._connection.poll(seconds):
                return self._connection.recv()
        except Exception as error:  # no pipe any more, or what comes out of it can't be read
            self._process.join(_LAST_BREATH)
            raise self._noted(_cause(self._process.exitcode, self._seconds)) from error
        late = WorkerLost("time-limit", f"took longer than {seconds:g} s by the clock and was killed")
        late.waited = True
        raise self._noted(late)

    def _noted(self, error: WorkerLost | _Retired) -> WorkerLost | _Retired:
        """The error, with the call's last note."""
        when, _, rest = self._note.value.decode(errors="replace").partition(" ")
        left, _, text = rest.partition(" ")
        if text and isinstance(error, WorkerLost):
            waited = (time.monotonic() - float(when)) / PATIENCE
            error.at, error.seconds = text, waited if error.waited else float(left)
        return error

    def kill(self) -> None:
        """Ends the process, whatever it is at."""
        if self.started:
            self._process.kill()
            self._process.join()


def _cause(exit_code: int | None, seconds: float) -> WorkerLost | _Retired:
    """What the end of a process means, of which a call has so many seconds of processor time."""
    if exit_code == -signal.SIGPROF:
        return WorkerLost("time-limit", f"took longer than {seconds:g} s of processor time and was killed")
    if exit_code == _RETIRED:
        return _Retired()
    if exit_code == _OUT_OF_MEMORY:
        return WorkerLost("memory-limit", "exceeded the memory limit: it asked for more than a worker may hold")
    how = "closed its pipe" if exit_code is None else f"ended its process with exit code {exit_code}"
    return WorkerLost("crashed", f"crashed: {signal.Signals(-exit_code).name}" if exit_code and exit_code < 0 else how)


# --- what runs in a worker --------------------------------------------------------------------------------------------


class _Here:
    """What this process, if it is a worker, shares with its parent."""

    note: Any = None
    lost_at: Mapping[str, str] = MappingProxyType({})


def note(text: str) -> None:
    """Says what the call is at, for the parent to know if it is lost there; elsewhere than in a worker, nothing."""
    if _Here.note is not None:
        # The clock is the whole machine's. Both are of one width, so that a note half-written has times to read.
        times = f"{time.monotonic():020.6f} {signal.getitimer(signal.ITIMER_PROF)[0]:020.6f}"
        _Here.note.value = f"{times} {text}".encode()[: _NOTE_BYTES - 1] if text else b""


def lost_at() -> Mapping[str, str]:
    """Notes that are reason enough to lose a worker, as earlier calls of the pool did, and what became of these."""
    return _Here.lost_at


def _work(
    connection: Connection, shared: Any, initializer: Callable[[], object] | None, memory: int, seconds: float
) -> None:
    """A worker's life: batches of calls come in, an answer a call goes out."""
    _Here.note = shared
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # An author's code has no use for keys.
    for name in secret_names():
        del os.environ[name]
    if initializer is not None:
        initializer()
    if sys.platform == "linux":
        data_pages = int(Path("/proc/self/statm").read_text().split()[5])
        limit = data_pages * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    _silence()
    connection.send(None)
    # What an author's code leaves behind must not starve the calls after it.
    most = _peak_memory() + memory / 2
    while _peak_memory() < most:
        try:
            _Here.lost_at, calls = connection.recv()
        except EOFError:
            return
        for call in calls:
            # Past it the process is killed, whatever it is at; the parent has the clock.
            signal.setitimer(signal.ITIMER_PROF, seconds)
            answer = _answer(call)
            signal.setitimer(signal.ITIMER_PROF, 0)
            connection.send_bytes(answer)
            note("")
    os._exit(_RETIRED)


def _answer(call: bytes) -> bytes:
    """Whether the call returned, and what it returned or raised; pickled. `sys.exit` ends the worker."""
    try:
        fn, args, kwargs = pickle.loads(call)
        return pickle.dumps((True, fn(*args, **kwargs)))
    except MemoryError:
        os._exit(_OUT_OF_MEMORY)
    except Exception as error:
        try:
            answer = pickle.dumps((False, error))
            pickle.loads(answer)
        except Exception:  # an exception with arguments of its own may not survive the way
            answer = pickle.dumps((False, RuntimeError(f"{type(error).__name__}: {error}")))
        return answer


def _end_with_parent() -> NoReturn:
    parent = multiprocessing.parent_process()
    wait([parent.sentinel] if parent else [])
    os._exit(0)


def _silence() -> None:
    """What an author's code prints, or the C library on its behalf, would spoil the parent's own output."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)


def _peak_memory() -> int:
    """The most bytes that this process ever had in memory."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
