"""Files hold these.

- What can't be written is reported before any work is done.
- A file is written whole or unchanged; a link to one stays a link.
- The project's own lie in its checkout, and a path is shown as a person would type it.
"""

import os
from pathlib import Path

import pytest

from pipeline.base import files, paths
from pipeline.base.errors import UsageError
from tests.support.paths import PROJECT


def test_a_file_that_can_t_be_written_is_reported(tmp_path: Path) -> None:
    """Its folder is missing or a file, it is a folder, or not a regular file; an existing file may be replaced."""
    taken = tmp_path / "taken"
    taken.write_text("")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "no" / "x", taken / "x", tmp_path, tmp_path / "pipe", ""):
        with pytest.raises(ValueError, match=r"can't write the file|there is no folder"):
            files.writable_file(str(path))
    for path in (taken, tmp_path / "new"):
        assert files.writable_file(str(path)) == str(path)


def test_a_folder_that_can_t_be_written_to_is_reported(tmp_path: Path) -> None:
    """It is a file, or below one; a missing folder is created when it is needed."""
    taken = tmp_path / "taken"
    taken.write_text("")
    for path in (taken, taken / "a" / "b"):
        with pytest.raises(ValueError, match="taken is not a folder"):
            files.writable_folder(str(path))
    for path in (tmp_path, tmp_path / "a" / "b"):
        assert files.writable_folder(str(path)) == str(path)
    assert not (tmp_path / "a").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="whoever may do all can write to any folder")
def test_a_folder_that_is_read_only_is_reported(tmp_path: Path) -> None:
    """Of files in it, and of folders below."""
    tmp_path.chmod(0o500)
    for convert in (files.writable_file, files.writable_folder):
        with pytest.raises(ValueError, match="can't write"):
            convert(str(tmp_path / "x"))


def test_a_file_is_replaced_and_a_link_to_it_stays(tmp_path: Path) -> None:
    """Nothing else is left in the folder, which is created."""
    target, link = tmp_path / "a" / "b.txt", tmp_path / "link.txt"
    link.symlink_to(target)
    for text in ("one", "two"):
        files.write_text(link, text)
        assert target.read_text() == text
    assert link.is_symlink()
    assert [path.name for path in target.parent.iterdir()] == ["b.txt"]


def test_a_file_that_turns_out_not_to_be_writable_is_reported(tmp_path: Path) -> None:
    """In one line that names it."""
    (tmp_path / "taken").write_text("")
    with pytest.raises(UsageError, match="taken/x: cannot write the file: "):
        files.write_text(tmp_path / "taken" / "x", "text")


def test_a_checkout_has_its_own_data_and_record() -> None:
    """Both lie in the folder of pyproject.toml."""
    assert PROJECT == paths.CHECKOUT
    assert (PROJECT / "data", PROJECT / "mlruns") == (paths.DATA, paths.MLRUNS)
    assert (paths.TASKS / "gemm" / "1.yaml").is_file()


def test_a_path_below_the_current_directory_is_shown_relative_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any other is shown whole."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert paths.shown(here / "runs" / "a.json") == "runs/a.json"
    assert paths.shown(tmp_path / "a.json") == str(tmp_path / "a.json")
