"""Functions for worker processes that reach further than they should."""

import contextlib
import ctypes
import mmap
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

from pipeline.verification.isolation import warden
from tests.support.paths import PROJECT

HELD: list[Any] = []


def process_of(name: str, content: str) -> int:
    return os.getpid()


def sessions(name: str) -> tuple[int, int, int]:
    """The session of this process, this process, and the session of its parent."""
    return os.getsid(0), os.getpid(), os.getsid(os.getppid())


def lost_at(name: str, content: str, note: str) -> NoReturn:
    """Ends its process, and claims to have been at what another task's program comes to."""
    warden.say(note)
    os._exit(3)


def links() -> dict[int, str]:
    """What this process has open, by number."""
    found = {}
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found[int(path.name)] = str(path.readlink())
    return found


def open_files(name: str, content: str) -> list[str]:
    return [name for name in links().values() if not name.startswith(("/proc/", "anon_inode:"))]


def environment() -> str:
    """The environment of this process and of its warden, as Python and the system know it, and their arguments."""
    reported = [repr(dict(os.environ)), repr(sys.argv)]
    for pid in (os.getpid(), os.getppid()):
        for name in ("environ", "cmdline"):
            with contextlib.suppress(PermissionError):  # a warden's is nobody's to read
                reported.append(Path(f"/proc/{pid}/{name}").read_bytes().decode(errors="replace"))
    return "\n".join(reported)


def in_a_new_process(folder: Path, variables: dict[str, str]) -> str:
    """What a worker sees of the environment that a new process is started with."""
    script = folder / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            from pipeline.verification.pool import WorkerPool
            from tests.support import attacking
            if __name__ == "__main__":
                with WorkerPool(1, seconds=60, memory=2**29) as pool:
                    print(pool.submit(attacking.environment).result())
            """
        )
    )
    env = {**os.environ, "PYTHONPATH": str(PROJECT), "ADAPTIVE_STEP_SANDBOX": "off", **variables}
    words = [sys.executable, str(script), *variables.values()]
    return subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout


def only_socket() -> socket.socket:
    return socket.socket(fileno=next(number for number, name in links().items() if name.startswith("socket:")))


def write_to_warden(name: str, content: str, attack: str) -> int:
    """Writes to the one connection that this process has."""
    sock = only_socket()
    answer = b"+null"
    match attack:
        case "flood":
            sock.sendall(struct.pack(">Q", 2**24 + 1) + b"x" * 2**24)
        case "header":
            sock.sendall(struct.pack(">Q", 2**62))
        case "two answers":
            for number in (0, 0, 1, 1):
                sock.sendall(struct.pack(">Q", 4 + len(answer)) + number.to_bytes(4, "big") + answer)
        case "garbage":
            sock.sendall(struct.pack(">Q", 8) + b"\xff" * 8)
        case "close":
            sock.close()
    time.sleep(0.05)  # for a second message to be under way with the first
    return 1


def killed_from_outside(*_: object) -> NoReturn:
    """As by the kernel, in want of memory."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def kill_parent() -> NoReturn:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)
    raise AssertionError


# --- exhaustion -------------------------------------------------------------------------------------------------------


def shared_memory(size: int) -> NoReturn:
    """Memory that the process's own limit does not count."""
    while True:
        region = mmap.mmap(-1, size)
        for start in range(0, size, mmap.PAGESIZE):
            region[start] = 1
        HELD.append(region)


def memory_files(size: int) -> NoReturn:
    """Memory of files that have no name."""
    libc = ctypes.CDLL(None, use_errno=True)
    while True:
        number = libc.memfd_create(b"x", 0)
        os.ftruncate(number, size)
        region = mmap.mmap(number, size)
        for start in range(0, size, mmap.PAGESIZE):
            region[start] = 1
        HELD.append(region)


def in_children(size: int) -> NoReturn:
    """Each below the limit, all of them above it."""
    for _ in range(8):
        if os.fork() == 0:
            held = b"1" * (size // 4)
            time.sleep(600)
            HELD.append(held)
    time.sleep(600)
    raise AssertionError


def fork_bomb() -> NoReturn:
    """Each process makes another one again and again, more slowly than a warden that waits for its turn kills them."""
    while True:
        os.fork()
        time.sleep(0.2)


def processes(count: int) -> NoReturn:
    for _ in range(count):
        subprocess.Popen(["sleep", "600"])
    time.sleep(600)
    raise AssertionError


def leave_child(marker: str, how: str) -> int:
    """A process that goes on after the call."""
    pid = os.fork()
    if pid == 0:
        if how in ("session", "orphan"):
            os.setsid()
        if how == "orphan" and os.fork():
            os._exit(0)
        if how == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Path(marker).write_text(str(os.getpid()))
        time.sleep(600)
        os._exit(0)
    while not Path(marker).exists() or not Path(marker).read_text():
        time.sleep(0.01)
    return os.getpid()


def leave_once(marker: str, how: str) -> None:
    """Leaves a process, or a thread of this one, in the first call of all."""
    if not Path(marker).exists():
        Path(marker).touch()
        if how == "thread":
            Path(marker).write_text(str(leave_thread()))
        else:
            leave_child(marker, how)


def leave_thread() -> int:
    """A thread that would change later answers."""
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    return os.getpid()


def fork_on() -> int:
    """Two processes that go on from here as one."""
    os.fork()
    return 7


def long_file(folder: str, size: int) -> int:
    with Path(folder, "long").open("wb") as file:
        file.write(b"x" * size)
    return size


def many_files(folder: str, count: int) -> int:
    HELD.extend(os.open(Path(folder, str(number)), os.O_CREAT) for number in range(count))
    return count


def long_answer(size: int) -> str:
    return "x" * size


def stop_myself() -> NoReturn:
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(600)
    raise AssertionError


def stop_worker() -> NoReturn:
    os.kill(os.getppid(), signal.SIGSTOP)
    time.sleep(600)
    raise AssertionError


def core_limit() -> list[int]:
    return [resource.getrlimit(number)[1] for number in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE)]


def leave_and_wait(marker: str) -> NoReturn:
    """A process beside this one, in the midst of a call that does not end."""
    leave_child(marker, "plain")
    time.sleep(600)
    raise AssertionError
