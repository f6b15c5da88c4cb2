"""The part that runs in a cell, the process of an author's code: calls come in, answers go out.

A cell serves the calls of one group, such as those of one task. It holds no connection but the one to its warden, which
watches it from outside; see `warden`. A message between them is its length in eight bytes, then its content.
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
from pipeline.verification.isolation import answers, processes

_LENGTH = struct.Struct(">Q")
_CHUNK = 1 << 16
NUMBER_BYTES = 4
HEADER = struct.Struct(f">{NUMBER_BYTES}sI")
"""What a call begins with: its number, and the length of what is known of losses. An answer begins with its number."""

OUT_OF_MEMORY = 86
UNCONFINED = 87
TAMPERED = 88
"""Exit codes of a process that was refused memory, of one that could not be confined, and of one whose judge was
changed."""

Check = Callable[[], bool]


class Oversized(Exception):
    """A message is longer than its receiver accepts."""


def send(sock: socket.socket, *messages: bytes) -> None:
    """Sends messages, in one write."""
    sock.sendall(b"".join(part for message in messages for part in (_LENGTH.pack(len(message)), message)))


class Receiver:
    """Reads messages from a socket, in pieces of any size, of `most` bytes at most; None for no limit."""

    def __init__(self, sock: socket.socket, most: int | None = None) -> None:
        self.sock = sock
        self.ended = False
        self._most = most
        self._data = bytearray()

    def next(self) -> bytes | None:
        """The next message that has arrived whole; None if there is none.

        Raises:
            Oversized: The next message is too long.
        """
        if len(self._data) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._data)
        if self._most is not None and length > self._most:
            raise Oversized
        end = _LENGTH.size + length
        if len(self._data) < end:
            return None
        message = bytes(self._data[_LENGTH.size : end])
        del self._data[:end]
        return message

    def read(self) -> bool:
        """Reads a piece; whether there was one. `ended` says that nothing more will come."""
        if self.ended:
            return False
        try:
            data = self.sock.recv(_CHUNK)
        except BlockingIOError:
            return False
        except ConnectionError:
            data = b""
        self.ended = not data
        self._data += data
        return not self.ended

    def wait(self) -> bytes:
        """The next message of a blocking socket.

        Raises:
            EOFError: The other side closed the connection.
            Oversized: The message is too long.
            TimeoutError: The socket has a timeout, which has passed.
        """
        while (message := self.next()) is None:
            if self.ended:
                raise EOFError
            self.read()
        return message


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
    receiver, known = Receiver(sock), b""
    # Names of its own, which an author's code can't rebind.
    me, pid_now, end, sent, answered, clear = os.getpid(), os.getpid, os._exit, send, _answer, notes.note
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
            sent(sock, number + answer)
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
