"""Writes tests/public_api.txt: the names that users may rely on, with their signatures, and the commands' options.

How to run: python -m scripts.public_api
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from pipeline.__main__ import COMMANDS

FILE = Path(__file__).resolve().parents[1] / "tests" / "public_api.txt"
PACKAGES = ("optimizers", "pipeline", "signatures", "step_runtime")
_OPTION = re.compile(r"^  (-.*?)(?:  |$)", re.MULTILINE)
_LONG = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def public_api() -> str:
    """The text of the file: one line for each name, field, method and option, in order."""
    return "".join(f"{line}\n" for line in [*_names(), *_options()])


def _names() -> Iterator[str]:
    for package in PACKAGES:
        module = import_module(package)
        for name in sorted(module.__all__):
            yield from _described(f"{package}.{name}", getattr(module, name))


def _described(name: str, value: Any) -> Iterator[str]:
    if not inspect.isclass(value):
        yield f"{name}{_signature(value)}" if callable(value) else name
        return
    own = [base for base in reversed(value.__mro__) if base.__module__.partition(".")[0] in PACKAGES]
    yield f"class {name}"
    fields = {
        field: kind
        for base in own
        for field, kind in inspect.get_annotations(base).items()
        if not field.startswith("_") and "ClassVar" not in str(kind)
    }
    members = {member: found for base in own for member, found in vars(base).items()}
    for field in sorted(fields):
        yield f"{name}.{field}: {fields[field]}"
    for member, attribute in sorted(members.items()):
        made = member == "__init__" and not dataclasses.is_dataclass(value)  # fields say it of a dataclass
        if not made and (member.startswith("_") or member in fields):
            continue
        found = inspect.unwrap(getattr(attribute, "__func__", attribute))
        if inspect.isfunction(found) and found.__module__.partition(".")[0] in PACKAGES:
            yield f"{name}.{member}{_signature(found)}"
        elif isinstance(found, property):
            yield f"{name}.{member}"


def _signature(value: Any) -> str:
    """A signature as it is written, with defaults whose text may change left out."""
    found = inspect.signature(value)
    parameters = [
        each if each.default is each.empty or isinstance(each.default, (bool, int, float, str, tuple, type(None)))
        else each.replace(default=...)
        for each in found.parameters.values()
    ]  # fmt: skip
    return str(found.replace(parameters=parameters)).replace("= Ellipsis", "= …")


def _options() -> Iterator[str]:
    for command in sorted(COMMANDS):
        main, text = import_module(f"pipeline.{command}").main, io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
            main(["--help"])
        shown = [option for match in _OPTION.finditer(text.getvalue()) for option in _LONG.findall(match[1])]
        yield from (f"python -m pipeline.{command} {option}" for option in sorted(set(shown)))


if __name__ == "__main__":
    FILE.write_text(public_api(), encoding="utf-8")
