"""Which demonstrations the prompts of an iteration show, within the limits of the budget and of the LM's window."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import dspy

from optimizers.budget import Budget
from optimizers.context_window import Window
from optimizers.demonstrations import copy_program, demo_tokens, fitting, set_demos, within
from optimizers.experience import Entry
from optimizers.sampling import TaskExample
from optimizers.strategies.base import DemoSet
from optimizers.strategies.levels import hardest_first

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ShownDemos:
    """The demonstrations that fit an iteration's prompts, and those that do not.

    Attributes:
        demos: Those shown to any task, hardest first.
        left_out: Those shown to none.
        own_programs: By task, the program with its own demonstrations, where they are chosen per task.
        reasons: By task, and by key of its own demonstrations, why each was chosen.
    """

    demos: Sequence[Entry]
    left_out: Sequence[Entry] = ()
    own_programs: Mapping[str, dspy.Module] = field(default_factory=dict)
    reasons: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def keys(self, task: TaskExample) -> tuple[str, ...]:
        """The keys of the demonstrations that a task is shown."""
        return tuple(self.reasons[task.key]) if task.key in self.reasons else entry_keys(self.demos)


@dataclass(frozen=True)
class DemoFitter:
    """Sets demonstrations in programs.

    Attributes:
        names: Names of the predictors that get them; a warning names, once, each that gets none.
        max_demos: Demonstrations of a predictor, at most.
    """

    names: Sequence[str]
    budget: Budget
    max_demos: int | None = None
    _warned: set[str] = field(default_factory=set)
    _tokens: dict[str, int] = field(default_factory=dict)

    def tokens(self, program: dspy.Module, entry: Entry) -> int:
        """Estimated tokens of a task's demonstration; the first answer holds for the run."""
        if entry.task_key not in self._tokens:
            self._tokens[entry.task_key] = demo_tokens(program, self.names, entry)
        return self._tokens[entry.task_key]

    def set(self, program: dspy.Module, demos: Sequence[Entry]) -> None:
        """Sets a program's demonstrations, whether they fit or not."""
        for name in set_demos(program, self.names, demos, self.max_demos):
            if name not in self._warned:
                self._warned.add(name)
                logger.warning("%s gets no demonstrations, as the chosen solutions contain no call of it", name)

    def fit(
        self, program: dspy.Module, demos: Sequence[Entry], tasks: Sequence[TaskExample], window: Window
    ) -> ShownDemos:
        """The demonstrations within the limits for prompts with any of the tasks, and the others, last first."""
        count, examples = len(demos[: self.budget.demos][: self.max_demos]), [task.example for task in tasks]
        if self.budget.demo_tokens is not None:
            sizes = (self.tokens(program, entry) for entry in demos[:count])
            count = within(self.budget.demo_tokens, sizes)
        count = fitting(program, self.names, demos[:count], examples, window) if tasks else 0
        return ShownDemos(demos[:count], demos[count:][::-1])

    def show(
        self,
        program: dspy.Module,
        demo_set: DemoSet,
        tasks: Sequence[TaskExample],
        known: Sequence[Entry],
        window: Window,
    ) -> ShownDemos:
        """Sets what fits; demonstrations chosen per task are set in copies of the program, and their union in it.

        A choice per task is made from the entries `known`.
        """
        if demo_set.select is None:
            shown = self.fit(program, demo_set.demos, tasks, window)
            self.set(program, shown.demos)
            return shown
        kept: dict[str, Entry] = {}
        left_out: dict[str, Entry] = {}
        programs: dict[str, dspy.Module] = {}
        reasons: dict[str, dict[str, str]] = {}
        limits = [limit for limit in (self.budget.context, self.budget.demo_tokens) if limit is not None]
        for task in tasks:
            own = self.fit(program, demo_set.select(task, known, min(limits, default=None)), [task], window)
            kept |= {entry.task_key: entry for entry in own.demos}
            left_out |= {entry.task_key: entry for entry in own.left_out}
            programs[task.key] = copy_program(program)
            self.set(programs[task.key], own.demos)
            why = demo_set.reason
            reasons[task.key] = {entry.task_key: why(task, entry) if why else "" for entry in own.demos}
        union = hardest_first(kept.values())
        self.set(program, union)
        return ShownDemos(union, [entry for key, entry in left_out.items() if key not in kept], programs, reasons)


def entry_keys(entries: Sequence[Entry]) -> tuple[str, ...]:
    """The keys of the entries' tasks, in order."""
    return tuple(entry.task_key for entry in entries)
