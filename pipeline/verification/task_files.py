"""From what a person types to tasks: paths, folders, patterns, and the benchmark's names.

Files are read here, and their own code is tried in worker processes: a `global` that hangs or crashes costs a message.
"""

from __future__ import annotations

import atexit
import glob
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pipeline.base.errors import PipelineError, UsageError, print_message
from pipeline.base.files import TASKS, shown
from pipeline.base.text import natural_order
from pipeline.languages import registry
from pipeline.verification.pool import WorkerLost, cores

if TYPE_CHECKING:
    from step_runtime.base.errors import Diagnostic
    from step_runtime.tasks.scope import Scope
    from step_runtime.tasks.task import Task

TASK_SUFFIXES = (".yaml", ".yml")
"""How the names of task files end."""
FUNCTIONS_SUFFIXES = (".fns.yaml", ".fns.yml")
"""How the names of functions files end, which folders of tasks may hold: see `fns_from` in docs/tasks.md."""


def load_tasks(patterns: Sequence[str] | None = None, language: str | None = None) -> list[Any]:
    """The tasks that the patterns name, without duplicates and without their solutions; None: the language's own.

    Raises:
        UsageError: A pattern names nothing, a file is not a valid task, or two tasks have one name.
    """
    return load_with_warnings(patterns, language)[0]


def load_with_warnings(
    patterns: Sequence[str] | None = None, language: str | None = None
) -> tuple[list[Any], dict[str, list[Diagnostic]]]:
    """As `load_tasks`, and the warnings about each task, by its name, which are shown as Python shows warnings, too."""
    paths = find_all(patterns, language)
    named = _names(paths, [Path(pattern).absolute() for pattern in patterns or () if _exists(pattern)])
    tasks: dict[str, Any] = {}
    doubts: dict[str, list[Diagnostic]] = {}
    for path, (task, found) in zip(paths, _load(named, language), strict=True):
        if task.name in tasks:
            hint = "rename one of the files, or name a folder above both: a task's name is then its path below it"
            raise UsageError(f"{shown(path)}: a second task named {task.name!r}; {hint}")
        tasks[task.name], doubts[task.name] = task.without_impl(), found
    return list(tasks.values()), doubts


def _names(paths: Sequence[Path], folders: Sequence[Path]) -> dict[Path, str]:
    """The name of each file's task; where two have one, the path of each below the folder that was named."""
    from step_runtime.tasks.reader import task_name

    names = {path: task_name(path) for path in paths}
    repeated = Counter(names.values())
    for path in (path for path, name in names.items() if repeated[name] > 1):
        if above := next((folder for folder in folders if folder in path.parents), None):
            names[path] = path.relative_to(above).with_suffix("").as_posix()
    return names


def texts_of(patterns: Sequence[str]) -> dict[str, str]:
    """The texts of the task files that the patterns name, by the task's name; included functions are written out.

    Raises:
        UsageError: A pattern names nothing.
    """
    from step_runtime.tasks.reader import read_task_file, task_in, task_name

    sources = {path: read_task_file(path) for path in find_all(patterns)}
    return {task_in(source, task_name(path)).name: source.inlined for path, source in sources.items()}


def load_task_named(name: str, language: str | None = None) -> Any:
    """The one task that a path or a name of the language's own tasks stands for, its solution included.

    Raises:
        UsageError: There is none, there are several, or the file is not a valid task.
    """
    return load_one_with_warnings(name, language)[0]


def load_one_with_warnings(name: str, language: str | None = None) -> tuple[Any, list[Diagnostic]]:
    """As `load_task_named`, and the warnings about the task, which are shown as Python shows warnings, too.

    Raises:
        UsageError: There is none, there are several, or the file is not a valid task.
    """
    paths = find(name, registry.tasks_folder(language))
    if len(paths) > 1:
        raise UsageError(f"{name}: stands for {len(paths)} tasks; name one, such as {shown(paths[0])}")
    return _load(_names(paths, ()), language)[0]


def read_in(language: str, path: Path, name: str | None = None) -> Any:
    """The task in a file, under a name, as a language of a name reads it; none of its code is run.

    Raises:
        UsageError: The file can't be read, or holds no task.
    """
    from step_runtime.base.errors import TaskError
    from step_runtime.tasks.reader import task_name, task_text

    try:
        return registry.find(language).task(task_text(path), name or task_name(path), shown(path))
    except TaskError as error:
        raise UsageError(str(error)) from None


def _load(names: Mapping[Path, str], language: str | None) -> list[tuple[Any, list[Diagnostic]]]:
    """Reads task files under these names; those of the default language are tried, and the warnings about them shown.

    Raises:
        UsageError: Files are not valid tasks; it names all of them.
    """
    tasks, wrong = (
        _tried(names) if language is None else _all_of(lambda path: (read_in(language, path, names[path]), []), names)
    )
    if wrong:
        raise UsageError("\n".join(wrong[path] for path in names if path in wrong))
    return [tasks[path] for path in names]


def _tried(names: Mapping[Path, str]) -> tuple[dict[Path, tuple[Task, list[Diagnostic]]], dict[Path, str]]:
    """Reads task files, and tries their code in worker processes, which start meanwhile; as `_all_of`."""
    from pipeline.verification.limits import remember_folder, verification_pool

    with verification_pool(min(len(names), cores())) as workers:
        from pipeline.verification.judge import try_task
        from step_runtime.tasks.reader import read_task

        def started(path: Path) -> tuple[Task, Future[list[Diagnostic]]]:
            task = read_task(path, names[path])
            remember_folder(task.name, task.statement, path.parent)
            return task, workers.submit(try_task, str(path))

        tried, unread = _all_of(started, names)
        doubts, failed = _all_of(lambda path: _survived(path, tried[path][1]), [*tried])
        for path, warning in ((path, warning) for path, found in doubts.items() for warning in found):
            place = f"{path}:{warning.span.line}" if warning.span else path
            warnings.warn(f"{place}: warning: {warning.code}: {warning.message}", stacklevel=5)
    return {path: (tried[path][0], doubts[path]) for path in doubts}, {**unread, **failed}


