"""Private temporary folders of cells, and what is done about those that were left."""

import os
from pathlib import Path

import pytest

from pipeline.verification.isolation import scratch
from pipeline.verification.isolation.scratch import Scratch


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_folders_are_private_and_go(temporary: Path) -> None:
    """What was made in one is noticed; links in them are not followed."""
    own = Scratch()
    one, other = own.folder(), own.folder()
    assert one is not None
    assert other is not None
    assert one.stat().st_mode & 0o777 == 0o700
    outside = temporary / "outside"
    outside.mkdir()
    (outside / "file").touch()
    (one / "link").symlink_to(outside)
    assert (scratch.used(one), scratch.used(other), scratch.used(None)) == (True, False, False)
    own.close()
    assert [*temporary.iterdir()] == [outside]
    assert (outside / "file").exists()


def test_what_a_killed_worker_left_is_removed_by_the_next(temporary: Path) -> None:
    """That of a worker that lives stays."""
    living, killed = Scratch(), Scratch()
    left, kept = killed.folder(), living.folder()
    assert left is not None
    assert kept is not None
    (left / "file").touch()
    os.close(killed._lock)  # as the system does at a process's end
    Scratch().close()
    assert not left.parent.exists()
    assert kept.exists()
    living.close()


@pytest.mark.parametrize(("files", "size"), [(3, 0), (1, 2**13)])
def test_a_folder_is_full(temporary: Path, monkeypatch: pytest.MonkeyPatch, files: int, size: int) -> None:
    """By the number of files, or by their bytes, those of folders in it included."""
    monkeypatch.setattr(scratch, "MOST_FILES", 3)
    monkeypatch.setattr(scratch, "LARGEST", 2**12)
    (temporary / "below").mkdir()
    assert not scratch.overfull(temporary)
    for number in range(files):
        (temporary / "below" / str(number)).write_bytes(os.urandom(size))
    assert scratch.overfull(temporary)
    assert not scratch.overfull(None)


def test_deep_folders_and_those_that_nobody_may_read_go(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deeper than a path, or Python's stack, is long; they can't be counted, and keep no worker from its start."""
    killed = Scratch()
    left = killed.folder()
    assert left is not None
    monkeypatch.chdir(left)
    for _ in range(2200):
        os.mkdir("d")  # noqa: PTH102 - relative to where this process is
        os.chdir("d")
    os.chdir(temporary)
    assert scratch.overfull(left)
    (left / "closed").mkdir()
    (left / "closed" / "file").touch()
    (left / "closed" / "link").symlink_to(temporary)
    (left / "closed").chmod(0)
    os.close(killed._lock)
    Scratch().close()
    assert not left.parent.exists()
    assert temporary.exists()


def test_where_there_is_no_room_there_is_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells then have none, and run all the same."""
    monkeypatch.setattr("tempfile.tempdir", "/dev/null")
    own = Scratch()
    assert own.folder() is None
    own.close()
