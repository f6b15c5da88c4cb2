"""A worker's warden: a process that runs no author's code, and holds those that do, its cells, to limits from outside.

It alone holds the connection to the parent. Each group of calls, such as those of one task, has a cell of its own,
forked from this process, whose answers it passes on without reading them. It watches time, memory, the length of
answers and the number of processes, and before it passes on an answer, it ends all that the call has left behind. It
ends, and all below it, when the parent does.

A cell serves the calls of its group: calls come in, answers go out. It holds no connection but the one to its warden,
a message of which is its length in eight bytes, then its content. It has a private temporary folder, gone with it; a
worker has one folder for all its cells, and holds a lock on it while it lives: what a worker left that was killed is
removed by whichever starts next.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import importlib
import itertools
import json
import mmap
import multiprocessing
import os
import pickle
import secrets
import select
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NoReturn

from pipeline.verification.isolation import answers, processes
from pipeline.verification.isolation.confinement import Confinement, Sandbox

# --- notes: what a call says that it is doing, and what earlier calls were lost at ------------------------------------

NOTE_BYTES = 512
"""Length of a note, as it is shared with the process that watches the call."""


@dataclass
class _Here:
    """What this process, if it runs calls, shares with the process that watches it."""

    write: Callable[[bytes], object] | None = None
    lost_at: Mapping[str, str] = field(default_factory=dict)


_HERE = _Here()


def say(text: str) -> None:
    """Says what the call is doing, for its caller to know if it is lost there; outside a worker, does nothing."""
    if _HERE.write is not None:
        # The clock is the machine's. Both times are of one width, so that a note half-written has times to read.
        times = f"{time.monotonic():020.6f} {time.process_time():020.6f}"
        _HERE.write(f"{times} {text}".encode("utf-8", "replace")[: NOTE_BYTES - 1] if text else b"")


def lost_at() -> Mapping[str, str]:
    """Notes that are reason enough to lose a worker, as earlier calls of the pool did, and what became of these."""
    return _HERE.lost_at


def become_worker(write: Callable[[bytes], object]) -> None:
    """Makes this process one that runs calls, whose notes are written by `write`."""
    _HERE.write = write


def learn_losses(lost: Mapping[str, str]) -> None:
    """Takes what earlier calls were lost at."""
    _HERE.lost_at = lost


def snippet(note: str) -> str:
    """The snippet that a call was at, and the sizes: `global at M=5`; empty for none."""
    return note.partition("\t")[2]


def read_note(note: bytes) -> tuple[str, float, float]:
    """A note's text, the time of the clock and the processor time of its process then; an empty text for none."""
    when, _, rest = note.rstrip(b"\0").decode(errors="replace").partition(" ")
    used, _, text = rest.partition(" ")
    try:
        return text, float(when), float(used)
    except ValueError:  # the process that runs an author's code can write anything
        return "", 0.0, 0.0


# --- temporary folders ------------------------------------------------------------------------------------------------

LARGEST = 2**28
"""Bytes that a cell's folder may hold."""
MOST_FILES = 10_000

_PREFIX = "adaptive-step-cells-"
_NOTHING = subprocess.DEVNULL


class Scratch:
    """The folder of one worker's cells; without one where the system has no room for temporary files."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._lock = -1
        try:
            _remove_stale(Path(tempfile.gettempdir()))
            self._folder: Path | None = Path(tempfile.mkdtemp(prefix=_PREFIX))
            self._lock = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._folder = None

    def folder(self) -> Path | None:
        """A new folder of a cell's own."""
        if self._folder is None:
            return None
        made = self._folder / str(next(self._numbers))
        try:
            made.mkdir(mode=0o700)
            os.utime(made, (0, 0))
        except OSError:
            return None
        return made

    def close(self) -> None:
        """Removes all that is left."""
        if self._folder is not None:
            remove(self._folder)
        if self._lock >= 0:
            os.close(self._lock)
        self._folder, self._lock = None, -1


