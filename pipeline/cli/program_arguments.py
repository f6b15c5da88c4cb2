"""The arguments that name a task and a program, and the program that they name."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.base.errors import UsageError
from pipeline.cli.options import Parser

if TYPE_CHECKING:
    from step_runtime import Task


def add_program(parser: Parser) -> None:
    """Adds the arguments that name a task and a program; `read_program` reads the latter."""
    parser.add_argument("task", metavar="TASK", help="a task file, or a benchmark name such as gemm/1")
    parser.add_argument(
        "impl",
        metavar="IMPL",
        nargs="?",
        help="a file with the program, `-` for stdin (default: the task's own `impl`)",
    )


def read_program(args: argparse.Namespace, task: Task) -> str:
    """The program that `add_program`'s arguments name.

    Raises:
        UsageError: it cannot be read, or none is named and the task has no `impl`.
    """
    name: str | None = args.impl
    if name is None:
        if task.impl is None:
            raise UsageError(f"{args.task}: this task has no `impl`; name a file with the program, or - for stdin")
        return task.impl
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{name}: cannot read the program: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{name}: cannot read the program: it is not UTF-8 text") from None
