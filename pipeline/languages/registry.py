"""Languages found by the entry points of the group `adaptive_step.languages`, which any package may declare.

To read the names is fast: a language's package is imported when it is used.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Annotated

from pipeline.base.errors import UsageError
from pipeline.base.paths import CHECKOUT
from pipeline.base.settings import Option

if TYPE_CHECKING:
    from pipeline.languages.language import Language

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


LanguageName = Annotated[
    str,
    Option(
        "the language that programs are written in: `step`, or another that an installed package declares",
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


def require(name: str, offer: type, what: str) -> None:
    """Checks that a language makes an offer.

    Args:
        name: The language's.
        offer: One of the optional protocols of `pipeline.languages.language`.
        what: What needs it: an option or a command.

    Raises:
        UsageError: The language lacks the offer.
    """
    if not isinstance(find(name), offer):
        lacks = ", ".join(_members(offer))
        raise UsageError(f"{what}: the language `{name}` does not offer this ({offer.__name__}: {lacks})")


def preload(name: str) -> None:
    """Imports a language's module, if it can be imported; whoever uses the language is told if not."""
    try:
        import_module(module_of(name))
    except (ImportError, KeyError):
        return
