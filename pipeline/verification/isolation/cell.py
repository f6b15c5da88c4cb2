"""The part that runs in a cell, the process of an author's code: calls come in, answers go out.

A cell serves the calls of one group, such as those of one task. It holds no connection but the one to its warden, which
watches it from outside; see `warden`.
"""

from __future__ import annotations

import json
import mmap
import os
import pickle
import signal
import socket
import struct
from collections.abc import Callable
from typing import NoReturn

from pipeline.verification import notes
from pipeline.verification.isolation import answers, frames, processes

NUMBER_BYTES = 4
HEADER = struct.Struct(f">{NUMBER_BYTES}sI")
"""What a call begins with: its number, and the length of what is known of losses. An answer begins with its number."""

OUT_OF_MEMORY = 86
UNCONFINED = 87
TAMPERED = 88
"""Exit codes of a process that was refused memory, of one that could not be confined, and of one whose judge was
changed."""

Check = Callable[[], bool]


def serve(sock: socket.socket, note: mmap.mmap, memory: int, intact: Check, confine: Callable[[], None]) -> NoReturn:
    """A cell's life, connected to its warden by a socket and by shared memory for notes.

    `memory` is the bytes that calls may hold; `intact` says whether what judges programs is what it was; `confine`
    confines this process.
    """
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    processes.end_with_parent()
    os.setsid()
    processes.limit_this(memory)
    try:
        confine()
    except OSError:
        os._exit(UNCONFINED)
    sock = _alone(sock)
    processes.limit_files()
    ran = [False]

    def write(text: bytes) -> None:
        ran[0] = ran[0] or bool(text)
        note[:] = text.ljust(notes.NOTE_BYTES, b"\0")

    notes.become_worker(write)
    receiver, known = frames.Receiver(sock), b""
    # Names of its own, which an author's code can't rebind.
    me, pid_now, end, send, answered, clear = os.getpid(), os.getpid, os._exit, frames.send, _answer, notes.note
    try:
        while True:
            message = receiver.wait()
            number, length = HEADER.unpack_from(message)
            lost, call = message[HEADER.size :][:length], message[HEADER.size + length :]
            if lost != known:
                notes.learn(json.loads(lost))
                known = lost
            ran[0] = False
            answer = answered(call)
            if pid_now() != me:  # a copy that the code made of this process
                end(0)
            # Only calls that run an author's code note what they do.
            if ran[0] and not intact():
                end(TAMPERED)
            send(sock, number + answer)
            clear("")
    except (EOFError, OSError):
        end(0)


def _alone(sock: socket.socket) -> socket.socket:
    """The connection, when all else that was open is closed."""
    number = os.dup2(sock.fileno(), 3, inheritable=False)
    sock.detach()
    os.closerange(number + 1, os.sysconf("SC_OPEN_MAX"))
    return socket.socket(fileno=number)


def _answer(call: bytes) -> bytes:
    """What the call returned or raised. `sys.exit` ends the process."""
    try:
        function, args, kwargs = pickle.loads(call)
        return answers.returned(function(*args, **kwargs))
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))
    except Exception as error:
        try:
            return answers.raised(error)
        except Exception:
            return answers.raised(RuntimeError("an exception that cannot say why"))
