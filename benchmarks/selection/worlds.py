"""What can be sampled: tasks, and a reader that answers them after demonstrations."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from optimizers import Entry, TokenCount
from optimizers.sampling import TaskExample


@dataclass(frozen=True)
class Asked:
    """One sample to make: the task, the demonstrations in the order shown, and what makes the sample repeatable."""

    key: str
    shown: tuple[Entry, ...]
    seed: int


@dataclass(frozen=True)
class Answered:
    """What came of a sample: whether it is right, how close it came in [0, 1], and the answer's fields, if any."""

    passed: bool
    closeness: float
    outputs: Mapping[str, Any] | None


class World(Protocol):
    """Tasks and a reader."""

    @property
    def name(self) -> str:
        """The reader's, in the results."""

    @property
    def tasks(self) -> Mapping[str, TaskExample]:
        """By key."""

    @property
    def groups(self) -> Mapping[str, str]:
        """The group of each task."""

    def answers(self, asked: Sequence[Asked]) -> list[Answered]:
        """The samples, in order."""

    def structures(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None) -> frozenset[Hashable]:
        """Features by which tasks and answers are compared."""

    def demo_tokens(self, entry: Entry) -> int:
        """The size of a demonstration in tokens."""

    def choose(self, correct: Sequence[Mapping[str, Any]], rng: random.Random) -> Mapping[str, Any]:
        """The answer by which a solved task is remembered."""


def seed_of(*parts: object) -> int:
    """A seed for the random numbers of what `parts` name."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:4], "big")


def attended(shown: Sequence[Entry], attention: int | None, seed: int, key: str) -> Sequence[Entry]:
    """The demonstrations that a reader attends to: `attention` of those shown at random, in order; None for all."""
    if attention is None or len(shown) <= attention:
        return shown
    places = sorted(random.Random(f"attended {seed} {key}").sample(range(len(shown)), attention))
    return [shown[place] for place in places]


def solved(task: TaskExample, outputs: Mapping[str, Any], successes: int, samples: int) -> Entry:
    """A solved task, as strategies know it."""
    inputs = dict(task.example.inputs().items())
    return Entry(task.key, inputs, outputs, successes, samples, 0.7, 0, 0.7, 0, TokenCount())
