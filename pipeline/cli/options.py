"""Argument parsers derived from configs (`pipeline.base.config`).

A bad value ends the command with one line on stderr (exit code 2); the usage text is for `--help` only.
"""

from __future__ import annotations

import argparse
import glob
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from pipeline.base.config import ProgramConfig, RunConfig
from pipeline.base.errors import UsageError, print_message
from pipeline.base.files import TASKS, read_bytes, shown
from pipeline.base.settings import EMBEDDED, NO_PROGRAM, Config, Option, flag, option
from pipeline.languages import registry
from pipeline.verification.isolation import confinement
from pipeline.verification.isolation.confinement import SandboxOptions
from pipeline.verification.task_files import TASK_SUFFIXES, find, find_all

if TYPE_CHECKING:
    from step_runtime import Task

Json = Annotated[bool, Option("print the result as one JSON object on stdout", flags=("--json",))]


def output_option(text: str, metavar: str, check: Callable[[str], str] | None, *, required: bool = False) -> Any:
    """The field of `-o`: where results go; see `Option` for the arguments."""
    default = ... if required else None
    return option(default, text, metavar, flags=("-o", "--output"), check=check, required=required)


def command_line(name: str, argv: Sequence[str] | None) -> str:
    """The command that is running, for the record; without `argv` with this process's arguments."""
    return f"python -m {name} {shlex.join(sys.argv[1:] if argv is None else argv)}"


class Parser(argparse.ArgumentParser):
    """A parser of the fields of some configs; its errors are `UsageError`s of one line.

    Args:
        models: The configs, in the order of `--help`; options that are not in a group precede all groups. Of fields
            with one name, the first counts.

    Attributes:
        arguments: The argparse action of each field, by name.
    """

    def __init__(self, prog: str, description: str, epilog: str, *models: type[Config]) -> None:
        super().__init__(
            prog=f"python -m {prog}",
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self._models = models
        self.arguments: dict[str, argparse.Action] = {}
        groups: dict[str, Any] = {"": self}
        for model in models:
            for name in (each for each in model.names() if each not in self.arguments):
                field, option = model.model_fields[name], Option.of(model, name)
                group = groups.get(option.group) or self.add_argument_group(option.group)
                groups[option.group] = group
                names, settings = _argument(name, field, option)
                self.arguments[name] = group.add_argument(*names, **settings)

    def given(self, argv: Sequence[str] | None) -> dict[str, Any]:
        """The options on the command line, by field; those that are not given are absent.

        How tasks' code is confined applies at once, and a message says what the system can't confine.

        Raises:
            UsageError: The command line is not valid.
        """
        given = vars(self.parse_args(argv))
        if SandboxOptions in self._models:
            options = {name: given.pop(name) for name in SandboxOptions.model_fields if name in given}
            if unconfined := confinement.use(options):
                print_message(self.prog.removeprefix("python -m "), f"{unconfined}; see --sandbox")
        return given

    def error(self, message: str) -> NoReturn:
        """Raises `UsageError`, where argparse would print the usage and exit."""
        raise UsageError(f"{message} (--help shows the options)")


def _argument(name: str, field: FieldInfo, option: Option) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The names and settings of the argument for a field."""
    kind = next((each for each in get_args(field.annotation) if each is not NoneType), field.annotation)
    kind = field.annotation if get_origin(field.annotation) in (Literal, tuple) else kind
    settings: dict[str, Any] = {"help": _help(field, option)}
    if option.positional:
        names: tuple[str, ...] = (name,)
    else:
        names, settings["dest"] = option.flags or (flag(name),), name
        settings["required"] = option.required
    if field.annotation is bool:
        return names, settings | {"action": "store_true"}
    if get_origin(kind) is Literal:
        settings["choices"] = get_args(kind)
    if option.check:
        settings["type"] = _checked(option.check)
    elif kind is not str and option.nargs is None and "choices" not in settings:
        settings["type"] = _converter(field)
    if option.repeated:
        settings["action"] = "append"
    return names, settings | {"metavar": option.metavar, "nargs": option.nargs}


def _help(field: FieldInfo, option: Option) -> str | None:
    text, default = option.help, field.get_default()
    if "(default: " not in text and not field.is_required() and default is not None and default is not False:
        shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
        text += f" (default: {f'{shown:g}' if isinstance(shown, float) else shown})"
    return text.strip().replace("%", "%%") or None


def _converter(field: FieldInfo) -> Callable[[str], Any]:
    """Converts a text to a field's value, by the field's own type and constraints."""
    kind: Any = Annotated[(field.annotation, *field.metadata)]
    return _checked(TypeAdapter(kind).validate_python)


def _checked(check: Callable[[str], Any]) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        try:
            return check(text)
        except ValueError as error:
            message = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            raise argparse.ArgumentTypeError(message.removeprefix("Value error, ")) from None

    return convert


# --- the arguments that name tasks and programs, and reading these programs -------------------------------------------
# A name that ends in `.yaml` or `.yml`, a folder, a pattern and a benchmark name are tasks. Any other file, and `-`, is
# the program of the task named before it.

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
