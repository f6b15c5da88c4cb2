"""Why a command ends early, and with which exit code.

    PipelineError
    ├── UsageError        2  an option, a task file or a program file is wrong
    ├── RecordError       2  what was done can't be put on record: the store is away, the disk full
    └── LMUnavailable     3  the LM can't be used: no key, refused, unreachable, nothing left to spend

A wrong answer of an LM is none of these: it is data (a verdict). The message of each is one that a person can act on:
`run_command` prints it on stderr as it stands, without a traceback.
"""

from __future__ import annotations

import enum
import os
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import NoReturn


class Exit(enum.IntEnum):
    """The exit codes of every command."""

    OK = 0
    NO = 1
    USAGE = 2
    LM = 3
    INTERRUPTED = 130


class PipelineError(Exception):
    """A fault that ends a command with one message; each subclass has an exit code of its own."""

    exit_code = Exit.USAGE


class UsageError(PipelineError):
    """What the person typed, or a file that they named, can't be used."""


class RecordError(PipelineError):
    """The record of a run can't be written any longer: the store is away, the disk full."""


class LMUnavailable(PipelineError):
    """The LM can't be used: no key, refused, unreachable, or nothing left to spend before anything was done."""

    exit_code = Exit.LM


def run_command(name: str, main: Callable[[Sequence[str] | None], int], argv: Sequence[str] | None = None) -> int:
    """Runs a command's `main` and turns its exceptions into a message on stderr and an exit code.

    Args:
        name: what the message starts with, e.g. `pipeline.compile`.
        main: takes the arguments (None: those of the process) and returns the exit code.
        argv: the arguments, without the program's name.
    """
    try:
        code = main(argv)
        sys.stdout.flush()
    except PipelineError as error:
        tell(name, error)
        return error.exit_code
    except KeyboardInterrupt as interrupt:
        tell(name, str(interrupt) or "interrupted")
        return Exit.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output (`| head`) has seen enough; Python would complain once more at its own exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    return code


def tell(name: str, message: object) -> None:
    """Says something on stderr, under a command's name."""
    print(f"{name}: {message}", file=sys.stderr)


def start(name: str, main: Callable[[Sequence[str] | None], int]) -> NoReturn:
    """Runs a command as the process's own.

    A polite kill (SIGTERM) ends it like Ctrl-C, with its work kept. Ctrl-C works even where a script's `&` ignores it.
    A warning is a line on stderr like any message.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    # Python would show the line of ours that warns, too.
    warnings.formatwarning = lambda message, *_, **__: f"{name}: {message}\n"
    sys.exit(run_command(name, main))
