"""Texts that go into a message."""

from __future__ import annotations

MAX_END = 120
"""Characters kept of the beginning of a long error message, and of its end."""


def first_line(error: Exception) -> str:
    """An error in one line; the middle of a long one is left out."""
    line = (str(error).strip() or type(error).__name__).partition("\n")[0]
    return line if len(line) <= 2 * MAX_END else f"{line[:MAX_END]} … {line[-MAX_END:]}"