def used(folder: Path | None) -> bool:
    """Whether anything was made or removed in a folder."""
    return folder is not None and os.stat(folder).st_mtime_ns != 0  # noqa: PTH116 - after each call


def remove(folder: Path | None) -> None:
    """Removes a folder, if there is one, however deep it is, and whatever its modes; links are not followed."""
    if folder is None:
        return
    with contextlib.suppress(OSError):
        folder.rmdir()  # most are empty
        return
    # Python's own would need a frame for each level, of which a cell can make any number.
    for command in (("chmod", "-R", "u+rwX"), ("rm", "-rf")):
        with contextlib.suppress(OSError):
            subprocess.run([*command, "--", folder], stdin=_NOTHING, stdout=_NOTHING, stderr=_NOTHING, check=False)


def overfull(folder: Path | None, unnamed: int = 0) -> bool:
    """Whether a folder's files, with so many bytes of unnamed ones, are more than they may be, or can't be counted."""
    left, files, size = [folder] if folder else [], 0, unnamed if folder else 0
    while left and files <= MOST_FILES and size <= LARGEST:
        try:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    files += 1
                    size += 512 * entry.stat(follow_symlinks=False).st_blocks
                    if entry.is_dir(follow_symlinks=False):
                        left.append(Path(entry.path))
        except (FileNotFoundError, NotADirectoryError):
            continue  # what a call removes meanwhile
        except OSError:
            return True  # too long a path, or a folder that lets nobody look
    return files > MOST_FILES or size > LARGEST


def _remove_stale(parent: Path) -> None:
    """Removes the folders of this user's workers that are gone."""
    with os.scandir(parent) as entries:
        found = [Path(entry.path) for entry in entries if entry.name.startswith(_PREFIX)]
    for folder in found:
        with contextlib.suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                if os.fstat(lock).st_uid == os.getuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove(folder)
            finally:
                os.close(lock)


# --- messages, and a cell that answers them ---------------------------------------------------------------------------

_LENGTH = struct.Struct(">Q")
_CHUNK = 1 << 16
NUMBER_BYTES = 4
HEADER = struct.Struct(f">{NUMBER_BYTES}sI")
"""What a call begins with: its number, and the length of what is known of losses. An answer begins with its number."""

OUT_OF_MEMORY = 86
UNCONFINED = 87
TAMPERED = 88
"""Exit codes of a process that was refused memory, of one that could not be confined, and of one whose judge was
changed."""

Check = Callable[[], bool]


class Oversized(Exception):
    """A message is longer than its receiver accepts."""


def send(sock: socket.socket, *messages: bytes) -> None:
    """Sends messages, in one write."""
    sock.sendall(b"".join(part for message in messages for part in (_LENGTH.pack(len(message)), message)))


class Receiver:
    """Reads messages from a socket, in pieces of any size, of `most` bytes at most; None for no limit."""

    def __init__(self, sock: socket.socket, most: int | None = None) -> None:
        self.sock = sock
        self.ended = False
        self._most = most
        self._data = bytearray()

    def next(self) -> bytes | None:
        """The next message that has arrived whole; None if there is none.

        Raises:
            Oversized: The next message is too long.
        """
        if len(self._data) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._data)
        if self._most is not None and length > self._most:
            raise Oversized
        end = _LENGTH.size + length
        if len(self._data) < end:
            return None
        message = bytes(self._data[_LENGTH.size : end])
        del self._data[:end]
        return message

    def read(self) -> bool:
        """Reads a piece; whether there was one. `ended` says that nothing more will come."""
        if self.ended:
            return False
        try:
            data = self.sock.recv(_CHUNK)
        except BlockingIOError:
            return False
        except ConnectionError:
            data = b""
        self.ended = not data
        self._data += data
        return not self.ended

    def wait(self) -> bytes:
        """The next message of a blocking socket.

        Raises:
            EOFError: The other side closed the connection.
            Oversized: The message is too long.
            TimeoutError: The socket has a timeout, which has passed.
        """
        while (message := self.next()) is None:
            if self.ended:
                raise EOFError
            self.read()
        return message


