"""The sub-tasks of a split as task files in a folder, which one can read, edit and keep."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pipeline.base.errors import UsageError
from pipeline.base.files import write_text
from pipeline.base.paths import shown
from pipeline.splitting.outcomes import SplitOutcome
from step_runtime.base.errors import TaskError
from step_runtime.tasks.reader import read_task
from step_runtime.tasks.task import Task, dump_task


def split_folder(folder: Path, task: Task) -> Path:
    """Where the sub-tasks of a task are."""
    return folder / f"{task.name}.split"


def write_split(folder: Path, task: Task, outcome: SplitOutcome) -> list[Path]:
    """Writes the sub-tasks of an outcome, solved ones with their programs; the files written.

    Of a task without a program these are the solved sub-tasks, and the last one tried of each value that was not made.
    """
    own = split_folder(folder, task)
    parts = {part.task.outputs[0].name: part.task.model_copy(update={"impl": part.program}) for part in outcome.parts}
    if outcome.impl is None:
        for attempt in outcome.attempts:
            if attempt.goal not in parts or parts[attempt.goal].impl is None:
                parts[attempt.goal] = attempt.task
    files = [own / f"{name}.yaml" for name in parts]
    own.mkdir(parents=True, exist_ok=True)
    for path, part in zip(files, parts.values(), strict=True):
        write_text(path, dump_task(part))
    return files


def read_split(folder: Path, task: Task) -> Mapping[str, Task]:
    """The sub-tasks of a task that a folder has, by the name of their output; none of their code is run.

    Raises:
        UsageError: A file is no task, its name is not that of its only output, or it has an input of the whole's name
            and another type.
    """
    found = {}
    types = dict(zip((spec.name for spec in task.inputs), task.input_types, strict=True))
    for path in sorted(split_folder(folder, task).glob("*.yaml")):
        try:
            part = read_task(path, f"{task.name}.{path.stem}")
        except TaskError as error:
            raise UsageError(str(error)) from None
        if [spec.name for spec in part.outputs] != [path.stem]:
            raise UsageError(f"{shown(path)}: outputs: expected one output, named {path.stem} as its file")
        for spec, type_ in zip(part.inputs, part.input_types, strict=True):
            if type_ != types.get(spec.name, type_):
                raise UsageError(
                    f"{shown(path)}: inputs: {spec.name} is {types[spec.name]} in the whole, found {type_}"
                )
        found[path.stem] = part
    return found
