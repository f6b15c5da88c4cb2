"""The process that runs an author's code holds nothing but its connection, on which messages are bounded.

The check of what judges programs notices no more than it must; `tests/attacks/test_isolation.py` has what it notices.
"""

import socket
import struct
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType

import pytest

from pipeline.verification.isolation import integrity, warden
from pipeline.verification.pool import WorkerLost, WorkerPool
from step_runtime.verification import compare
from tests.support import attacking, crashing


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    with WorkerPool(1, seconds=60, memory=2**28, group=crashing.first_word) as pool:
        yield pool


def test_it_has_its_own_session(pool: WorkerPool) -> None:
    """A signal to its group reaches no other process."""
    session, process, parent = pool.submit(attacking.sessions, "a").result()
    assert session == process != parent


def test_a_value_that_is_not_data_is_its_call_s_error(pool: WorkerPool) -> None:
    """The next call of the group is answered."""
    with pytest.raises(WorkerLost, match=r"raised TypeError: .* not data"):
        pool.submit(crashing.echo, "bytes", b"x").result()
    assert pool.submit(crashing.echo, "x").result() == "x"


def test_messages_are_read_in_pieces() -> None:
    """Of any length, none included; one that has not arrived whole is not there yet."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        receiver = warden.Receiver(ours)
        warden.send(theirs, b"one", b"")
        assert (receiver.wait(), receiver.wait()) == (b"one", b"")
        message = struct.pack(">Q", 3) + b"two"
        for number, byte in enumerate(message):
            assert receiver.next() is None, number
            theirs.sendall(bytes([byte]))
            assert receiver.read()
        assert receiver.next() == b"two"


def test_the_end_of_a_connection_is_known() -> None:
    """What came before it is read; half a message is none."""
    ours, theirs = socket.socketpair()
    with ours:
        receiver = warden.Receiver(ours)
        warden.send(theirs, b"last")
        theirs.sendall(b"\0\0")
        theirs.close()
        assert receiver.wait() == b"last"
        with pytest.raises(EOFError):
            receiver.wait()
        assert receiver.ended and not receiver.read()


def test_what_python_and_torch_add_themselves_is_not_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry of a module's warnings, and modules that torch imports late."""
    import torch

    holds = integrity.unchanged()
    with pytest.warns(UserWarning, match="x"):
        warnings.warn_explicit("x", UserWarning, "x.py", 1, registry=vars(compare)["__warningregistry__"])
    monkeypatch.setattr(torch, "imported_late", ModuleType("x"), raising=False)
    assert holds()


def test_a_name_of_a_task_s_own_is_not_a_change() -> None:
    """Its modules are its own."""
    holds = integrity.unchanged()
    sys.modules["a_task_s_own"] = ModuleType("a_task_s_own")
    try:
        assert holds()
    finally:
        del sys.modules["a_task_s_own"]
