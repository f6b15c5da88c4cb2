"""The process that runs an author's code holds nothing but its connection, on which messages are bounded.

The check of what judges programs notices every binding that changes, and nothing else.
"""

import builtins
import socket
import struct
import sys
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from pipeline.verification.isolation import cell, integrity
from pipeline.verification.pool import WorkerLost, WorkerPool
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


SOURCE = """
LIMIT = 3
def judge(value, most=3):
    return value < most
class Verifier:
    def found(self):
        return []
"""


@pytest.fixture
def module() -> Iterator[Any]:
    module = ModuleType("step_runtime.verification.made_for_a_test")
    sys.modules[module.__name__] = module
    exec(SOURCE, vars(module))
    yield module
    del sys.modules["step_runtime.verification.made_for_a_test"]


class Equal:
    """Equal to everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


def rebind_code(module: Any) -> None:
    module.judge.__code__ = (lambda value, most=3: True).__code__


def rebind_defaults(module: Any) -> None:
    module.judge.__defaults__ = (10**9,)


CHANGES: dict[str, Callable[[Any], object]] = {
    "a function": lambda module: setattr(module, "judge", lambda value: True),
    "a constant": lambda module: setattr(module, "LIMIT", 4),
    "something equal to it": lambda module: setattr(module, "LIMIT", Equal()),
    "a function's code": rebind_code,
    "a function's defaults": rebind_defaults,
    "a method": lambda module: setattr(module.Verifier, "found", lambda self: [1]),
    "a new name, which hides a builtin": lambda module: setattr(module, "zip", lambda *_: ()),
    "a name that is gone": lambda module: delattr(module, "LIMIT"),
    "a module": lambda module: sys.modules.update({module.__name__: ModuleType("x")}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_noticed(change: str, module: Any) -> None:
    """Nothing is found before."""
    holds = integrity.unchanged()
    assert holds()
    CHANGES[change](module)
    assert not holds()


def test_builtins_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """As every module looks its names up there."""
    holds = integrity.unchanged()
    monkeypatch.setattr(builtins, "sorted", lambda items: [])
    assert not holds()
    monkeypatch.undo()
    assert holds()


def test_what_python_and_torch_add_themselves_is_not_a_change(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The registry of a module's warnings, and modules that torch imports late."""
    import torch

    holds = integrity.unchanged()
    with pytest.warns(UserWarning, match="x"):
        warnings.warn_explicit("x", UserWarning, "x.py", 1, registry=vars(module).setdefault("__warningregistry__", {}))
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