def serve_calls(
    sock: socket.socket, note: mmap.mmap, memory: int, intact: Check, confine: Callable[[], None]
) -> NoReturn:
    """A cell's life, connected to its warden by a socket and by shared memory for notes.

    `memory` is the bytes that calls may hold; `intact` says whether what judges programs is what it was; `confine`
    confines this process.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    processes.end_with_parent()
    os.setsid()
    processes.limit_this(memory)
    try:
        confine()
    except OSError:
        os._exit(UNCONFINED)
    sock = _alone(sock)
    processes.limit_files()
    ran = [False]

    def write(text: bytes) -> None:
        ran[0] = ran[0] or bool(text)
        note[:] = text.ljust(NOTE_BYTES, b"\0")

    become_worker(write)
    receiver, known = Receiver(sock), b""
    # Names of its own, which an author's code can't rebind.
    me, pid_now, end, sent, answered, clear = os.getpid(), os.getpid, os._exit, send, _answer, say
    try:
        while True:
            message = receiver.wait()
            number, length = HEADER.unpack_from(message)
            lost, call = message[HEADER.size :][:length], message[HEADER.size + length :]
            if lost != known:
                learn_losses(json.loads(lost))
                known = lost
            ran[0] = False
            answer = answered(call)
            if pid_now() != me:  # a copy that the code made of this process
                end(0)
            # Only calls that run an author's code note what they do.
            if ran[0] and not intact():
                end(TAMPERED)
            sent(sock, number + answer)
            clear("")
    except (EOFError, OSError):
        end(0)


def _alone(sock: socket.socket) -> socket.socket:
    """The connection, when all else that was open is closed."""
    number = os.dup2(sock.fileno(), 3, inheritable=False)
    sock.detach()
    os.closerange(number + 1, os.sysconf("SC_OPEN_MAX"))
    return socket.socket(fileno=number)


def _answer(call: bytes) -> bytes:
    """What the call returned or raised. `sys.exit` ends the process."""
    try:
        function, args, kwargs = pickle.loads(call)
        return answers.returned(function(*args, **kwargs))
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))
    except Exception as error:
        try:
            return answers.raised(error)
        except Exception:
            return answers.raised(RuntimeError("an exception that cannot say why"))


# --- the warden -------------------------------------------------------------------------------------------------------

ANSWER, LOST = b"A", b"L"
"""What a message to the parent begins with: an answer, or the loss of a call."""

MAX_PROCESSES = 32
"""Processes that a call may have running at a time, its own included."""

MAX_THREADS = 1000
"""Threads that all processes of a call may have running at a time."""

KEPT = 64
"""Cells that a worker keeps between calls."""

_LAST_BREATH = 10.0
"""Seconds from the end of a cell's connection to its exit code."""
_TICK = 0.1
"""Seconds between two looks at what a call that is running uses."""


@dataclass(frozen=True)
class Limits:
    """The limits of a call.

    Attributes:
        seconds: Of processor time.
        patience: Of wall time, as a multiple of these.
        memory: Bytes that its processes may hold; a cell may hold half of that between two calls.
        alone: Whether each call has a cell of its own, so that nothing outlives it.
    """

    seconds: float
    patience: float
    memory: int
    alone: bool = False


