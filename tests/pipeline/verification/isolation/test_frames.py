"""Messages on a socket are read in pieces of any size, and bounded."""

import socket
import struct

import pytest

from pipeline.verification.isolation import cell


def test_messages_are_read_in_pieces() -> None:
    """Of any length, none included; one that has not arrived whole is not there yet."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        receiver = cell.Receiver(ours)
        cell.send(theirs, b"one", b"")
        assert (receiver.wait(), receiver.wait()) == (b"one", b"")
        message = struct.pack(">Q", 3) + b"two"
        for number, byte in enumerate(message):
            assert receiver.next() is None, number
            theirs.sendall(bytes([byte]))
            assert receiver.read()
        assert receiver.next() == b"two"


def test_a_header_that_promises_too_much_is_refused() -> None:
    """Before anything of the message is read; one of the longest length is read."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        receiver = cell.Receiver(ours, most=10)
        cell.send(theirs, b"x" * 10)
        assert receiver.wait() == b"x" * 10
        theirs.sendall(struct.pack(">Q", 2**60))
        with pytest.raises(cell.Oversized):
            receiver.wait()


def test_the_end_of_a_connection_is_known() -> None:
    """What came before it is read; half a message is none."""
    ours, theirs = socket.socketpair()
    with ours:
        receiver = cell.Receiver(ours)
        cell.send(theirs, b"last")
        theirs.sendall(b"\0\0")
        theirs.close()
        assert receiver.wait() == b"last"
        with pytest.raises(EOFError):
            receiver.wait()
        assert receiver.ended and not receiver.read()
