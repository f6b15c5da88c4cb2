"""Sub-tasks of unsolved tasks: they enter a run after an iteration, and a task is solved by composing their answers.

Invariants: a sub-task enters once, is sampled while neither it nor its task is solved, and counts in no figure of the
run's tasks but tokens; its answer is a demonstration like others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import dspy

from optimizers.domain import Domain
from optimizers.experience import Entry
from optimizers.sampling import TaskExample
from optimizers.solutions import Solutions


class Parts:
    """The sub-tasks of a run.

    Args:
        domain: How tasks are divided.
        first: The index of the first sub-task, after those of the tasks.

    Attributes:
        tasks: The sub-tasks by key, in the order in which they entered.
        wholes: The key of the task of each.
        fresh: Whether some entered that no iteration has sampled.
    """

    def __init__(self, domain: Domain, first: int) -> None:
        self._domain, self._first = domain, first
        self.tasks: dict[str, TaskExample] = {}
        self.wholes: dict[str, str] = {}
        self.fresh = False

    def open(self, entries: Mapping[str, Entry]) -> list[TaskExample]:
        """The sub-tasks to sample: those without an answer, of tasks without one."""
        return [task for key, task in self.tasks.items() if not {key, self.wholes[key]} & entries.keys()]

    def divide(
        self, index: int, unsolved: Sequence[TaskExample], solutions: Solutions
    ) -> tuple[dict[str, tuple[str, ...]], dict[str, dict[str, dspy.Example]]]:
        """After an iteration: solves tasks by composition, and adds sub-tasks of the others.

        Returns:
            By task, the sub-tasks of whose answers its own is composed, and the sub-tasks that enter.
        """
        composed, entered = dict[str, tuple[str, ...]](), dict[str, dict[str, dspy.Example]]()
        if (divide := self._domain.divide) is None:
            return composed, entered
        for task in unsolved:
            own = [key for key, whole in self.wholes.items() if whole == task.key and key in solutions.entries]
            found = divide(task.example, {key: solutions.entries[key].outputs for key in own})
            if found.answer is not None:
                solutions.extend({task.key: solutions.composed(index, task, found.answer, found.origins)})
                composed[task.key] = found.origins
                continue
            for key, example in found.parts.items():
                if key not in self.tasks:
                    self.tasks[key] = TaskExample(self._first + len(self.tasks), key, example)
                    self.wholes[key] = task.key
                    entered.setdefault(task.key, {})[key] = example
        self.fresh = bool(entered)
        return composed, entered
