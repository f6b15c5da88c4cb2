"""Argument parsers derived from configs (`pipeline.base.config`).

A bad value ends the command with one line on stderr (exit code 2); the usage text is for `--help` only.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Annotated, Any, Literal, NoReturn, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from pipeline.base.errors import UsageError, print_message
from pipeline.base.settings import Config, Option, flag, option
from pipeline.verification import sandbox
from pipeline.verification.sandbox import SandboxOptions

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
            if unconfined := sandbox.use(options):
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
