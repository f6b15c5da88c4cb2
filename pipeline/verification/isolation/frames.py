"""Messages on a stream socket: each is its length in eight bytes, then its content."""

from __future__ import annotations

import socket
import struct

_HEADER = struct.Struct(">Q")
_CHUNK = 1 << 16


class Oversized(Exception):
    """A message is longer than its receiver accepts."""


def send(sock: socket.socket, *messages: bytes) -> None:
    """Sends messages, in one write."""
    sock.sendall(b"".join(part for message in messages for part in (_HEADER.pack(len(message)), message)))


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
        if len(self._data) < _HEADER.size:
            return None
        (length,) = _HEADER.unpack_from(self._data)
        if self._most is not None and length > self._most:
            raise Oversized
        end = _HEADER.size + length
        if len(self._data) < end:
            return None
        message = bytes(self._data[_HEADER.size : end])
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
