"""Limits of programs and of the processes that judge them; to import them is fast, as it brings no language.

`judge` has what is called in such a process.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.base.files import read_bytes
from pipeline.base.settings import Config, Count, OptionGroup, Positive
from pipeline.languages import registry
from pipeline.verification.isolation import integrity
from pipeline.verification.isolation.confinement import Sandbox, required
from pipeline.verification.isolation.warden import snippet
from pipeline.verification.pool import PoolSettings, WorkerLost, WorkerPool

if TYPE_CHECKING:
    from step_runtime.program.limits import Limits

SECONDS = 20.0
"""Processor time of one program, its task's compilation and references included: twice that of a run."""

MEMORY = 4 * 2**30
"""Bytes of private data a worker; Limits.bytes of streams and what functions make of them fit in well."""

PRELOAD = ("pipeline.verification.preload", "pipeline.verification.judge")
"""What a worker finds imported."""
_OF_ANY_LANGUAGE = ("step_runtime.tasks.reader",)
"""What `judge` imports for every language: a cell that serves one verdict would take 350 ms for it."""
PROVING = "pipeline.verification.proving"
"""What a worker that proves finds imported too."""
_GROUP = OptionGroup("limits of a program")


class ProgramLimits(Config):
    """The limits of `step_runtime.Limits` that a user may raise; None leaves the language's default."""

    limit_seconds: Positive | None = _GROUP.option(None, "processor time of one run (default: 10)", "SECONDS")
    limit_bytes: Count | None = _GROUP.option(None, "bytes that its streams hold at a time (default: 1073741824)", "N")

    def of_language(self) -> Limits:
        """The limits of the language with these in the place of its defaults."""
        from step_runtime.program.limits import Limits

        own: dict[str, Any] = {name.removeprefix("limit_"): value for name, value in self.params().items()}
        return Limits(**own)


def verification_settings(
    seconds: float = SECONDS,
    memory: int = MEMORY,
    language: str | None = None,
    sandbox: Sandbox | None = None,
    patience: int | None = None,
    *,
    proving: bool = False,
) -> PoolSettings:
    """The settings of workers that verify, or also prove, on any machine; a named language is imported there.

    Raises:
        UsageError: The language runs its programs, and this machine's cells are not confined.
    """
    preload: tuple[str, ...] = PRELOAD
    alone = False
    if language is not None:
        spoken = registry.find(language)
        os.environ.update(spoken.environment)  # of the server that forks workers, which starts with the first pool
        preload = (*PRELOAD[1:], *_OF_ANY_LANGUAGE, registry.module_of(language), *spoken.preload)
        alone = spoken.executes
        if alone:
            sandbox = required(language) if spoken.confined else Sandbox("off")
    proofs = (PROVING,) if proving else ()
    settle = partial(_settle, proofs)
    return PoolSettings(seconds, memory, settle, (*preload, *proofs), task_of, files_of, sandbox, patience, alone)


def verification_pool(workers: int, **how: Any) -> WorkerPool:
    """Killable processes of this machine, with `verification_settings`, none of which runs the code of two tasks."""
    return verification_settings(**how).start(workers)


def checking_pool(
    workers: int, limits: ProgramLimits, language: str | None = None, *, exact: bool = False
) -> WorkerPool:
    """Processes to judge in a language, with room for runs that use up their limits; with `exact` they prove.

    A language other than STeP leaves the limits of time and memory to the processes.
    """
    room: dict[str, Any] = {}
    if limits.limit_seconds is not None:
        room["seconds"] = limits.limit_seconds if language else max(SECONDS, 2 * limits.limit_seconds)
    if limits.limit_bytes is not None:
        room["memory"] = limits.limit_bytes if language else max(MEMORY, 4 * limits.limit_bytes)
    if exact:
        room["seconds"] = room.get("seconds", SECONDS) + SECONDS
    return verification_pool(workers, language=language, proving=exact, **room)


def task_of(*args: Any, **_: Any) -> str:
    """Which task a call is about: a digest of its name and its text, or of the path in its request."""
    first: Any = args[0] if args else ""
    statement = getattr(first, "statement", None)
    about = args[:2] if statement is None else (first.task, statement)
    words = getattr(first, "path", None) or "\0".join(map(str, about))
    return hashlib.sha256(str(words).encode("utf-8", "surrogatepass")).hexdigest()


_TEXT_TAG = "tag:yaml.org,2002:str"
_FOLDERS: dict[str, str] = {}
"""Where tasks were read from, by `task_of`."""
_LONGEST_TASK = 800_000
"""Bytes of a task file, which has 200,000 characters at most."""


def remember_folder(name: str, content: str, folder: Path) -> None:
    """Has the code of a task, given by its name and its YAML, read the files in the folder that it comes from."""
    _FOLDERS[task_of(name, content)] = str(folder.absolute())


def files_of(*args: Any, **_: Any) -> tuple[str, ...]:
    """The files that the code of a call's task may read: those in its folder, and its file of functions."""
    path = getattr(args[0], "path", args[0] if len(args) == 1 else None) if args else None
    if not isinstance(path, str):
        folder = _FOLDERS.get(task_of(*args))
        return (folder,) if folder else ()
    file = Path(path).absolute()
    try:
        named = _functions_file(read_bytes(file, _LONGEST_TASK).decode())
    except (OSError, ValueError):
        return ()
    return (str(file.parent), str(file), *([str(file.parent / named)] if named else []))


def _functions_file(text: str) -> str | None:
    """The value of a task's key `fns_from`, as YAML has it: the same words may stand in a text."""
    if "fns_from" not in text:
        return None
    import yaml  # not there without the extra `pipeline`, whose lack the commands name

    try:
        node = yaml.compose(text, yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError):
        return None
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((value.value for key, value in pairs if key.value == "fns_from" and value.tag == _TEXT_TAG), None)


def _settle(modules: Sequence[str]) -> Callable[[], bool]:
    """Prepares a process that takes these modules; the check whether what judges in it is what it was.

    A task's code may have changed it.
    """
    for module in modules:
        importlib.import_module(module)
    if "torch" in sys.modules:
        # One process a core: more threads in each would only be in each other's way.
        importlib.import_module("torch").set_num_threads(1)
    return integrity.unchanged()


def lost_at_message(path: Path, error: WorkerLost) -> str:
    """The message on a file whose code cost a worker: the line of the snippet, and the sizes."""
    from step_runtime.tasks.reader import line_of_snippet

    code, at, sizes = snippet(error.at).partition(" at ")
    place = f":{line_of_snippet(path.read_text(encoding='utf-8'), code)}: {code}" if code else ""
    expected = "expected code that comes to its end, as it is run at each set of sizes"
    return f"{path}{place}: its code {error}{at}{sizes}; {expected}"
