"""When a run has taken too long: by the processor time that it used, so that a busy machine changes no verdict."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import inf

PATIENCE = 10
"""Wall time, as a multiple of the limit of processor time, after which a run that waits or sleeps has failed too."""


@dataclass(frozen=True)
class Deadline:
    """The end of a run in the thread that makes it.

    Attributes:
        seconds: The limit of processor time, for messages.
        processor: `time.thread_time()` at which it is used up.
        wall: `time.monotonic()` at which waiting ends.
        earliest: `time.monotonic()` before which neither can be: reading processor time takes the kernel's turn.
    """

    seconds: float
    processor: float
    wall: float
    earliest: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """So many seconds of this thread's processor time from now, or `PATIENCE` times as many by the clock."""
        now = time.monotonic()
        return cls(seconds, time.thread_time() + seconds, now + PATIENCE * seconds, now + seconds)

    @classmethod
    def at(cls, wall: float) -> Deadline:
        """A moment of `time.monotonic()`, whatever processor time is used until then."""
        return cls(inf, inf, wall, wall)

    def passed(self) -> str | None:
        """The exceeded limit, in words; None while there is time left."""
        if time.monotonic() < self.earliest:
            return None
        if time.thread_time() > self.processor:
            return f"{self.seconds:g} s of processor time"
        if time.monotonic() > self.wall:
            return f"{PATIENCE * self.seconds:g} s by the clock"
        return None