class _Lost(Exception):
    """A cell that did not answer."""

    def __init__(self, code: str, message: str, *, waited: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.waited = waited


@dataclass
class _Cell:
    """A process of one group's calls.

    Attributes:
        note: Memory shared with it, for its notes.
        base: Bytes that it had in memory in the beginning.
        scratch: Its folder for temporary files.
        reads: What the files were that it may read, as `_state` has it.
        held: Bytes that it has held more than that since its last call.
        began: Its processor time when the present call began, in seconds.
    """

    pid: int
    sock: socket.socket
    note: mmap.mmap
    base: int
    scratch: Path | None
    reads: tuple[tuple[int, int], ...] = ()
    held: int = 0
    began: float = 0.0
    _status: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Begins to watch it."""
        self.receiver = Receiver(self.sock, answers.LONGEST)
        self.watched = processes.Watched(self.pid)
        self.pidfd = os.pidfd_open(self.pid) if hasattr(os, "pidfd_open") else -1
        self.poll = select.poll()
        self.poll.register(self.sock, select.POLLIN)
        if self.pidfd >= 0:
            self.poll.register(self.pidfd, select.POLLIN)

    def status(self) -> int | None:
        """The exit status of the process; None as long as it is there."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = status if pid else None
        return self._status

    def kill(self) -> None:
        """Ends the process and all below it."""
        if self.status() is None:
            self._status = processes.end(self.pid)
        self.sock.close()
        self.note.close()
        self.watched.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)


