"""Files that a command writes where it is told to: found writable before any work is done, written whole or not at all.

`writable_file` and `writable_folder` are converters for options.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from pipeline.errors import UsageError


def writable_file(text: str) -> str:
    """A converter for the path of a file, which is there or not; its folder is."""
    path = Path(text)
    folder = path.absolute().parent
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {folder}")
    if (path.exists() and not path.is_file()) or not os.access(folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"can't write the file {path}")
    return text


def writable_folder(text: str) -> str:
    """A converter for the path of a folder, which is there or can be made."""
    path = Path(text).absolute()
    existing = next(folder for folder in (path, *path.parents) if folder.exists())
    if not existing.is_dir():
        raise argparse.ArgumentTypeError(f"{existing} is no folder")
    if not os.access(existing, os.W_OK):
        raise argparse.ArgumentTypeError(f"can't write to the folder {existing}")
    return text


def write(path: Path, text: str) -> None:
    """Writes a file at once or not at all, its folder included.

    Raises:
        UsageError: it can't be written.
    """
    target = path.resolve()  # a link stays one
    partial = target.with_name(f".{target.name}.partial")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        raise UsageError(f"{path}: cannot write the file: {error.strerror}") from None
