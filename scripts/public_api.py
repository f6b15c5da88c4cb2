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
    described: dict[type, str] = {}
    for package in PACKAGES:
        module = import_module(package)
        for name in sorted(module.__all__):
            yield from _described(f"{package}.{name}", getattr(module, name), described)


def _described(name: str, value: Any, described: dict[type, str]) -> Iterator[str]:
    """The lines of a name; a base class of ours is described once, before the first class that has it."""
    if not inspect.isclass(value):
        yield f"{name}{_signature(value)}" if callable(value) else name
        return
    bases = [base for base in value.__bases__ if base.__module__.partition(".")[0] in PACKAGES]
    for base in bases:
        if base not in described:
            yield from _described(f"{base.__module__}.{base.__qualname__}", base, described)
    described[value] = name
    inherited = f"({', '.join(described[base] for base in bases)})" if bases else ""
    yield f"class {name}{inherited}"
    fields = {
        field: kind
        for field, kind in inspect.get_annotations(value).items()
        if not field.startswith("_") and "ClassVar" not in str(kind)
    }
    for field in sorted(fields):
        yield f"{name}.{field}: {fields[field]}"
    for member, attribute in sorted(vars(value).items()):
        made = member == "__init__" and not dataclasses.is_dataclass(value)  # fields say it of a dataclass
        overrides = any(hasattr(base, member) for base in bases)
        if not made and (member.startswith("_") or member in fields or overrides):
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
