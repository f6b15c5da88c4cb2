"""The last requests of a run in DSPy's histories, for `lm.inspect_history` and `dspy.inspect_history`.

Invariants: of all requests through copies of an LM its history keeps the last `KEPT`, so that prompts of thousands of
samples do not fill the memory; entries of other requests are neither moved nor removed; a user's own limits hold.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import dspy
from dspy.clients.base_lm import GLOBAL_HISTORY

KEPT = 100
"""Entries that a history keeps of the requests through copies of its LM."""

_lock = threading.Lock()
_global: deque[Any] = deque()
_of_lms: WeakKeyDictionary[Any, deque[Any]] = WeakKeyDictionary()


class RecentHistory:
    """Keeps the last requests of copies of an LM in its history, and in DSPy's global one."""

    def __init__(self, lm: dspy.BaseLM) -> None:
        self._lm = lm
        self._most = 0 if dspy.settings.disable_history else min(KEPT, dspy.settings.max_history_size)

    def __deepcopy__(self, memo: dict[int, Any]) -> RecentHistory:
        return self  # copies of a copy count too

    def add(self, entry: Mapping[str, Any]) -> None:
        """Adds an entry, and removes the oldest one added here if they are too many."""
        if not self._most:
            return
        with _lock:
            for own, history in ((_global, GLOBAL_HISTORY), (_of_lms.setdefault(self._lm, deque()), self._lm.history)):
                own.append(entry)
                history.append(entry)
                while len(own) > self._most:
                    _remove(history, own.popleft())


def _remove(history: list[Any], entry: Any) -> None:
    place = next((place for place, each in enumerate(history) if each is entry), None)
    if place is not None:  # users clear histories
        del history[place]
