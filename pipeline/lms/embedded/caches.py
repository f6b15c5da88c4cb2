"""Caches that are kept as long as a task: bounded, as a process may take any number of samples of it."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

_ENTRIES = 4096


class BoundedCache(dict[K, V]):
    """A dict for what can be computed again: it is emptied when it has `most` entries. Threads may share it."""

    def __init__(self, most: int = _ENTRIES) -> None:
        super().__init__()
        self._most = most

    def keep(self, key: K, value: V) -> V:
        """Adds an entry and returns its value."""
        if len(self) >= self._most:
            self.clear()
        self[key] = value
        return value
