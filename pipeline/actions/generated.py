"""What `pipeline.generate` returns, and the files that it writes."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.base.errors import Exit
from pipeline.base.files import write_text
from step_runtime.base.errors import TaskError
from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task, dump_task


@dataclass(frozen=True)
class Generated:
    """The results by task: for machines, for people, and as an exit code with a message for stderr."""

    as_json: Mapping[str, Any]
    text: str
    exit_code: Exit
    message: str = ""


def write_solution(task: Task, impl: str, files: Sequence[Path], text: str | None = None) -> list[Path]:
    """Writes a task's program, alone or with its task by the file's suffix, and returns the files written.

    Comments and layout of the task file's `text` are kept.

    Raises:
        UsageError: A file can't be written.
    """
    for path in files:
        write_text(path, solved_text(task, impl, text) if path.suffix == ".yaml" else impl.rstrip() + "\n")
    return list(files)


def solved_text(task: Task, impl: str, text: str | None = None) -> str:
    """The task with its program as `impl`, as YAML: the task's own text where that is possible."""
    solved = task.model_copy(update={"impl": impl})
    if text is not None:
        text = re.sub(r"^impl:.*\n(?:(?:[ \t].*)?\n)*", "", f"{text.rstrip()}\n", flags=re.MULTILINE)
        own = f"{text.rstrip()}\n\nimpl: |\n{textwrap.indent(impl.rstrip(), '  ')}\n"
        try:
            found = loads_task(own, task.name)
        except TaskError:  # its layout leaves no place for a program
            return dump_task(solved)
        if found.without_impl() == task.without_impl() and (found.impl or "").strip() == impl.strip():
            return own
    return dump_task(solved)
