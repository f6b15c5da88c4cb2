"""Landlock: a process of Linux that gives up files, TCP, abstract sockets and signals for good, without privileges.

These are the four system calls that bindings on PyPI wrap, of which each has one author and is years or months old.
Source: https://docs.kernel.org/userspace-api/landlock.html.
"""

from __future__ import annotations

import ctypes
import functools
import os
import stat
import struct
import sys
from collections.abc import Iterable

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""Numbers of the system calls, the same for all processors."""
_VERSION = 1
_PATH_BENEATH = 1

_READ_DIR = 1 << 3
_READ_FILE = 1 << 2
_EXECUTE = 1 << 0
_OF_FILES = _EXECUTE | 1 << 1 | _READ_FILE | 1 << 14 | 1 << 15
"""The rights that a rule about a file may give: to execute, write, read, truncate and control it."""
_FS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""All rights to files, by the version that added the last."""
_TCP = 0b11
_SCOPES = 0b11
TRUNCATION_SINCE, _TCP_SINCE, SIGNALS_SINCE = 3, 4, 6
"""The versions that added emptying files, TCP, and abstract sockets and signals."""

READ = _EXECUTE | _READ_FILE | _READ_DIR
"""The rights to what is read: files, those that are executed, and what folders list."""


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *args: object) -> int:
    """A system call's result; raises `OSError`."""
    found: int = _libc().syscall(ctypes.c_long(number), *args)
    if found < 0:
        raise OSError(error := ctypes.get_errno(), os.strerror(error))
    return found


def version() -> int:
    """The version of Landlock that this system offers; 0 for none."""
    if sys.platform != "linux":
        return 0
    try:
        return _call(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))
    except OSError:
        return 0


class Folder:
    """A file or folder to which a ruleset gives rights, held open so that it stays the same one."""

    def __init__(self, path: str) -> None:
        self.number = os.open(path, os.O_PATH | os.O_CLOEXEC)
        self.is_folder = stat.S_ISDIR(os.fstat(self.number).st_mode)

    def close(self) -> None:
        """Gives it up."""
        os.close(self.number)


def restrict(version: int, readable: Iterable[Folder], writable: Iterable[Folder]) -> None:
    """Leaves to this thread, and to all that it starts, only these folders and files, and what is below them.

    It may write to those that are writable, connect to no TCP port and listen at none, and may not trace a process
    that is not below it; from version 6 on, it can signal none, and reach none by an abstract socket.

    Args:
        version: Of Landlock, as `version` says.
        readable: What may be read, and executed.
        writable: What may be used in every way.

    Raises:
        OSError: The system refuses it.
    """
    every = _FS[max(known for known in _FS if known <= version)]
    scoped = _SCOPES if version >= SIGNALS_SINCE else 0
    handled = struct.pack("=QQQ", every, _TCP if version >= _TCP_SINCE else 0, scoped)
    size = 8 if version < _TCP_SINCE else 16 if version < SIGNALS_SINCE else 24
    ruleset = _call(_CREATE_RULESET, handled, ctypes.c_size_t(size), ctypes.c_uint32(0))
    try:
        for rights, folders in ((READ, readable), (every, writable)):
            for folder in folders:
                given = rights if folder.is_folder else rights & every & _OF_FILES
                rule = struct.pack("=Qi", given, folder.number)
                _call(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint32(0))
        _call(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)
