"""Files that are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

from pipeline.base.errors import UsageError


def write_text(path: Path, text: str) -> None:
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
