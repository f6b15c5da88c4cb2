"""Files: read up to a bound; written whole or not at all, and never through a link that somebody else has planted."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from pipeline.base.errors import UsageError
from pipeline.base.text import redacted, visible

# --- where the project's files are ------------------------------------------------------------------------------------
# An installed project keeps its record in the current directory.

_PIPELINE = Path(__file__).resolve().parents[1]

CHECKOUT = _PIPELINE.parent if (_PIPELINE.parent / "pyproject.toml").is_file() else None
"""The folder of the checkout that this code is run from; None where it is installed."""

DATA = CHECKOUT / "data" if CHECKOUT else _PIPELINE / "data"
DOCS = CHECKOUT / "docs" if CHECKOUT else _PIPELINE / "docs"
"""The documentation; an installed project has the pages that its MCP server shows."""
TASKS = DATA / "tasks"
MLRUNS = (CHECKOUT or Path.cwd()) / "mlruns"


def shown(path: Path) -> str:
    """The path as a person would type it: relative to the current directory where it lies below."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


# --- reading up to a bound; writing whole or not at all, and never through a link that somebody else has planted ------


@contextlib.contextmanager
def file_errors(failure: str) -> Iterator[None]:
    """Within the context, an `OSError` is a `UsageError`: the failure in words, and the system's reason."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{failure}: {error.strerror or error}") from None


def existing_file(text: str) -> str:
    """Checks the path of a file to read.

    Raises:
        ValueError: There is none.
    """
    if not Path(text).is_file():
        raise ValueError(f"{text}: there is no such file")
    return text


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


def new_file(text: str) -> str:
    """Checks the path of a file to write that does not exist.

    Raises:
        ValueError: It exists, or can't be written.
    """
    if Path(writable_file(text)).exists():
        raise ValueError(f"{text} exists; name another file, or remove it")
    return text


def picture(text: str) -> str:
    """Checks the path of a picture to write.

    Raises:
        ValueError: It can't be written, or is neither an SVG nor a PNG.
    """
    if Path(text).suffix not in (".svg", ".png"):
        raise ValueError(f"expected a file that ends in .svg or .png, got {text!r}")
    return writable_file(text)


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


def read_bytes(path: Path, most: int) -> bytes:
    """The content of a regular file.

    Args:
        path: The file; it is opened without waiting, as a FIFO would keep its reader waiting for a writer.
        most: The limit of its length, in bytes.

    Raises:
        OSError: It cannot be read, is not a regular file, or is longer; `strerror` says which.
    """
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(number, "rb") as file:
        found = os.fstat(number)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        data = file.read(most + 1) if found.st_size <= most else None
    if data is None or len(data) > most:
        raise OSError(errno.EFBIG, f"more than {most:,} bytes, the limit of such a file")
    return data


def write_text(path: Path, text: str) -> None:
    r"""Writes a text as `write_bytes` does: without secrets, and with `\u202e` and the like for what would not be seen.

    Raises:
        UsageError: It can't be written.
    """
    write_bytes(path, visible(redacted(text)).encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Writes a file at once or not at all, its folder included.

    A link stays one, and its target is replaced, if that is a regular file of this user's, or not there yet. A link
    to a folder is followed if it is this user's or the system's.

    Raises:
        UsageError: It can't be written.
    """
    with file_errors(f"{path}: cannot write the file"), replacing(path) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A new file, open for writing, which replaces the one at `path` at the end of the context, unless that raises.

    Raises:
        OSError: It can't be written; see `write_bytes`.
    """
    # raises `OSError` if a folder on the way to a file is a link that neither this user nor the system has made
    for folder in path.absolute().parents:
        if folder.is_symlink() and folder.lstat().st_uid not in (0, os.getuid()):
            raise OSError(f"{folder} is another user's link")
    path.parent.mkdir(parents=True, exist_ok=True)
    target = _target(path)
    partial = target.with_name(f".{secrets.token_hex(16)}.partial")
    try:
        with open_new(partial) as file:
            yield file
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def open_new(path: Path) -> IO[bytes]:
    """A new file, open for writing; one that is there, a link included, is an `OSError`."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666), "wb")


def open_growing(path: Path) -> IO[bytes]:
    """A file in a folder of this user's, open for appending; made if it is not there.

    Raises:
        OSError: It can't be opened, or is a link.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o666), "ab")


def _target(path: Path) -> Path:
    """Where a file is written; `OSError` for a link of somebody else's, or to no regular file of this user's."""
    if not path.is_symlink():
        return path
    target = path.resolve(strict=False)
    owners = {path.lstat().st_uid}
    with contextlib.suppress(FileNotFoundError):
        found = target.lstat()
        owners.add(found.st_uid)
        if not stat.S_ISREG(found.st_mode):
            raise OSError("it is a link, and its target is not a regular file")
    if owners != {os.getuid()}:
        raise OSError("it is another user's link, or leads to another user's file")
    target.parent.mkdir(parents=True, exist_ok=True)
    return target
