"""Languages by their names, imported when they are first used; `pipeline.base.languages` has the names."""

from __future__ import annotations

import functools
import hashlib
import traceback
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pipeline.base.config import AgentConfig
from pipeline.base.errors import EXTRA_MODULES, UsageError
from pipeline.base.files import TASKS, shown
from pipeline.base.languages import DEFAULT, declared, known

if TYPE_CHECKING:
    from pipeline.languages.language import Language

AnyAgent = TypeVar("AnyAgent", bound=AgentConfig)


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
    except UsageError:
        raise
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and str(error.name).partition(".")[0] in EXTRA_MODULES:
            raise
        raise UsageError(f"--language {name}: {_cause(error, entry.value)}") from error
    if not isinstance(language, Language):
        raise UsageError(f"--language {name}: {entry.value} is no `pipeline.languages.Language`")
    missing = [member for member in ("name", "stages", "folder") if not hasattr(language, member)]
    if missing:
        raise UsageError(f"--language {name}: {entry.value} lacks {', '.join(missing)}")
    if language.name != name:
        raise UsageError(f"--language {name}: {entry.value} calls itself {language.name!r}; name both alike")
    return language


def _cause(error: Exception, value: str) -> str:
    """Why a language's package can't be imported, at the last line of its own that was reached."""
    from step_runtime.base.errors import describe_error

    if isinstance(error, SyntaxError) and error.filename:
        return f"{shown(Path(error.filename))}:{error.lineno}: {error.msg}"
    frames = [each for each in traceback.extract_tb(error.__traceback__)[1:] if "importlib" not in each.filename]
    if not frames:
        return f"its entry point {value!r} names nothing: {error}"
    first = Path(frames[0].filename)
    package = first.parent if first.name == "__init__.py" else first
    last = [each for each in frames if Path(each.filename).is_relative_to(package)][-1]
    return f"{shown(Path(last.filename))}:{last.lineno}: {describe_error(error)}"


def served(config: AnyAgent) -> AnyAgent:
    """The settings of an agent as its language serves them: without a guardian, where it has no rule to guard.

    Raises:
        UsageError: It does not serve an option.
    """
    if config.language is None:
        return config
    from pipeline.languages.language import Language

    language = find(config.language)
    if config.proposer == "typed" and type(language).next_lines is Language.next_lines:
        raise UsageError(f"--proposer typed: the language `{language.name}` does not list the lines that may follow")
    if config.guardian == "none" or language.guards:
        return config
    if "guardian" in config.model_fields_set:
        raise UsageError(f"--guardian: the language `{language.name}` has no rule to guard; omit the option")
    return config.model_copy(update={"guardian": "none"})


def suffix(name: str | None) -> str:
    """Of files with a program."""
    return find(name).suffix or f".{name or DEFAULT}"


def version(name: str | None) -> str:
    """What records and compiled programs name: it changes whenever a verdict may change.

    It is the language's own word, if it has one. Else it is the version of the distribution, if there is one, and a
    digest of the Python files beside the module of the entry point, and below.

    Raises:
        UsageError: No installed language has this name.
    """
    language, entry = find(name), declared()[name or DEFAULT]
    if language.version is not None:
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
        UsageError: No installed language has this name.
    """
    return TASKS if name is None else find(name).folder / "tasks"
