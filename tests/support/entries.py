"""Solved tasks of known rates, for strategies that order them."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from optimizers.strategies.per_task import PerTask
from optimizers.strategies.structure import Candidate, Weights


@dataclass(frozen=True)
class Solved:
    """A task's name and success rate."""

    name: str
    rate: float


SOLVED: list[Any] = [Solved("e", 0.9), Solved("a", 0.1), Solved("d", 0.5), Solved("b", 0.2), Solved("c", 0.3)]
"""Five tasks, not in the order of their difficulty."""


def names(sets: list[list[Any]]) -> list[str]:
    """Each set as one word of its tasks' names."""
    return ["".join(solved.name for solved in each) for each in sets]


@dataclass
class Progress:
    """A run as a strategy sees it."""

    entries: dict[str, Any] = field(default_factory=dict)
    iterations: list[Any] = field(default_factory=list)
    unsolved: list[Any] = field(default_factory=list)
    seed: int = 0

    def finish(self, cycle: int, *solved: str) -> None:
        """Adds the result of an iteration."""
        self.iterations.append(SimpleNamespace(cycle=cycle, learned=bool(solved)))


def candidate(name: str, structures: str, tokens: int = 10, value: float = 0.0) -> Candidate:
    """A solved task whose structures are letters."""
    entry = SimpleNamespace(task_key=name, rate=0.5)
    return Candidate(cast(Any, entry), frozenset(structures), tokens, value)


def picked(strategy: PerTask, query: str, pool: list[Candidate], tokens: int | None = None) -> str:
    """The names of what a strategy picks for a task with these structures, in the order of picking."""
    picks = strategy.pick(frozenset(query), pool, Weights([each.structures for each in pool]), tokens)
    assert all(pick.reason for pick in picks)
    return "".join(pick.entry.task_key for pick in picks)