def run(
    connection: Connection,
    initializer: Callable[[], Check | None] | None,
    limits: Limits,
    sandbox: Sandbox,
) -> NoReturn:
    """A worker's life: batches of calls come in, an answer a call goes out.

    What the initializer returns says whether what judges programs is what it was; cells are confined to the sandbox.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(PermissionError):
        os.setsid()  # a signal to the command's whole group must leave whoever ends what calls have started
    processes.forget_secrets()
    processes.offer_to_end()
    processes.guard_memory()
    intact = (initializer() if initializer is not None else None) or (lambda: True)
    processes.silence()
    processes.adopt_orphans()
    serving = _Warden(connection, intact, limits, sandbox)
    signal.signal(signal.SIGTERM, serving.end)
    try:
        serving.serve()
    finally:
        serving.end()


class _Warden:
    """One worker's state."""

    def __init__(self, connection: Connection, intact: Check, limits: Limits, sandbox: Sandbox) -> None:
        self._connection, self._intact, self._limits = connection, intact, limits
        self._confinement = Confinement(sandbox)
        self._scratch = Scratch() if self._confinement.applies else None
        self._cells: OrderedDict[str, _Cell] = OrderedDict()
        self._own = processes.Watched(os.getpid())
        parent = multiprocessing.parent_process()
        self._parent_ends = {connection.fileno(), parent.sentinel if parent else -1}

    def serve(self) -> None:
        """Answers batches of calls until the parent is gone."""
        self._connection.send_bytes(ANSWER)
        with contextlib.suppress(EOFError, OSError):
            while True:
                self._await_parent()
                for group, module, reads, lost_at, call in self._connection.recv():
                    _import(module)
                    known = json.dumps(lost_at).encode()
                    self._connection.send_bytes(self._outcome(group, reads, known, call))

    def end(self, *_: object) -> NoReturn:
        """Ends this process and all below it."""
        try:
            processes.kill_strays(())
            if self._scratch is not None:
                self._scratch.close()
        finally:
            os._exit(0)

    def _await_parent(self) -> None:
        """Waits for a message of the parent's; raises `EOFError` if that is gone."""
        poll = select.poll()
        for end in self._parent_ends:
            poll.register(end, select.POLLIN)
        if self._connection.fileno() not in {number for number, _ in poll.poll()}:
            raise EOFError

    def _outcome(self, group: str, reads: Sequence[str], lost_at: bytes, call: bytes) -> bytes:
        """What to tell the parent of a call: its answer, or its loss."""
        running = None
        try:
            running = self._cell(group, reads)
            answer = self._call(running, lost_at, call)
        except _Lost as lost:
            report = self._report(running, lost)
            self._drop(group)
            return LOST + json.dumps(report).encode()
        running.held = running.watched.held()
        # Files of its own go with their call, like processes.
        left = not running.watched.alone() or running.held > self._limits.memory / 2 or used(running.scratch)
        if left or self._limits.alone:
            self._drop(group)
        elif self._own.children() != len(self._cells):
            self._end_strays()
        return ANSWER + answer

    def _cell(self, group: str, reads: Sequence[str]) -> _Cell:
        """The process of a group, a new one where other files stand at these places; makes room for it."""
        found = self._cells.get(group)
        state = _state(reads) if self._confinement.applies else ()
        if found is not None and (found.status() is not None or found.reads != state):
            self._drop(group)
            found = None
        if found is None:
            while len(self._cells) >= KEPT or sum(kept.held for kept in self._cells.values()) > self._limits.memory / 2:
                self._drop(next(iter(self._cells)))
            found = self._cells[group] = self._fork(reads)
            found.reads = state
        self._cells.move_to_end(group)
        return found

    def _fork(self, reads: Sequence[str]) -> _Cell:
        """A new cell; raises `_Lost` if the system refuses one."""
        scratch = self._scratch.folder() if self._scratch else None
        note = mmap.mmap(-1, NOTE_BYTES)
        ours, theirs = socket.socketpair()
        base = processes.memory(os.getpid())
        try:
            pid = os.fork()
        except OSError as error:
            raise _Lost("crashed", f"was refused by the system: {error}") from error
        if not pid:
            try:
                for other in self._cells.values():
                    other.note.close()
                confine = functools.partial(self._confinement.enter, scratch, reads)
                serve_calls(theirs, note, self._limits.memory, self._intact, confine)
            finally:
                os._exit(1)
        theirs.close()
        made = _Cell(pid, ours, note, base, scratch)
        for end in self._parent_ends:
            made.poll.register(end, 0)  # a hang-up is always reported
        return made

    def _call(self, running: _Cell, lost_at: bytes, call: bytes) -> bytes:
        """A cell's answer to a call; raises `_Lost` if there is none within its limits."""
        # What a call sent by itself has not the number of a later one.
        number = secrets.token_bytes(NUMBER_BYTES)
        start, used = time.monotonic(), processes.processor_time(running.pid)
        running.began = used
        running.sock.settimeout(self._limits.seconds)
        with contextlib.suppress(OSError):  # a cell that is gone is noticed when its answer is waited for
            send(running.sock, HEADER.pack(number, len(lost_at)) + lost_at + call)
        running.sock.setblocking(False)
        closed, gone = 0.0, False
        while (answer := _arrived(running)) is None:
            if gone:
                raise _cause(running.status() or 0)
            if running.receiver.ended and not closed:
                closed = time.monotonic()
            if closed and time.monotonic() > closed + _LAST_BREATH:
                raise _Lost("crashed", "closed its connection")
            if not self._happens(running):
                self._check(running, start, used)
            gone = running.status() is not None  # asked before the last look at what it had sent
        if answer[:NUMBER_BYTES] != number:
            raise _Lost("crashed", "answered a call that was not its turn")
        return answer[NUMBER_BYTES:]

    def _happens(self, running: _Cell) -> bool:
        """Waits until something happens to a cell, a tick at most; whether something did."""
        if running.receiver.ended:
            with contextlib.suppress(KeyError):
                running.poll.unregister(running.sock)
        ready = {number for number, _ in running.poll.poll(1000 * _TICK)}
        if ready & self._parent_ends:
            raise EOFError
        return bool(ready)

    def _check(self, running: _Cell, start: float, before: float) -> None:
        """Holds a call that is running to its limits; raises `_Lost` if it exceeds one of them."""
        limits = self._limits
        below = [pid for top in (running.pid, *self._strays()) for pid in (top, *processes.descendants(top))]
        if len(below) > MAX_PROCESSES:
            raise _Lost("crashed", f"had more than {MAX_PROCESSES} processes running and was killed")
        if sum(map(processes.processor_time, below)) - before > limits.seconds:
            raise _Lost("time-limit", f"took longer than {limits.seconds:g} s of processor time and was killed")
        if time.monotonic() - start > (most := limits.patience * limits.seconds):
            raise _Lost("time-limit", f"took longer than {most:g} s by the clock and was killed", waited=True)
        if sum(map(processes.threads, below)) > MAX_THREADS:
            raise _Lost("crashed", f"had more than {MAX_THREADS} threads running and was killed")
        folder = running.scratch
        unnamed = processes.unnamed(below, folder) if folder is None or used(folder) else 0
        held = sum(max(0, processes.memory(pid) - running.base) for pid in below)
        if held + (unnamed if folder is None else 0) > limits.memory:
            raise _Lost("memory-limit", "exceeded the memory limit and was killed")
        if overfull(folder, unnamed):
            message = f"wrote more than {LARGEST:,} bytes or {MOST_FILES:,} temporary files and was killed"
            raise _Lost("crashed", message)

    def _report(self, running: _Cell | None, lost: _Lost) -> dict[str, Any]:
        """What to tell the parent of a loss: how, and what the call noted last."""
        at, when, used = read_note(running.note[:]) if running else ("", 0.0, 0.0)
        spent = processes.processor_time(running.pid) if running else 0.0
        seconds = spent - used
        if lost.waited:
            seconds = (time.monotonic() - when) / self._limits.patience
        report = {"code": lost.code, "message": str(lost), "waited": lost.waited, "ready": running is not None}
        spent -= running.began if running else 0.0
        return {**report, "at": at, "seconds": seconds if at else 0.0, "spent": max(0.0, spent)}

    def _drop(self, group: str) -> None:
        """Ends a group's cell, and all that it has left."""
        found = self._cells.pop(group, None)
        if found is not None:
            found.kill()
        self._end_strays()
        if found is not None:
            remove(found.scratch)

    def _end_strays(self) -> None:
        processes.kill_strays({kept.pid for kept in self._cells.values()})

    def _strays(self) -> list[int]:
        """Processes that lost their parents, below which a call made them."""
        known = {kept.pid for kept in self._cells.values()}
        return [pid for pid in processes.children(os.getpid()) if pid not in known]


