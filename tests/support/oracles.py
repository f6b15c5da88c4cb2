"""The project's tasks and the program that solves each, read once a process."""

from collections.abc import Iterator, Sequence
from functools import cache

from step_runtime.tasks.reader import loads_task
from step_runtime.tasks.task import Task
from tests.support.paths import PROJECT

DATA = PROJECT / "data"


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
