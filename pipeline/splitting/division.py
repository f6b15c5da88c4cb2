"""Sub-tasks for learning: a task that stays unsolved is divided along its reference, and further where they do.

At first each value that the reference names is a sub-task, made of the named values before it. One that stays unsolved
is split again, at the values on its way, and merged with its neighbours: it starts from solved ones alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from pipeline.splitting.composing import Composition, composed
from pipeline.splitting.cuts import find_cuts
from pipeline.splitting.split_search import PRELOAD
from pipeline.splitting.subtasks import SubtaskWriter
from pipeline.synthesis.parallel_search import SearchPool, search_pool
from pipeline.verification.pool import WorkerLost, Workers
from step_runtime.base.errors import StepError
from step_runtime.tasks.task import SolvedTask, Task

_SECONDS = 60.0
"""For one run of a reference, or one verdict."""


@dataclass
class Divided:
    """What a task is divided into so far.

    Attributes:
        parts: The sub-tasks by name, in the order of the reference and of the divisions.
        impl: A program composed of programs for sub-tasks, verified; None if there is none.
        origins: The names of the sub-tasks that it is composed of.
    """

    parts: dict[str, Task] = field(default_factory=dict)
    impl: str | None = None
    origins: tuple[str, ...] = ()


class Divider:
    """Divides tasks; all of a task's code runs in the pool.

    Args:
        pool: Where references run and composed programs are verified.
    """

    def __init__(self, pool: SearchPool) -> None:
        self._pool = pool
        self._known: dict[str, _Division | None] = {}

    def divided(self, task: Task, programs: Mapping[str, str]) -> Divided:
        """The division of a task, each time one step further; the same programs give the same divisions.

        Args:
            task: A task that is unsolved.
            programs: Right programs for its sub-tasks, by their names.
        """
        if task.name not in self._known:
            self._known[task.name] = self._first(task)
        division = self._known[task.name]
        return Divided() if division is None else division.step(programs)

    def _first(self, task: Task) -> _Division | None:
        """None for a reference that can't be split."""
        try:
            found = self._pool.run(find_cuts, task).result()
        except (WorkerLost, StepError, SyntaxError, RecursionError):
            return None
        return _Division(self._pool, SubtaskWriter(task, found))


@contextmanager
def dividing(workers: Workers) -> Iterator[Divider]:
    """A divider, whose workers end with the context."""
    with search_pool(workers, _SECONDS, PRELOAD) as pool:
        yield Divider(pool)


class _Division:
    """The division of one task."""

    def __init__(self, pool: SearchPool, writer: SubtaskWriter) -> None:
        self._pool, self._writer = pool, writer
        self._divided = Divided()
        self._places: dict[tuple[str, tuple[str, ...]], str] = {}  # what is made of what, and the sub-task's name
        self._refused: set[str] = set()

    def step(self, programs: Mapping[str, str]) -> Divided:
        """See `Divider.divided`."""
        while all(name in (made := self._made(programs)) for name in self._writer.outputs):
            parts = [SolvedTask(self._divided.parts[name], programs[name]) for name in made.values()]
            found = composed(self._pool, self._writer.task, self._writer.found, parts)
            if isinstance(found, Composition):
                self._divided.impl = found.text
                self._divided.origins = tuple(made[joint] for joint in found.joints)
                break
            self._refused.add(made.get(found, made[self._writer.outputs[-1]]))
        if self._divided.impl is None:
            self._extend(made)
        return self._divided

    def _made(self, programs: Mapping[str, str]) -> dict[str, str]:
        """The goals that solved sub-tasks make of inputs and of each other, each with the sub-task's name."""
        made: dict[str, str] = {}
        left = {key: name for key, name in self._places.items() if name in programs and name not in self._refused}
        while True:
            able = {goal: name for (goal, given), name in left.items() if made.keys() >= {*given}}
            if able.keys() <= made.keys():
                return made
            made = able | made

    def _extend(self, made: Mapping[str, str]) -> None:
        """Adds sub-tasks: at first for all named values; then for those that are still needed."""
        writer = self._writer
        if not self._places:
            named = [goal for goal in writer.goals if goal in writer.named]
            self._add(named, named)
            return
        needed = [goal for goal in writer.goals if goal not in made and writer.is_needed(goal, made)]
        self._add(needed, [*made, *(goal for goal in needed if goal not in writer.named)])
        self._add([goal for goal in needed if goal in writer.named], list(made))

    def _add(self, goals: Sequence[str], cuts: Sequence[str]) -> None:
        for goal in goals:
            place, task = (goal, self._writer.given(goal, cuts)), self._writer.subtask(goal, cuts)
            if task is not None and task.fns and place not in self._places:
                number = sum(each == goal for each, _ in self._places)
                name = f"{task.name}.{number + 1}" if number else task.name
                self._places[place], self._divided.parts[name] = name, task.named(name)
