"""From what a person types to tasks: paths, folders, patterns, and the benchmark's names."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import UsageError
from pipeline.paths import TASKS, shown

if TYPE_CHECKING:
    from step_runtime.task import Task


def load_tasks(patterns: Sequence[str] | None = None) -> list[Task]:
    """The tasks that the patterns name, without duplicates and without their solutions; None: the benchmark.

    Raises:
        UsageError: a pattern names nothing, a file is no valid task, or two tasks have one name.
    """
    paths = [path for pattern in patterns or [str(TASKS)] for path in find(pattern)]
    tasks: dict[str, Task] = {}
    for path in dict.fromkeys(paths):
        task = load_one(path).without_impl()
        if task.name in tasks:
            raise UsageError(f"{shown(path)}: a second task named {task.name!r}; rename one of the files")
        tasks[task.name] = task
    return list(tasks.values())


def load_task_named(name: str) -> Task:
    """The one task that a path or a benchmark name stands for, its solution included.

    Raises:
        UsageError: there is none, there are several, or the file is no valid task.
    """
    paths = find(name)
    if len(paths) > 1:
        raise UsageError(f"{name}: stands for {len(paths)} tasks; name one, such as {shown(paths[0])}")
    return load_one(paths[0])


def load_one(path: Path) -> Task:
    """Reads a task file.

    Raises:
        UsageError: it is no valid task.
    """
    from step_runtime.errors import TaskError
    from step_runtime.task import load_task

    try:
        return load_task(path)
    except TaskError as error:
        raise UsageError(str(error)) from None


def find(pattern: str) -> list[Path]:
    """The task files that a path, a folder, a pattern or a benchmark name stands for, sorted.

    Raises:
        UsageError: there are none.
    """
    # Path.glob takes no absolute patterns, so that it is glob.glob here.
    for candidate in (pattern, str(TASKS / pattern), f"{TASKS / pattern}.yaml") if pattern else ():
        matches = [candidate] if Path(candidate).exists() else glob.glob(candidate, recursive=True)  # noqa: PTH207
        files = [file for match in matches for file in _files(Path(match))]
        if files:
            return sorted(files)
    if pattern and Path(pattern).is_dir():
        raise UsageError(f"{pattern}: no task file (*.yaml) in this folder")
    raise UsageError(f"{pattern}: no such task; give a file, a folder, a pattern or a name below {shown(TASKS)}")


def _files(path: Path) -> list[Path]:
    return [path.absolute()] if path.is_file() else [file.absolute() for file in path.rglob("*.yaml")]


def digest(tasks: Iterable[Task]) -> str:
    """A short digest of the tasks' names and contents, in any order and however their files are laid out."""
    from step_runtime.task import dump_task

    texts = sorted(f"{task.name}\n{dump_task(task)}" for task in tasks)
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
