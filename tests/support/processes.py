"""Waiting for processes."""

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE = 120.0
"""Seconds for what takes none, unless it hangs."""
LIMIT = 1
"""Seconds of processor time to give a call that hangs: many times what any other takes, under any load."""


def eventually(condition: Callable[[], bool], patience: float = PATIENCE) -> bool:
    """Whether a condition comes to hold in time."""
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def state(pid: int) -> str:
    """The system's letter for the state of a process, such as `T` for stopped; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def gone(pid: int) -> bool:
    """Whether the process ends in time; a zombie has."""
    return eventually(lambda: state(pid) in ("", "Z"))
