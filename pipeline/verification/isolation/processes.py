"""The means of Linux to hold processes to limits from outside; other systems do part of it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import resource
import signal
import stat
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from pipeline.base.text import redacted, secret_names

FILE_BYTES = 2**24
"""Longest file that a process under limits may write."""
OPEN_FILES = 256

LINUX = sys.platform == "linux"

_SET_PDEATHSIG = 1
_SET_DUMPABLE = 4
_SET_CHILD_SUBREAPER = 36
_SET_NO_NEW_PRIVS = 38
_PATIENCE = 5.0
"""Seconds in which processes must be gone after SIGKILL."""
_PAUSE = 0.0003
_HELD = re.compile(rb"^Rss(?:Anon|Shmem):\s*(\d+) kB", re.MULTILINE)
_PAGE = resource.getpagesize()


def adopt_orphans() -> None:
    """Makes this process the parent of every descendant whose own parent ends."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def end_with_parent() -> None:
    """Has this process killed when its parent ends, and keeps it from gaining rights."""
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)
    _prctl(_SET_NO_NEW_PRIVS, 1)


def guard_memory() -> None:
    """Keeps other processes of the same user from tracing this one, or taking what it has open; it dumps no core.

    A process that it forks is guarded, too; one that it executes is not.
    """
    _prctl(_SET_DUMPABLE, 0)


def open_memory() -> None:
    """Undoes `guard_memory` for this process, which other means protect, so that its warden may look at its files."""
    _prctl(_SET_DUMPABLE, 1)


def offer_to_end() -> None:
    """Has the system end this process, and all that it starts, before others of the user's, in want of memory."""
    if LINUX:
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("500")


def _prctl(option: int, value: int) -> None:
    if LINUX:
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def forget_secrets() -> None:
    """Removes secrets from this process's environment, also from what Linux shows of it, and its command line."""
    sys.argv[1:] = []
    named = secret_names()
    kept = {name: value for name, value in os.environ.items() if name not in named and redacted(value) == value}
    for name in os.environ.keys() - kept.keys():
        del os.environ[name]
    if not LINUX:
        return
    start, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[47:49])
    if start:
        # What the process was started with stays readable in /proc, and the C library refers to it.
        ctypes.CDLL(None).clearenv()
        ctypes.memset(start, 0, end - start)
        for name, value in kept.items():
            os.environ[name] = value


def limit_this(memory: int) -> None:
    """Limits this process: bytes of private memory beyond what it has now, and of each file; and no core dumps."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    if LINUX:
        data_pages = int(Path("/proc/self/statm").read_text().split()[5])
        limit = data_pages * _PAGE + memory
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def limit_files() -> None:
    """Limits how many files this process may have open."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, OPEN_FILES))


def silence() -> None:
    """Drops what this process prints, or the C library on its behalf, and gives it nothing to read."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.close(nowhere)


def children(pid: int) -> list[int]:
    """The children of a process, those of all its threads; none where it is gone."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - os.listdir takes a third of the time
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:  # noqa: PTH123
                found += map(int, file.read().split())
    return found


def descendants(pid: int) -> Iterator[int]:
    """All processes below one."""
    for child in children(pid):
        yield child
        yield from descendants(child)


def memory(pid: int) -> int:
    """The bytes that a process has in memory, of its own and shared, but not of files; 0 where it is gone."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:  # noqa: PTH123 - read at every tick
            return 1024 * sum(map(int, _HELD.findall(file.read())))
    except OSError:
        return 0


def threads(pid: int) -> int:
    """The number of a process's threads; 0 where it is gone."""
    try:
        return os.stat(f"/proc/{pid}/task").st_nlink - 2  # noqa: PTH116 - read at every tick
    except OSError:
        return 0


def unnamed(pids: Iterable[int], folder: Path | None) -> int:
    """The bytes of files without a name that processes have open, or have mapped if they were in this folder.

    Each file counts once, one that is mapped alone as the longest possible; those of a process that may not be looked
    at do not count.
    """
    found: dict[tuple[int, int], int] = {}
    for pid in pids:
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    known = entry.stat()
                    if stat.S_ISREG(known.st_mode) and not known.st_nlink:
                        found[known.st_dev, known.st_ino] = 512 * known.st_blocks
        for inode in _mapped(pid, folder) if folder else ():
            found.setdefault(inode, FILE_BYTES)
    return sum(found.values())


def _mapped(pid: int, folder: Path) -> Iterator[tuple[int, int]]:
    """The files in a folder that a process has mapped, perhaps a part of them, and that have no name any more."""
    inside = f" {folder}/".encode()
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/maps").read_bytes().splitlines():
            if line.endswith(b" (deleted)") and inside in line:
                device, inode = line.split()[3:5]
                major, minor = (int(each, 16) for each in device.split(b":"))
                yield os.makedev(major, minor), int(inode)


def processor_time(pid: int) -> float:
    """The seconds of processor time that a process has used; 0 where it is gone."""
    try:
        # The number of a process's clock, as clock_getcpuclockid(3) gives it.
        return time.clock_gettime((~pid << 3) | 2) if LINUX else 0.0
    except OSError:
        return 0.0


class Watched:
    """A process of one thread that is looked at after each of its calls, which is to cost next to nothing."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._tasks = f"/proc/{pid}/task"
        self._files = [self._opened(f"{self._tasks}/{pid}/children"), self._opened(f"/proc/{pid}/statm")]
        self._base = self._private()

    def alone(self) -> bool:
        """Whether it has no children, and one thread."""
        number = self._files[0]
        try:
            return number < 0 or (not os.pread(number, 1, 0) and os.stat(self._tasks).st_nlink <= 3)  # noqa: PTH116
        except OSError:
            return True  # it is gone

    def children(self) -> int:
        """The number of its children."""
        return len(os.pread(self._files[0], 2**20, 0).split()) if self._files[0] >= 0 else 0

    def held(self) -> int:
        """The bytes of its own that it has in memory more than in the beginning."""
        return max(0, self._private() - self._base)

    def _private(self) -> int:
        try:
            resident, shared = os.pread(self._files[1], 200, 0).split()[1:3] if self._files[1] >= 0 else (0, 0)
        except (OSError, ValueError):
            return 0
        return (int(resident) - int(shared)) * _PAGE

    def close(self) -> None:
        """Closes what is open of it."""
        for number in self._files:
            if number >= 0:
                os.close(number)
        self._files = [-1, -1]

    @staticmethod
    def _opened(path: str) -> int:
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return -1


def kill_strays(known: Collection[int]) -> None:
    """Kills and reaps every descendant of this process but the known children.

    A process that forks faster than one round kills is met again in the next.
    """
    end = time.monotonic() + _PATIENCE
    me = os.getpid()
    while (strays := [pid for pid in children(me) if pid not in known]) and time.monotonic() < end:
        for stray in strays:
            for pid in [*descendants(stray), stray]:
                kill(pid)
        for stray in strays:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(stray, os.WNOHANG)


def end(pid: int) -> int | None:
    """Kills a child and all below it, and gives its exit status; None for one that something keeps from ending."""
    until = time.monotonic() + _PATIENCE
    while True:
        for each in [*descendants(pid), pid]:
            kill(each)
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        if time.monotonic() > until:  # such as a tracer that is not below it
            return None
        time.sleep(_PAUSE)


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Sends a signal to a process that may be gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
