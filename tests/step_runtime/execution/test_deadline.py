"""A run's time is its thread's processor time; the clock counts only where a run waits."""

import time
from math import inf

from step_runtime.execution.deadline import PATIENCE, Deadline


def test_processor_time_that_is_used_up_is_named() -> None:
    """With the limit that was set."""
    deadline = Deadline.after(0.01)
    end = time.thread_time() + 0.02
    while time.thread_time() < end:
        pass
    assert deadline.passed() == "0.01 s of processor time"


def test_time_that_passes_elsewhere_does_not_count() -> None:
    """Until the clock has gone much further."""
    assert Deadline(5.0, time.thread_time() + 5.0, inf, 0.0).passed() is None
    assert Deadline(5.0, inf, time.monotonic() - 1, 0.0).passed() == f"{PATIENCE * 5} s by the clock"
    assert Deadline.at(time.monotonic() + 600).passed() is None
