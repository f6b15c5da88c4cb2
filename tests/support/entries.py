"""Solved tasks of known rates, for strategies that order them."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


@dataclass(frozen=True)
class Solved:
    """A task's name and success rate."""

    name: str
    rate: float


SOLVED = [Solved("e", 0.9), Solved("a", 0.1), Solved("d", 0.5), Solved("b", 0.2), Solved("c", 0.3)]
"""Five tasks, not in the order of their difficulty."""


def names(sets: list[list[Solved]]) -> list[str]:
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
        self.iterations.append(SimpleNamespace(cycle=cycle, solved=solved))
