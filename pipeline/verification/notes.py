"""What a call in a worker process says that it is doing, and what earlier calls were lost at."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

NOTE_BYTES = 512
"""Length of a note, as it is shared with the process that watches the call."""


@dataclass
class _Here:
    """What this process, if it runs calls, shares with the process that watches it."""

    write: Callable[[bytes], object] | None = None
    lost_at: Mapping[str, str] = field(default_factory=dict)


_HERE = _Here()


def note(text: str) -> None:
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


def learn(lost: Mapping[str, str]) -> None:
    """Takes what earlier calls were lost at."""
    _HERE.lost_at = lost


def snippet(note: str) -> str:
    """The snippet that a call was at, and the sizes: `global at M=5`; empty for none."""
    return note.partition("\t")[2]


def read(note: bytes) -> tuple[str, float, float]:
    """A note's text, the time of the clock and the processor time of its process then; an empty text for none."""
    when, _, rest = note.rstrip(b"\0").decode(errors="replace").partition(" ")
    used, _, text = rest.partition(" ")
    try:
        return text, float(when), float(used)
    except ValueError:  # the process that runs an author's code can write anything
        return "", 0.0, 0.0