@functools.cache
def _import(module: str) -> None:
    """Imports what calls take, for all cells that come; where that fails, the call says why."""
    with contextlib.suppress(Exception):
        importlib.import_module(module)


def _state(reads: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Which files a cell may read, and what their folder holds; of a folder alone, which may be a busy one, nothing.

    A file that is saved anew is another one, which a cell that was confined before may not read.
    """
    found = []
    for path in reads if len(reads) > 1 else ():
        with contextlib.suppress(OSError):
            known = os.stat(path)  # noqa: PTH116 - before each call
            found.append((known.st_ino, known.st_mtime_ns))
    return tuple(found)


def _arrived(running: _Cell) -> bytes | None:
    """The next answer of a cell, if it is there; raises `_Lost` if it is too long."""
    try:
        while (answer := running.receiver.next()) is None and running.receiver.read():
            pass
    except Oversized:
        raise _Lost("crashed", f"answered with more than {answers.LONGEST:,} bytes") from None
    return answer


def _cause(status: int) -> _Lost:
    """What the end of a process means that nobody here has killed."""
    code = os.waitstatus_to_exitcode(status)
    if code == OUT_OF_MEMORY:
        return _Lost("memory-limit", "exceeded the memory limit: it asked for more than a worker may hold")
    if code == UNCONFINED:
        return _Lost("crashed", "could not be confined, and ran nothing (see --sandbox)")
    if code == TAMPERED:
        return _Lost("tampered", "ran code of the task that changed the verifier, and was discarded")
    if code == -signal.SIGKILL:
        return _Lost("killed", "was killed by the system")
    return _Lost("crashed", f"crashed: {_signal(-code)}" if code < 0 else f"ended its process with exit code {code}")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
