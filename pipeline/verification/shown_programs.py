"""The tasks and programs that a language shows its conformance kit, `conformance`.

Programs lie below the language's folder at the path of their task, with any suffix:

    oracles/TASK                right programs, one for every task
    near-misses/STAGE/TASK      wrong programs, by the stage at which they fail
    same/TASK                   programs with the oracle's meaning and key: other names, another order
    also/TASK                   right programs with another key than the oracle's
    attacks/WHAT/TASK           programs that try what they must not; CANARY stands for the path of a file of the user's
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pipeline.base.errors import UsageError
from pipeline.languages.language import Language, Task
from pipeline.verification.task_files import find, read_in


@dataclass(frozen=True)
class Program:
    """A program that the language shows: for a task, at a place below its folder."""

    task: Task
    place: str
    text: str
    stage: str = ""


@dataclass
class Shown:
    """What a language shows the kit; files that no task has, and tasks that can't be read, are in `wrong`."""

    tasks: dict[str, Task] = field(default_factory=dict)
    oracles: list[Program] = field(default_factory=list)
    near_misses: list[Program] = field(default_factory=list)
    same: list[Program] = field(default_factory=list)
    also: list[Program] = field(default_factory=list)
    attacks: list[Program] = field(default_factory=list)
    wrong: list[tuple[str, str]] = field(default_factory=list)

    @property
    def programs(self) -> list[Program]:
        """All of them."""
        return [*self.oracles, *self.near_misses, *self.same, *self.also, *self.attacks]


def read_shown(language: Language) -> Shown:
    """The tasks and programs in a language's folder."""
    shown, root = Shown(), language.folder / "tasks"
    try:
        paths = find(str(root), root)
    except UsageError as error:
        shown.wrong.append(("tasks", str(error)))
        return shown
    for path in paths:
        place = path.relative_to(root.absolute()).with_suffix("").as_posix()
        try:
            shown.tasks[place] = read_in(language.name, path).without_impl()
        except UsageError as error:
            shown.wrong.append((f"tasks/{place}", str(error)))
    shown.oracles = [*_programs(language, "oracles", "", shown)]
    shown.same = [*_programs(language, "same", "", shown)]
    shown.also = [*_programs(language, "also", "", shown)]
    for kind, programs in (("near-misses", shown.near_misses), ("attacks", shown.attacks)):
        for folder in sorted(path for path in (language.folder / kind).glob("*") if path.is_dir()):
            if kind == "near-misses" and folder.name not in language.stages:
                message = f"expected a stage ({', '.join(language.stages)})"
                shown.wrong.append((f"{kind}/{folder.name}", message))
                continue
            programs.extend(_programs(language, f"{kind}/{folder.name}", folder.name, shown))
    return shown


def _programs(language: Language, place: str, stage: str, shown: Shown) -> Iterator[Program]:
    root = language.folder / place
    for path in sorted(path for path in root.rglob("*") if path.is_file() and not path.name.startswith(".")):
        task = shown.tasks.get(path.relative_to(root).with_suffix("").as_posix())
        name = f"{place}/{path.relative_to(root).as_posix()}"
        if task is None:
            shown.wrong.append((name, "no task below tasks/ has this path"))
        else:
            yield Program(task, name, path.read_text(encoding="utf-8"), stage)
