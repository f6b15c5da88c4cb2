"""The arguments that name a task and a program, and reading that program."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.base.choices import FloatType
from pipeline.base.errors import UsageError
from pipeline.base.files import read_bytes
from pipeline.base.settings import Config, option

if TYPE_CHECKING:
    from step_runtime import Task


LONGEST = 2**24
"""Bytes of a program's file, or characters of standard input; `Limits.characters` is the limit of a program itself."""

_LINE_END = re.compile("\r\n?")


class ProgramName(Config):
    """A task and a program for it."""

    task: str = option(..., "a task file, or a benchmark name such as gemm/1", "TASK", positional=True)
    impl: str | None = option(
        None,
        "a file with the program, `-` for stdin (default: the task's own `impl`)",
        "IMPL",
        nargs="?",
        positional=True,
    )


class ProgramArguments(ProgramName):
    """A task, a program for it, and the floating type to compute in."""

    dtype: FloatType = option("float64", "the floating type to compute in")


def read_program(arguments: ProgramName, task: Task) -> str:
    """The program that the arguments name.

    Raises:
        UsageError: It can't be read, or none is named and the task has no `impl`.
    """
    if arguments.impl is not None:
        return read_text(arguments.impl)
    if task.impl is None:
        raise UsageError(f"{arguments.task}: this task has no `impl`; name a file with the program, or - for stdin")
    return task.impl


def read_text(name: str) -> str:
    """The text of a program's file, or of standard input for `-`.

    Raises:
        UsageError: It can't be read.
    """
    try:
        if name != "-":
            return _LINE_END.sub("\n", read_bytes(Path(name), LONGEST).decode("utf-8"))
        text = sys.stdin.read(LONGEST + 1)
    except OSError as error:
        raise UsageError(f"{name}: cannot read the program: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{name}: cannot read the program: it is not UTF-8 text") from None
    if len(text) > LONGEST:
        raise UsageError(f"{name}: cannot read the program: more than {LONGEST:,} characters")
    return text
