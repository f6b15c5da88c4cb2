"""Functions for worker processes that do what they should not."""

import ctypes
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from pipeline.verification.isolation import warden

HELD: list[Any] = []


def echo(value: Any, result: Any = None) -> Any:
    return value if result is None else result


def first_word(*args: Any) -> str:
    """The group of a call."""
    return str(args[0]) if args else ""


def hold_in_group(_: int, size: int) -> int:
    return hold(size)


def process_id(_: Any = None) -> int:
    return os.getpid()


def worker_id() -> int:
    """The process that watches this one."""
    return os.getppid()


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def fail(message: str) -> NoReturn:
    raise ValueError(message)


class PickyError(Exception):
    """Does not survive pickling."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


def fail_pickily() -> NoReturn:
    raise PickyError("one", "two")


def wait_for(path: str) -> None:
    """Is at work until the file is there."""
    while not Path(path).exists():
        time.sleep(0.01)


def hang() -> NoReturn:
    while True:
        pass


def note_and(text: str, function: Callable[..., Any], *args: Any) -> Any:
    """Says what it is at, and then does it."""
    warden.say(text)
    return function(*args)


def note_after(seconds: float, text: str) -> NoReturn:
    """Is at something else for so much processor time."""
    start = time.process_time()
    while time.process_time() < start + seconds:
        pass
    note_and(text, hang)
    raise AssertionError


def noted() -> dict[str, str]:
    """What the worker knows of losses."""
    return dict(warden.lost_at())


def hang_deaf() -> NoReturn:
    """Not even SIGTERM ends it."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hang()


def leave(code: int) -> NoReturn:
    os._exit(code)


def exit_politely() -> NoReturn:
    sys.exit(0)


def segfault() -> None:
    ctypes.string_at(0)


def crash_once(marker: str) -> str:
    """Dies in the first worker only."""
    path = Path(marker)
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"


def devour() -> NoReturn:
    while True:
        HELD.append(bytearray(2**24))


def hold(size: int) -> int:
    """Keeps memory for good, as a careless cache would."""
    HELD.append(b"1" * size)
    return os.getpid()


def chatter() -> str:
    print("on stdout")
    os.write(2, b"on stderr\n")
    return "said"


def cannot_start() -> NoReturn:
    raise ImportError("on purpose")


def kill_node() -> NoReturn:
    """Kills the process that owns the pool, and so itself."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    assert parent.pid is not None
    os.kill(parent.pid, signal.SIGKILL)
    hang()
