"""The end of a run's time, held within a request: a server that sends a byte a minute does not postpone it.

Invariant: no call lasts beyond the deadline; one that would is left to a thread of its own, whose answer, if it
still comes, goes to DSPy's response cache and not to the record.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from dspy.utils.exceptions import LMError


class DeadlineReached(LMError):
    """The run's time is over before a request is answered."""

    def __init__(self) -> None:
        super().__init__("the run's time was over before the LM answered")


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in time, in the seconds of `time.monotonic`."""

    at: float

    @property
    def left(self) -> float:
        """Seconds until then; negative afterwards."""
        return self.at - time.monotonic()

    def run(self, call: Callable[[], Any]) -> Any:
        """The call's result.

        Raises:
            DeadlineReached: It is not there in time.
        """
        self._check()
        results: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        context = contextvars.copy_context()

        def work() -> None:
            try:
                results.put((context.run(call), None))
            except BaseException as error:  # raised in the thread that waits
                results.put((None, error))

        threading.Thread(target=work, name="request", daemon=True).start()
        try:
            result, error = results.get(timeout=max(0.0, self.left))
        except queue.Empty:
            raise DeadlineReached from None
        if error is not None:
            raise error
        return result

    async def arun(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """As `run`, for a coroutine."""
        self._check()
        try:
            return await asyncio.wait_for(call(), max(0.0, self.left))
        except TimeoutError:
            raise DeadlineReached from None

    def shortened(self, seconds: float) -> float:
        """A wait that ends with the deadline at the latest."""
        return max(0.0, min(seconds, self.left))

    def _check(self) -> None:
        if self.left <= 0:
            raise DeadlineReached
