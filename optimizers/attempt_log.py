"""Attempts in a file: a run of any length holds a few bytes of each in memory.

Invariants: a log reads like a list and grows only at its end; an attempt that is read equals the one appended, with the
types of its fields; the file has no name and is deleted with the log; an attempt that cannot be pickled, or that does
not fit on a full disk, stays in memory.

A record on disk cannot replace it: JSON drops the fields' types, and a compressed file gives no access at random.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, overload

from optimizers.attempt import Attempt


class AttemptLog(Sequence[Attempt]):
    """A growing sequence of attempts, from its first ones; a slice of it is a tuple."""

    def __init__(self, attempts: Iterable[Attempt] = ()) -> None:
        # The file is closed with the log, as long as an experience holds it.
        self._file = tempfile.TemporaryFile(prefix="attempts-", buffering=0)  # noqa: SIM115
        self._end = 0
        self._starts, self._sizes = array("Q"), array("L")
        self._held: dict[int, bytes | Attempt] = {}
        for attempt in attempts:
            self.append(attempt)

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()

    def append(self, attempt: Attempt) -> None:
        """Adds an attempt at the end."""
        data = _packed(attempt)
        try:
            written = os.pwrite(self._file.fileno(), data, self._end)
        except OSError:
            written = 0
        if not data or written < len(data):
            self._held[self._end] = data or attempt
        self._starts.append(self._end)
        self._sizes.append(len(data))
        self._end += len(data) or 1  # each has a place of its own

    def arrange(self, start: int, places: Sequence[int]) -> None:
        """Sorts the attempts from index `start` on by `places`, one number each."""
        order = sorted(range(len(places)), key=places.__getitem__)
        for column in (self._starts, self._sizes):
            column[start:] = array(column.typecode, (column[start + index] for index in order))

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> Attempt: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Attempt, ...]: ...

    def __getitem__(self, index: int | slice) -> Attempt | tuple[Attempt, ...]:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(*index.indices(len(self))))
        start, size = self._starts[index], self._sizes[index]
        data = self._held.get(start) or os.pread(self._file.fileno(), size, start)
        if isinstance(data, Attempt):
            return data
        # Written by this process, to a file that no other process can open.
        attempt: Attempt = pickle.loads(data)
        return attempt

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(map(Attempt.__eq__, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return AttemptLog, (tuple(self),)

    def __repr__(self) -> str:
        return f"<{len(self):,} attempts>"


def _packed(attempt: Attempt) -> bytes:
    """The attempt as bytes; none if it cannot be pickled, or not be read again."""
    try:
        data = pickle.dumps(attempt, pickle.HIGHEST_PROTOCOL)
        pickle.loads(data)  # some classes can be pickled and not read
    except Exception:
        return b""
    return data
