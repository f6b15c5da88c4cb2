"""What a run knows: data, which its strategy reads and its iterations extend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from optimizers.attempt import AttemptLog, TaskExample
from optimizers.domain import Domain, HeldOutVerdict
from optimizers.experience import Entry, IterationResult, LevelScore, in_task_order, mean_pass_at
from optimizers.ledger import TokenCount


@dataclass
class State:
    """What a run knows, which its strategy reads and does not change; `Experience` is its record.

    Attributes:
        tasks: All tasks of the run by key, in the order of the training set.
        domain: How tasks and answers are compared.
        seed: The run's, from which a strategy derives everything random.
        max_demo_tokens: Estimated tokens that all demonstrations of a prompt together may have; None: any number.
        demo_tokens: Estimates the size of an entry's demonstration in a prompt, in tokens.
        solved: D: the solved tasks and sub-tasks by key, in task order; those of an earlier run first.
        iterations: The finished ones, in order.
        nearest_misses: By task, the fields of its best wrong answer; tasks without one are absent.
        spent: Tokens spent on each task.
        parts: The sub-tasks by key, in the order in which they entered, each with the key of its task.
        fresh: Whether a sub-task entered that no iteration has sampled.
        too_long: Keys of the tasks whose prompts the LM refuses as too long even without demonstrations.
        most_demos: The demonstrations that it does not refuse as too long; None: all so far.
        carried: Keys of the demonstrations that another optimizer's program brought along.
        refused: By task, the held-out verdict on the closest wrong answer.
    """

    tasks: Mapping[str, TaskExample]
    domain: Domain
    seed: int
    max_demo_tokens: int | None
    demo_tokens: Callable[[Entry], int]
    solved: dict[str, Entry]
    iterations: list[IterationResult] = field(default_factory=list)
    attempts: AttemptLog = field(default_factory=AttemptLog)
    validation: list[LevelScore] = field(default_factory=list)
    spent: dict[str, TokenCount] = field(default_factory=dict)
    nearest_misses: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    closest: dict[str, float] = field(default_factory=dict)
    parts: dict[str, tuple[TaskExample, str]] = field(default_factory=dict)
    fresh: bool = False
    too_long: set[str] = field(default_factory=set)
    most_demos: int | None = None
    carried: tuple[str, ...] = ()
    refused: Mapping[str, HeldOutVerdict] = field(default_factory=dict)

    @property
    def entries(self) -> dict[str, Entry]:
        """D by key, without the entries that have fallen, which are no demonstrations."""
        return {key: entry for key, entry in self.solved.items() if not entry.fallen}

    @property
    def unsolved(self) -> list[TaskExample]:
        """The tasks without an entry, in task order."""
        return [task for key, task in self.tasks.items() if key not in self.solved]

    @property
    def open(self) -> list[TaskExample]:
        """The tasks to sample that the LM can be asked: unsolved ones, or all where an answer may get cheaper."""
        tasks = self.unsolved if self.domain.cost is None else self.tasks.values()
        parts = [part for key, (part, whole) in self.parts.items() if not {key, whole} & self.solved.keys()]
        return [task for task in (*tasks, *parts) if task.key not in self.too_long]

    @property
    def unanswered(self) -> set[str]:
        """Keys of the tasks without an answer to any sample of some iteration, such as tasks that the LM refuses."""
        return {key for result in self.iterations for key in result.unanswered}

    @property
    def solved_total(self) -> int:
        """The tasks that the LM solved."""
        return sum(key in self.solved and self.solved[key].teacher is None for key in self.tasks)

    def pass_at(self, k: int | None, *, pooled: bool = False) -> float:
        """The mean pass@k of all tasks; None stands for the number of samples."""
        return mean_pass_at(self.solved.values(), self.tasks, k, pooled=pooled)

    def extend(self, chosen: Mapping[str, Entry]) -> tuple[list[str], tuple[str, ...]]:
        """Adds entries to D; returns the keys of the tasks solved, and of those that got a cheaper answer."""
        fresh = [key for key in chosen if key not in self.solved]
        known = {key: entry.outputs for key, entry in self.solved.items()}
        improved = tuple(key for key in chosen if key in known and chosen[key].outputs is not known[key])
        self.solved = in_task_order({**self.solved, **chosen}, self.tasks)
        return fresh, improved
