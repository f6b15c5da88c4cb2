"""What systems offer to confine a process by, and what is done where it is not enough."""

import os
from pathlib import Path

import pytest

from pipeline.verification.isolation import confinement, landlock, processes, seccomp
from pipeline.verification.isolation.confinement import Means, Sandbox
from pipeline.verification.pool import WorkerLost, WorkerPool
from tests.support import crashing

needed = pytest.mark.skipif(bool(Means.here().missing), reason="needs Landlock and seccomp")


def in_a_child(what: str, **means: int | bool) -> str:
    """What a snippet prints in a process that is confined by these means alone."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        try:
            os.close(reading)
            processes.end_with_parent()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(confinement.Means, "here", lambda: Means(**means))  # type: ignore[arg-type]
                confinement.Confinement(Sandbox()).enter(None, ())
            try:
                exec(what)
                os.write(writing, b"done")
            except OSError as error:
                os.write(writing, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as output:
        found = output.read()
    os.waitpid(child, 0)
    return found


@needed
@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6])
def test_older_versions_of_landlock_confine_as_well(version: int, tmp_path: Path) -> None:
    """What they lack is refused by the filter of system calls: sockets, signals, and to empty a file."""
    if version > landlock.version():
        pytest.skip("this system's is older")
    (tmp_path / "file").write_text("private")
    for what in (
        f"open({str(tmp_path / 'file')!r})",
        f"open({str(tmp_path / 'new')!r}, 'w')",
        f"os.truncate({str(tmp_path / 'file')!r}, 0)",
        f"os.close(os.open({os.__file__!r}, os.O_RDONLY | os.O_TRUNC))",
        "import socket; socket.socket()",
        "os.kill(os.getppid(), 0)",
    ):
        assert in_a_child(what, landlock=version, seccomp=True) == "PermissionError", what
    for what in (f"open({os.__file__!r}).read()", "os.kill(os.getpid(), 0)", "open(os.devnull, 'w').write('x')"):
        assert in_a_child(what, landlock=version, seccomp=True) == "done", what


@needed
def test_a_system_without_landlock_confines_what_it_can() -> None:
    """The network and other processes, and not files; one that has neither confines nothing."""
    for means, network, files in (((0, True), "PermissionError", "done"), ((0, False), "done", "done")):
        landlock_, seccomp_ = means
        assert in_a_child("import socket; socket.socket()", landlock=landlock_, seccomp=seccomp_) == network
        assert in_a_child("open('/etc/passwd')", landlock=landlock_, seccomp=seccomp_) == files


@pytest.mark.parametrize(
    ("means", "missing", "described"),
    [
        (Means(7, True), "", "landlock 7, seccomp"),
        (Means(0, True), "no Landlock", "seccomp"),
        (Means(7, False), "no seccomp", "landlock 7"),
        (Means(0, False), "neither Landlock nor seccomp", "none"),
    ],
)
def test_what_is_missing_is_said(means: Means, missing: str, described: str) -> None:
    """In a message for people, and in a word for the record."""
    if processes.LINUX:
        assert missing in means.missing
        assert bool(means.missing) == bool(missing)
    assert str(means) == described


def test_a_cell_that_must_be_confined_and_is_not_runs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its calls are lost, and say why; the control runs where confinement need not be whole."""
    monkeypatch.setattr(confinement.Means, "here", lambda: Means(0, False))

    class Unforked(WorkerPool):
        """Its workers are forked from here, where the system offers nothing."""

        def __init__(self, mode: confinement.Mode) -> None:
            monkeypatch.setattr("pipeline.verification.pool._METHOD", "fork")
            monkeypatch.setattr("multiprocessing.context.ForkContext.set_forkserver_preload", lambda *_: None)
            super().__init__(1, seconds=60, memory=2**28, sandbox=Sandbox(mode))

    with Unforked("require") as pool, pytest.raises(WorkerLost, match="could not be confined, and ran nothing"):
        pool.submit(crashing.echo, 1).result(60)
    with Unforked("auto") as pool:
        assert pool.submit(crashing.echo, 1).result(60) == 1


def test_filters_hold_for_both_processors() -> None:
    """Each is a whole number of instructions that ends in a return, and refuses sockets by that processor's number."""
    for architecture, number in (("x86_64", 41), ("aarch64", 198)):
        for signals in (True, False):
            code = seccomp.program(architecture, 1234, signals=signals, truncation=signals)
            assert len(code) % 8 == 0
            assert len(code) // 8 < 4096
            assert code[-8:-6] == b"\x06\x00"
            assert b"\x15\x00\x00\x01" + number.to_bytes(4, "little") in code
