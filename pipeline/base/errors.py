"""Why a command ends early, and with which exit code.

    PipelineError
    ├── UsageError        2  an option, a task file or a program file is wrong
    │   └── RunLive       2  the run to resume is still running, here or elsewhere
    ├── RecordError       3  a run can't be recorded: the store is unreachable, the disk full
    │   └── RunLost       3  another process has taken over the run
    ├── LMUnavailable     3  the LM can't be used: no key, refused, unreachable, budget exhausted
    └── ClusterUnavailable 3 the cluster of --cluster can't be used: unreachable, or lost while it was working

A wrong answer of an LM is not an error but data (a verdict). Each message is one that a person can act on:
`run_command` prints it on stderr without a traceback.
"""

from __future__ import annotations

import contextlib
import enum
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import NoReturn

from pipeline.base.text import SafeStream

EXTRA_MODULES = frozenset({
    "filelock", "jinja2", "matplotlib", "mlflow", "numpy", "pandas", "pygments", "rich", "scipy", "sympy", "torch",
    "yaml",
})  # fmt: skip
"""Modules of the packages that the commands need and `optimizers` alone does not."""


class Exit(enum.IntEnum):
    """The exit codes of every command."""

    OK = 0
    NO = 1
    USAGE = 2
    LM = 3
    UNKNOWN = 4
    INTERRUPTED = 130


class PipelineError(Exception):
    """An error that ends a command with one message, an exit code, and a kind for the JSON object."""

    exit_code = Exit.USAGE
    kind = "usage"


class UsageError(PipelineError):
    """An option, or a file that it names, can't be used."""


class RunLive(UsageError):
    """The run to resume is still running, in another process of this machine or elsewhere."""


class RecordError(PipelineError):
    """The record of a run can't be written: the store is unreachable, the disk full."""

    exit_code = Exit.LM
    kind = "record"


class RunLost(RecordError):
    """Another process has taken over the run, so that this one may no longer write it."""


class LMUnavailable(PipelineError):
    """The LM can't be used: no key, refused, unreachable, or the budget exhausted before the first answer."""

    exit_code = Exit.LM
    kind = "lm"


class ClusterUnavailable(PipelineError):
    """The cluster can't be used: its scheduler is unreachable or gone, or it has no nodes."""

    exit_code = Exit.LM
    kind = "cluster"


def run_command(name: str, main: Callable[[Sequence[str] | None], int], argv: Sequence[str] | None = None) -> int:
    """Runs a command's `main` and turns its exceptions into a message on stderr and an exit code.

    What it prints goes through `safe_output`.

    Messages begin with the command's name, such as `pipeline.compile`.
    """
    with safe_output():
        return _run(name, main, argv)


@contextlib.contextmanager
def safe_output() -> Iterator[None]:
    """In this context nothing reaches stdout or stderr that a terminal would act on, nor any secret."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = SafeStream.over(sys.stdout), SafeStream.over(sys.stderr)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _run(name: str, main: Callable[[Sequence[str] | None], int], argv: Sequence[str] | None) -> int:
    try:
        # Torch's C code would import it, and mistake any exception during that, even Ctrl-C, for a missing NumPy.
        import_module("numpy")
        code = main(argv)
        sys.stdout.flush()
    except PipelineError as error:
        return _ended(name, argv, error.exit_code, error.kind, str(error))
    except KeyboardInterrupt as interrupt:
        return _ended(name, argv, Exit.INTERRUPTED, "interrupted", str(interrupt) or "interrupted")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in EXTRA_MODULES:
            raise
        advice = "the commands need: pip install 'adaptive-step[pipeline]'"
        return _ended(name, argv, Exit.USAGE, "usage", f"{error.name} is not installed; {advice}")
    except BrokenPipeError:
        # The reader of our output (`| head`) has stopped; Python would complain again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    return code


def _ended(name: str, argv: Sequence[str] | None, code: Exit, kind: str, message: str) -> int:
    """Reports that a command ended without a result: on stderr, and with `--json` as an object on stdout too."""
    print_message(name, message)
    if "--json" in (sys.argv[1:] if argv is None else argv):
        from pipeline.base.outputs import json_text

        print(json_text(name, {"error": {"kind": kind, "exit_code": int(code), "message": message}}))
    return code


def require(*packages: str) -> None:
    """Looks for packages without importing them, so that one that lacks is named before a command says anything.

    Raises:
        ModuleNotFoundError: A package is not installed.
    """
    for package in packages:
        if find_spec(package) is None:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)


def print_message(name: str, message: object) -> None:
    """Prints a message on stderr, prefixed with a command's name."""
    print(f"{name}: {message}", file=sys.stderr)


def start(name: str, main: Callable[[Sequence[str] | None], int]) -> NoReturn:
    """Runs a command as the main program of the process.

    SIGTERM ends it like Ctrl-C, with its results kept. Ctrl-C works even if a shell's `&` made the process ignore it. A
    warning is one line on stderr like any message.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)

    def shown(message: Warning | str, *_: object, **__: object) -> str:
        """With the word, which stands behind a place in a file, and without the line of our code that warns."""
        return f"{name}: {'' if ': warning: ' in str(message) else 'warning: '}{message}\n"

    warnings.formatwarning = shown
    sys.exit(run_command(name, main))
