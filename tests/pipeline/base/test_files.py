"""Files hold these.

- What can't be written is reported before any work is done.
- A file is written whole or unchanged; a link to one stays a link.
- The project's own lie in its checkout, and a path is shown as a person would type it.
"""

import os
from pathlib import Path

import pytest

from pipeline.base import files


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
    with pytest.raises(ValueError, match="taken exists; name another file, or remove it"):
        files.new_file(str(taken))


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
