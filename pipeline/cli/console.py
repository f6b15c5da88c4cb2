"""Rich consoles for stdout and stderr; where they are not terminals, lines are of a fixed width."""

from __future__ import annotations

import sys

from rich.console import Console

WIDTH = 120


def stdout_console() -> Console:
    """A console on stdout."""
    return Console(width=None if sys.stdout.isatty() else WIDTH)


def stderr_console() -> Console:
    """A console on stderr."""
    return Console(stderr=True, width=None if sys.stderr.isatty() else WIDTH)


def print_lines(console: Console, *lines: str) -> None:
    """Prints lines unchanged: without markup, highlighting or wrapping."""
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
