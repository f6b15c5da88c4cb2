"""The project's tasks and the program that solves each, read once a process."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from step_runtime.tasks.reader import loads_task, read_task_file
from step_runtime.tasks.task import Task
from tests.support.paths import PROJECT

DATA = PROJECT / "data"
SETS = ("tasks", "tasks-extra", "tasks-modern", "tasks-formats", "tasks-field", "tasks-layers")


def names(folder: str = "tasks") -> list[str]:
    """The tasks of a folder in data, as `group/number` or `name`."""
    root = DATA / folder
    return sorted(path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.yaml"))


@cache
def task(name: str) -> Task:
    """A task of the benchmark; its own code is not run."""
    return loads_task((DATA / "tasks" / f"{name}.yaml").read_text(encoding="utf-8"), name)


@cache
def oracle(name: str) -> str:
    """The reference program of a task of the benchmark."""
    return (DATA / "oracles" / f"{name}.step").read_text(encoding="utf-8")


def solved(only: Sequence[str] = ()) -> Iterator[tuple[Task, str]]:
    """The tasks, all or those of some groups or names, with their reference programs."""
    for name in names():
        if not only or name in only or name.partition("/")[0] in only:
            yield task(name), oracle(name)


def programs(folder: str, kind: str) -> Iterator[tuple[str, Task, str]]:
    """Name, task and text of each oracle or near-miss of a set."""
    programs_ = DATA / folder.replace("tasks", kind)
    for path in sorted(programs_.rglob("*.step")):
        name = path.relative_to(programs_).with_suffix("")
        # Of a task with several near misses, each has its number behind the name.
        stems = (name, name.with_suffix(""), Path(*name.parts[1:]))
        file = next(one for one in ((DATA / folder / stem).with_suffix(".yaml") for stem in stems) if one.exists())
        yield str(name), loads_task(read_task_file(file).inlined, name.name), path.read_text()
