"""The names of languages: entry points of the group `adaptive_step.languages`, which any package may declare.

No language is imported to read its name.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated

from pipeline.base.errors import UsageError
from pipeline.base.files import CHECKOUT
from pipeline.base.settings import Option

GROUP = "adaptive_step.languages"
DEFAULT = "step"
"""The language of a command without `--language`."""


def declared() -> Mapping[str, EntryPoint]:
    """The entry points by the names of their languages, sorted.

    Those of the checkout that this code is run from are read from its pyproject.toml, so that it need not be installed.
    """
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if CHECKOUT is not None:
        project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        own = project.get("entry-points", {}).get(GROUP, {})
        found |= {name: EntryPoint(name, value, GROUP) for name, value in own.items()}
    return dict(sorted(found.items()))


def known(name: str) -> str:
    """The name, for the check of an option.

    Raises:
        ValueError: No entry point declares it.
    """
    names = declared()
    if name not in names:
        raise ValueError(
            f"no language {name!r}; expected one of {', '.join(names)}, or install the package that has it"
        )
    return name


def chosen(name: str) -> str | None:
    """As `known`, with None for the default, which records and programs do not name.

    Raises:
        ValueError: No entry point declares it.
    """
    return None if known(name) == DEFAULT else name


def step_only(name: str | None, what: str) -> None:
    """Refuses an option or command that is STeP's alone.

    Raises:
        UsageError: The language is another.
    """
    if name not in (None, DEFAULT):
        raise UsageError(f"{what}: the language `{name}` does not offer this; it is STeP's alone")


LanguageName = Annotated[
    str | None,
    Option(
        "the language of the programs, which an installed package declares. Programs of some languages run as Python,"
        " in isolated workers only: see docs/security.md (default: step)",
        metavar="NAME",
        check=chosen,
    ),
]
"""The type of a field for `--language`."""
