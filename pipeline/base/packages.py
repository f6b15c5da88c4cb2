"""A package beside ours whose metadata can't be read: it is named, and skipped.

pydantic, MLflow and this project read the entry points of all installed packages at once, so that one file that is no
UTF-8 would end every command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import Distribution, distributions
from typing import Any

_NAMED = "ADAPTIVE_STEP_SKIPPED"
"""The environment variable by which processes that this one starts know what is named already."""


def skip_unreadable() -> None:
    """Has all readers of entry points pass over the packages whose file of them can't be read."""
    broken = {_place(each) for each in distributions() if not _is_readable(each)}
    if not broken:
        return
    for name in ("importlib.metadata", "importlib_metadata"):  # the second is a package of its own, which MLflow uses
        with suppress(ModuleNotFoundError):
            _skip(import_module(name).PathDistribution, broken)
    for place in sorted(broken - {*os.environ.get(_NAMED, "").split(os.pathsep)}):
        print(f"{place}: its entry_points.txt can't be read; this package is skipped", file=sys.stderr)
    os.environ[_NAMED] = os.pathsep.join(sorted(broken))


def lazily(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose names are imported from their modules on first use."""

    def named(name: str) -> Any:
        home = next((home for home, names in homes.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(home), name)

    return named


def _skip(kind: Any, broken: set[str]) -> None:
    read = kind.read_text

    def read_text(self: Any, filename: str) -> str | None:
        found: str | None = None if filename == "entry_points.txt" and _place(self) in broken else read(self, filename)
        return found

    kind.read_text = read_text


def _place(distribution: Any) -> str:
    return str(getattr(distribution, "_path", distribution))


def _is_readable(distribution: Distribution) -> bool:
    try:
        distribution.entry_points  # noqa: B018 # reads the file
    except (OSError, ValueError):
        return False
    return True
