"""A function called in a process of its own that it can't leave: it reads no file and reaches none who judges it.

For a language that executes programs: `judge` has the program run apart, and compares what that answers with what it
computes itself. The process is forked, so that it has what the caller has imported; what the caller computes afterwards
is out of its reach.
"""

from __future__ import annotations

import io
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from pipeline.verification.isolation import landlock, processes

_LONGEST = 2**26
"""Bytes of an answer."""
_PIECE = 2**20
_LONGEST_REASON = 300
_OUT_OF_MEMORY = 86
_RAISED = 85


class Crashed(Exception):
    """The process ended without an answer; the message says how."""


def apart(function: Callable[..., bytes], *args: Any, confined: bool = True) -> bytes:
    """What a function returns in a process forked from this one, without files, and without a way to another process.

    It keeps its files where it is not `confined`, as a device's driver must open some.

    Raises:
        MemoryError: It had no memory left.
        Crashed: It gave no answer, or one that is too long.
    """
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if not pid:
        _answer(theirs, confined, function, *args)
    theirs.close()
    answer = bytearray()
    with ours:
        while len(answer) <= _LONGEST and (piece := ours.recv(_PIECE)):
            answer += piece
    if len(answer) > _LONGEST:
        os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code == _OUT_OF_MEMORY:
        raise MemoryError
    if code == _RAISED:
        raise Crashed(answer[:_LONGEST_REASON].decode(errors="replace"))
    if code or len(answer) > _LONGEST:
        raise Crashed(signal.Signals(-code).name if code < 0 else f"exit code {code}" if code else "too long an answer")
    return bytes(answer)


def _answer(theirs: socket.socket, confined: bool, function: Callable[..., bytes], *args: Any) -> NoReturn:
    try:
        number = os.dup2(theirs.detach(), 3)  # the place of a cell's own connection, which closes
        os.closerange(number + 1, os.sysconf("SC_OPEN_MAX"))
        processes.end_with_parent()
        sys.stdout = sys.stderr = io.StringIO()
        if confined and (version := landlock.version()):
            landlock.restrict(version, (), ())
        connection = socket.socket(fileno=number)
        try:
            answer, code = function(*args), 0
        except MemoryError:
            answer, code = b"", _OUT_OF_MEMORY
        except Exception as error:
            answer, code = f"{type(error).__name__}: {error}".encode(errors="replace"), _RAISED
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_WR)
        os._exit(code)
    finally:
        os._exit(1)
