"""Reads a task file and runs its code, so that a task that cannot work is rejected early."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

from step_runtime.base.errors import TaskError
from step_runtime.execution.invocation import BeforeRun
from step_runtime.tasks.reader import read_task_file, task_in, task_name
from step_runtime.tasks.task import Task
from step_runtime.verification.doubts import doubts

_ACCEPTED = re.compile(r"\s#\s*accepted:([\w\s,-]+)")


def load_task(path: str | Path, name: str | None = None, *, before_run: BeforeRun | None = None) -> Task:
    """Reads a task file as `read_task` does, and runs the task's code, its functions on an element each.

    The code is run at each set of sizes, in this process and without a time limit; `before_run` is called before.

    Raises:
        TaskError: The file cannot be read, is not a valid task, or its code fails.

    Warns:
        TaskWarning: A wrong program may pass, or a right one fail: no input changes a reference output by more than the
            comparison's tolerance, none depends on one of the inputs, a reference is random, two dims are equal at
            every set of sizes; or as in `doubts`.
    """
    source = read_task_file(Path(path))
    task = task_in(source, name or task_name(Path(path)))
    try:
        for warning in doubts(task.named(str(path)), before_run):
            line = source.own_line(warning.location)
            if warning.code not in _accepted(source.text, line):
                warnings.warn(warning.placed(str(path), line), stacklevel=2)
    except TaskError as error:
        if not error.location:
            raise
        placed = f"{path}:{source.own_line(error.location)}{str(error).removeprefix(str(path))}"
        raise type(error)(placed, error.location) from error.__cause__
    return task


def _accepted(text: str, line: int) -> list[str]:
    """The codes of warnings that a comment at the end of a line accepts: `# accepted: constant-input`."""
    found = _ACCEPTED.search(text.split("\n")[line - 1])
    return re.findall(r"[\w-]+", found[1]) if found else []
