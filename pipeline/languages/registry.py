"""Languages by their names, imported when they are first used; `pipeline.base.languages` has the names."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from pipeline.base.errors import UsageError
from pipeline.base.languages import DEFAULT, declared, known
from pipeline.base.paths import TASKS

if TYPE_CHECKING:
    from pipeline.languages.language import Language

_Offer = TypeVar("_Offer")


@functools.cache
def find(name: str | None) -> Language:
    """The language of a name; None for the default.

    Raises:
        UsageError: There is none, its package can't be imported, or what it declares is no language.
    """
    from pipeline.languages.language import Language

    name = name or DEFAULT
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


def version(name: str | None) -> str:
    """What records and compiled programs name: it changes whenever a verdict may change.

    It is the language's own word where it is `Versioned`. Else it is the version of the distribution, if there is one,
    and a digest of the Python files beside the module of the entry point, and below.

    Raises:
        UsageError: There is no such language.
    """
    from pipeline.languages.language import Versioned

    language, entry = find(name), declared()[name or DEFAULT]
    if isinstance(language, Versioned):
        return language.version
    spec = find_spec(entry.module)
    module = Path(str(spec.origin)) if spec else Path()
    inside = module.name == "__init__.py" or "." in entry.module
    digest = hashlib.sha256()
    for path in sorted(module.parent.rglob("*.py")) if inside else [module]:
        digest.update(f"{path.relative_to(module.parent)}".encode() + path.read_bytes())
    released = f"{entry.dist.version}, " if entry.dist else ""
    return f"{released}code {digest.hexdigest()[:12]}"


def lost_stage(stages: Sequence[str]) -> str:
    """The stage at which a program counts that its worker did not survive."""
    return "run" if "run" in stages else stages[-1]


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
    language, protocol = find(name), cast(type, kind)  # mypy takes no protocol for a type
    if not isinstance(language, protocol):
        lacks = ", ".join(_members(protocol))
        raise UsageError(f"{what}: the language `{language.name}` does not offer this ({protocol.__name__}: {lacks})")
    return cast(_Offer, language)
