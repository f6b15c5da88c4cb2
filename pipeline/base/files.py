"""Files that are written whole or not at all, and paths checked before any work is done."""

from __future__ import annotations

import os
from pathlib import Path

from pipeline.base.errors import UsageError


def writable_file(text: str) -> str:
    """Checks the path of a file to write, existing or not, in an existing folder.

    Raises:
        ValueError: It can't be written.
    """
    path = Path(text)
    folder = path.absolute().parent
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    if (path.exists() and not path.is_file()) or not os.access(folder, os.W_OK):
        raise ValueError(f"can't write the file {path}")
    return text


def writable_folder(text: str) -> str:
    """Checks the path of a folder to write to, which exists or can be made.

    Raises:
        ValueError: It can't be written to.
    """
    path = Path(text).absolute()
    existing = next(folder for folder in (path, *path.parents) if folder.exists())
    if not existing.is_dir():
        raise ValueError(f"{existing} is not a folder")
    if not os.access(existing, os.W_OK):
        raise ValueError(f"can't write to the folder {existing}")
    return text


def write_text(path: Path, text: str) -> None:
    """Writes a file at once or not at all, creating its folder.

    Raises:
        UsageError: It can't be written.
    """
    target = path.resolve()  # a link stays one
    partial = target.with_name(f".{target.name}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        raise UsageError(f"{path}: cannot write the file: {error.strerror}") from None
