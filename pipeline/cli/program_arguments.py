"""The arguments that name tasks and programs, and reading these programs.

A name that ends in `.yaml` or `.yml`, a folder, a pattern and a benchmark name are tasks. Any other file, and `-`, is
the program of the task named before it.
"""

from __future__ import annotations

import glob
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.base.choices import EMBEDDED, NO_PROGRAM
from pipeline.base.config import ProgramConfig, RunConfig
from pipeline.base.errors import UsageError
from pipeline.base.files import read_bytes
from pipeline.base.paths import TASKS, shown
from pipeline.base.settings import Config, option
from pipeline.languages import registry
from pipeline.verification.task_files import TASK_SUFFIXES, find, find_all

if TYPE_CHECKING:
    from step_runtime import Task


LONGEST = 2**24
"""Bytes of a program's file, or characters of standard input; `Limits.characters` is the limit of a program itself."""

_LINE_END = re.compile("\r\n?")


def program_file() -> Any:
    """The positional argument of a command that takes one program."""
    what = "a file with the program, `-` for stdin (default: the task's own `impl`)"
    return option(None, what, "IMPL", nargs="?", positional=True)


class ProgramName(Config):
    """A task and a program for it."""

    task: str = option(..., "a task file, or a benchmark name such as gemm/1", "TASK", positional=True)
    impl: str | None = program_file()


def require_ready(config: RunConfig | ProgramConfig, tasks: Sequence[str] | None) -> None:
    """Refuses what can be refused before the imports that take seconds.

    Raises:
        UsageError: The LM or the language does not serve an option, or a pattern names no task.
    """
    unnamed = EMBEDDED if getattr(config, "program", "") == NO_PROGRAM else ""
    config.require_served(config.lm or unnamed)
    registry.served(config)
    find_all(tasks, config.language)


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


_PATTERN = set("*?[")
_DEEPEST = 4
"""Parts of a task's path, at most, by which its program is looked for in a folder."""


@dataclass(frozen=True)
class Item:
    """A task's file and the name of its program: a file, `-` for standard input, None for the task's own `impl`."""

    task: Path
    program: str | None = None

    @cached_property
    def text(self) -> str | None:
        """The program's text, read once; None for the task's own `impl`.

        Raises:
            UsageError: It can't be read.
        """
        return None if self.program is None else read_text(self.program)

    @property
    def label(self) -> str:
        """The files as a person would type them."""
        return shown(self.task) if self.program is None else f"{shown(self.task)} {self.program}"


def resolve(names: Sequence[str], folder: str | None = None, root: Path = TASKS) -> list[Item]:
    """The tasks and programs that the names on a command line stand for, in their order; the first is a task.

    The programs of tasks that have none behind them are looked for in `folder`; `root` has the language's own tasks.

    Raises:
        UsageError: A name stands for nothing, or a program for no task or for several.
    """
    items: list[Item] = []
    for paths, name, program in _pairs(names, root):
        if program is not None and len(paths) > 1:
            raise UsageError(f"{name}: stands for {len(paths)} tasks; name one, such as {shown(paths[0])}")
        items += [Item(path, program or _beside(path, folder)) for path in paths]
    if sum(item.program == "-" for item in items) > 1:
        raise UsageError("-: standard input holds one program; name it once")
    return items


def names_many(names: Sequence[str], root: Path = TASKS) -> bool:
    """Whether names may stand for several programs, however many there are: more than TASK [IMPL], or any pattern."""
    several = any(_stands(name, Path.is_dir) or _is_pattern(name) for name in names)
    return several or sum(_is_task(name, index == 0, root) for index, name in enumerate(names)) > 1


def _pairs(names: Sequence[str], root: Path) -> Iterator[tuple[list[Path], str, str | None]]:
    """The files of each task name, the name, and the name of the program behind it."""
    last: tuple[list[Path], str] | None = None
    for index, name in enumerate(names):
        if _is_task(name, index == 0, root):
            if last:
                yield *last, None
            last = (find(name, root), name)
        elif last is None:
            raise UsageError(f"{name}: a program without a task before it; give pairs of TASK PROGRAM")
        else:
            yield *last, name
            last = None
    if last:
        yield *last, None


def _is_task(name: str, first: bool, root: Path) -> bool:
    if first or name.endswith(TASK_SUFFIXES) or _is_pattern(name):
        return True
    if name == "-" or _stands(name, Path.is_file):
        return False
    try:
        return bool(find(name, root))
    except UsageError:
        return False


def _stands(name: str, kind: Callable[[Path], bool]) -> bool:
    """Whether there is such a file or folder; a name that none can have, as it is too long, stands for none."""
    try:
        return kind(Path(name))
    except OSError:
        return False


def _is_pattern(name: str) -> bool:
    """Whether a name is a pattern and not the name of a file that happens to read like one, such as `a[1].step`."""
    return bool(_PATTERN & set(name)) and not _stands(name, Path.is_file)


def _beside(task: Path, folder: str | None) -> str | None:
    """The file in a folder whose path ends as the task's: `gemm/1.step` for `gemm/1.yaml`; the longest match."""
    if folder is None:
        return None
    for count in range(_DEEPEST, 0, -1):
        stem = Path(folder, *task.with_suffix("").parts[-count:])
        found = sorted(
            path for path in stem.parent.glob(f"{glob.escape(stem.name)}.*") if path.suffix not in TASK_SUFFIXES
        )
        if found:
            return str(found[0])
    return None
