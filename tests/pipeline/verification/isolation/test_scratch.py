"""Private temporary folders of cells, and what is done about those that were left."""

import os
from pathlib import Path

import pytest

from pipeline.verification.isolation import warden
from pipeline.verification.isolation.warden import Scratch


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
    assert (warden.used(one), warden.used(other), warden.used(None)) == (True, False, False)
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


def test_where_there_is_no_room_there_is_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells then have none, and run all the same."""
    monkeypatch.setattr("tempfile.tempdir", "/dev/null")
    own = Scratch()
    assert own.folder() is None
    own.close()
