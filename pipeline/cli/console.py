"""Rich consoles for stdout and stderr; where they are not terminals, lines are of a fixed width."""

from __future__ import annotations

from rich.console import Console

from pipeline.base.terminal import console


def stdout_console() -> Console:
    """A console on stdout."""
    return console()


def stderr_console() -> Console:
    """A console on stderr."""
    return console(stderr=True)


def print_lines(console: Console, *lines: str) -> None:
    """Prints lines unchanged: without markup, highlighting or wrapping."""
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