_T = TypeVar("_T")


def _all_of(read: Callable[[Path], _T], paths: Iterable[Path]) -> tuple[dict[Path, _T], dict[Path, str]]:
    """What is read of each file, and the messages of those that are no valid task."""
    from step_runtime.base.errors import TaskError

    found, wrong = dict[Path, _T](), dict[Path, str]()
    for path in paths:
        try:
            found[path] = read(path)
        except (TaskError, UsageError) as error:
            wrong[path] = str(error)
    return found, wrong


def _survived(path: Path, tried: Future[list[Diagnostic]]) -> list[Diagnostic]:
    """What came of a file's code; raises `UsageError` if it cost its worker."""
    from pipeline.verification.limits import lost_at_message

    try:
        return tried.result()
    except WorkerLost as error:
        raise UsageError(lost_at_message(path, error)) from None


def scopes(task: Task) -> tuple[Scope, ...]:
    """The names that programs of a task may use at each set of sizes, found in a worker process.

    Raises:
        UsageError: The task's code fails, or costs the worker.
    """
    from pipeline.verification.judge import scopes as find_scopes
    from pipeline.verification.limits import verification_pool

    with verification_pool(1) as workers, task_errors(task.name):
        found: tuple[Scope, ...] = workers.submit(find_scopes, task.name, task.statement).result()
    return found


@contextmanager
def task_errors(name: str) -> Iterator[None]:
    """Within the context, a task whose code fails, or costs the worker, is a `UsageError`.

    A worker that something else killed twice is a `PipelineError`.
    """
    from step_runtime.base.errors import TaskError

    try:
        yield
    except WorkerLost as error:
        if error.code == "killed":
            message = f"{name}: verification {error}, twice: the verdict is unknown; run the command again"
            raise PipelineError(message) from None
        raise UsageError(f"{name}: its code {error}") from None
    except TaskError as error:
        raise UsageError(str(error)) from None


def find_all(patterns: Sequence[str] | None, language: str | None = None) -> list[Path]:
    """The task files that patterns stand for, without duplicates; None: the language's own.

    Raises:
        UsageError: A pattern stands for none.
    """
    root = registry.tasks_folder(language)
    return list(dict.fromkeys(path for pattern in patterns or [str(root)] for path in find(pattern, root)))


def find(pattern: str, root: Path = TASKS) -> list[Path]:
    """The task files that a path, a folder, a pattern or the name of one below `root` stands for, sorted.

    Raises:
        UsageError: There are none.
    """
    # Path.glob takes no absolute patterns, so that it is glob.glob here.
    if re.fullmatch(r".+\.py:\w+", pattern):
        return [_imported(pattern)]
    for candidate in (pattern, str(root / pattern), f"{root / pattern}.yaml") if pattern else ():
        matches = [candidate] if _exists(candidate) else _matching(candidate)
        named = [match for match in matches if match == pattern or not match.endswith(FUNCTIONS_SUFFIXES)]
        files = [file for match in named for file in _files(Path(match))]
        if files:
            ordered = sorted(files, key=lambda file: [natural_order(part) for part in file.parts])
            return [_imported(str(file)) if _is_open(file) else file for file in ordered]
    if pattern and _exists(pattern) and Path(pattern).is_dir():
        raise UsageError(f"{pattern}: no task file (*.yaml, *.yml) in this folder")
    raise UsageError(f"{pattern}: no such task; give a file, a folder, a pattern or a name below {shown(root)}")


@lru_cache
def _imported(module: str) -> Path:
    """The task file of `FILE.py:NAME`, or of one whose functions are open; their code runs in a process of its own.

    Raises:
        UsageError: It is no task.
    """
    from step_runtime.tasks.reader import task_name

    folder = Path(tempfile.mkdtemp(prefix="adaptive-step-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    name = module.rpartition(":")[2] if ".py:" in module else task_name(Path(module))
    path = folder / "tasks" / f"{name}.yaml"
    path.parent.mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.task", module, "-o", str(path)], stderr=subprocess.PIPE, text=True, check=False
    )
    said = done.stderr.replace("pipeline.task: ", "").strip()
    if done.returncode:
        raise UsageError(said)
    print_message("pipeline.task", said)
    return path


def _is_open(file: Path) -> bool:
    """Whether a task file leaves its functions to the catalogue."""
    from step_runtime.tasks.yaml_format import read_text

    try:
        return re.search("^fns: auto *$", read_text(file), re.MULTILINE) is not None
    except (OSError, ValueError):
        return False


def _matching(pattern: str) -> list[str]:
    try:
        return glob.glob(pattern, recursive=True)  # noqa: PTH207
    except (OSError, ValueError):
        return []


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, RuntimeError, ValueError):  # a name that is too long, links in a circle, NUL
        return False


def _files(path: Path) -> list[Path]:
    """The files that a path stands for; one that is not a folder stands for itself, whatever reading it says."""
    if not path.is_dir():
        return [path.absolute()]
    below = (file for file in path.rglob("*") if file.suffix in TASK_SUFFIXES)
    return [file.absolute() for file in below if not file.name.endswith(FUNCTIONS_SUFFIXES)]


def digest(tasks: Iterable[Any]) -> str:
    """A short digest of the tasks' names and contents, in any order and however their files are laid out."""
    texts = sorted(f"{task.name}\n{task.without_impl().statement}" for task in tasks)
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
