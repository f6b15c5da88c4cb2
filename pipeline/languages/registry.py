"""Languages found by the entry points of the group `adaptive_step.languages`, which any package may declare.

To read the names is fast: a language's package is imported when it is used.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar, cast

from pipeline.base.errors import UsageError
from pipeline.base.paths import CHECKOUT, TASKS
from pipeline.base.settings import Option

if TYPE_CHECKING:
    from pipeline.languages.language import Language

GROUP = "adaptive_step.languages"
DEFAULT = "step"
"""The language of a command without `--language`."""
_Offer = TypeVar("_Offer")


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


LanguageName = Annotated[
    str | None,
    Option(
        "the language of the programs, which an installed package declares; of some, programs are run as Python, in"
        " the isolated workers alone: see docs/security.md (default: step)",
        metavar="NAME",
        check=known,
    ),
]
"""The type of a field for `--language`."""


@functools.cache
def find(name: str) -> Language:
    """The language of a name.

    Raises:
        UsageError: There is none, its package can't be imported, or what it declares is no language.
    """
    from pipeline.languages.language import Language

    try:
        entry = declared()[known(name)]
    except ValueError as error:
        raise UsageError(f"--language: {error}") from None
    try:
        language = entry.load()
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] in ("pipeline", "step_runtime", entry.module.partition(".")[0]):
            raise UsageError(f"--language {name}: its entry point {entry.value!r} names no module: {error}") from None
        raise
    except AttributeError as error:
        raise UsageError(f"--language {name}: its entry point {entry.value!r} names nothing: {error}") from None
    missing = [member for member in _members(Language) if not _has(language, member)]
    if missing:
        raise UsageError(f"--language {name}: {entry.value} is no language; it lacks {', '.join(missing)}")
    if language.name != name:
        raise UsageError(f"--language {name}: {entry.value} calls itself {language.name!r}; name both alike")
    found: Language = language
    return found


def _has(value: object, member: str) -> bool:
    """Whether there is a member, without computing a property of the class."""
    return hasattr(type(value), member) or hasattr(value, member)


def _members(protocol: type) -> list[str]:
    return sorted(name for name in {*vars(protocol), *protocol.__annotations__} if not name.startswith("_"))


def module_of(name: str) -> str:
    """The module that a language's entry point names, for workers to import before they run anything."""
    return declared()[name].module


def tasks_folder(name: str | None) -> Path:
    """The folder of a language's own tasks; None for the default language, which is not imported for that.

    Raises:
        UsageError: There is no such language.
    """
    return TASKS if name is None else find(name).folder / "tasks"


def offer(name: str | None, kind: Callable[..., _Offer], what: str) -> _Offer:
    """A language as one that makes an offer.

    Args:
        name: The language's; None for the default.
        kind: One of the optional protocols of `pipeline.languages.language`.
        what: What needs it: an option or a command.

    Raises:
        UsageError: The language lacks the offer.
    """
    language, protocol = find(name or DEFAULT), cast(type, kind)  # mypy takes no protocol for a type
    if not isinstance(language, protocol):
        lacks = ", ".join(_members(protocol))
        raise UsageError(f"{what}: the language `{language.name}` does not offer this ({protocol.__name__}: {lacks})")
    return cast(_Offer, language)
