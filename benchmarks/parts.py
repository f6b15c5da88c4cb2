"""Where time goes, by part: functions and methods are timed while a block runs."""

from __future__ import annotations

import functools
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

Place = tuple[Any, str]
"""A class or module, and the name of the function in it."""


class Parts:
    """Seconds by part, summed over threads; a part's own are without those of the parts that it calls.

    Args:
        clock: `time.thread_time` for what a part computes, `time.perf_counter` for how long it lasts.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._clock = clock
        self._lock = threading.Lock()
        self._local = threading.local()

    @contextmanager
    def watching(self, parts: Mapping[str, Sequence[Place]]) -> Iterator[None]:
        """Attributes the time of the functions at these places to their parts."""
        with ExitStack() as stack:
            for part, places in parts.items():
                for owner, name in places:
                    watched = self._watched(part, getattr(owner, name))
                    stack.enter_context(mock.patch.object(owner, name, watched))
            yield

    def _watched(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            outer = getattr(self._local, "inside", None)
            self._local.inside = inside = [0.0]
            start = self._clock()
            try:
                return function(*args, **kwargs)
            finally:
                spent = self._clock() - start
                self._local.inside = outer
                if outer is not None:
                    outer[0] += spent
                with self._lock:
                    self.seconds[part] += spent - inside[0]

        return watched
