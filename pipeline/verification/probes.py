"""What a cell must not let happen, tried in it: `pipeline.actions.conformance` calls these in a worker.

The first two arguments of each are a task's name and its statement, by which a pool finds the task's cell.
"""

from __future__ import annotations

from pathlib import Path

from pipeline.languages import registry


def spin(name: str, content: str) -> str:
    """Never returns."""
    while True:
        pass


def allocate(name: str, content: str, amount: int) -> str:
    """Holds so many bytes."""
    held = b"\1" * amount
    return f"held {len(held):,} bytes"


def write(name: str, content: str, path: str) -> str:
    """Writes a file; says why it could not."""
    try:
        Path(path).write_text("written", encoding="utf-8")
    except OSError as error:
        return type(error).__name__
    return "written"


def read(name: str, content: str, path: str) -> str:
    """Reads a file; says why it could not."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        return type(error).__name__


def key_of(name: str, content: str, text: str, language: str) -> str:
    """The key of a program, in this process."""
    spoken = registry.find(language)
    return spoken.key(spoken.task(content, name, name), text)
