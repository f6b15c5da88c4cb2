"""Private temporary folders: one for each cell, gone with it.

A worker has one folder for all its cells, and holds a lock on it while it lives: what a worker left that was killed is
removed by whichever starts next.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import subprocess
import tempfile
from pathlib import Path

LARGEST = 2**28
"""Bytes that a cell's folder may hold."""
MOST_FILES = 10_000

_PREFIX = "adaptive-step-cells-"
_NOTHING = subprocess.DEVNULL


class Scratch:
    """The folder of one worker's cells; without one where the system has no room for temporary files."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._lock = -1
        try:
            _remove_stale(Path(tempfile.gettempdir()))
            self._folder: Path | None = Path(tempfile.mkdtemp(prefix=_PREFIX))
            self._lock = os.open(self._folder, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._folder = None

    def folder(self) -> Path | None:
        """A new folder of a cell's own."""
        if self._folder is None:
            return None
        made = self._folder / str(next(self._numbers))
        try:
            made.mkdir(mode=0o700)
            os.utime(made, (0, 0))
        except OSError:
            return None
        return made

    def close(self) -> None:
        """Removes all that is left."""
        if self._folder is not None:
            remove(self._folder)
        if self._lock >= 0:
            os.close(self._lock)
        self._folder, self._lock = None, -1


def used(folder: Path | None) -> bool:
    """Whether anything was made or removed in a folder."""
    return folder is not None and os.stat(folder).st_mtime_ns != 0  # noqa: PTH116 - after each call


def remove(folder: Path | None) -> None:
    """Removes a folder, if there is one, however deep it is, and whatever its modes; links are not followed."""
    if folder is None:
        return
    with contextlib.suppress(OSError):
        folder.rmdir()  # most are empty
        return
    # Python's own would need a frame for each level, of which a cell can make any number.
    for command in (("chmod", "-R", "u+rwX"), ("rm", "-rf")):
        with contextlib.suppress(OSError):
            subprocess.run([*command, "--", folder], stdin=_NOTHING, stdout=_NOTHING, stderr=_NOTHING, check=False)


def overfull(folder: Path | None, unnamed: int = 0) -> bool:
    """Whether a folder's files, with so many bytes of unnamed ones, are more than they may be, or can't be counted."""
    left, files, size = [folder] if folder else [], 0, unnamed if folder else 0
    while left and files <= MOST_FILES and size <= LARGEST:
        try:
            with os.scandir(left.pop()) as entries:
                for entry in entries:
                    files += 1
                    size += 512 * entry.stat(follow_symlinks=False).st_blocks
                    if entry.is_dir(follow_symlinks=False):
                        left.append(Path(entry.path))
        except (FileNotFoundError, NotADirectoryError):
            continue  # what a call removes meanwhile
        except OSError:
            return True  # too long a path, or a folder that lets nobody look
    return files > MOST_FILES or size > LARGEST


def _remove_stale(parent: Path) -> None:
    """Removes the folders of this user's workers that are gone."""
    with os.scandir(parent) as entries:
        found = [Path(entry.path) for entry in entries if entry.name.startswith(_PREFIX)]
    for folder in found:
        with contextlib.suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                if os.fstat(lock).st_uid == os.getuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    remove(folder)
            finally:
                os.close(lock)
