"""The positive control: a simulated reader whose skills are known, which attends to A of the demonstrations shown.

A task needs some of K skills, rare ones more rarely. A demonstration teaches the skills of its task. A sample is right
if each skill of the task succeeds: with probability TAUGHT if an attended demonstration teaches it, else with the
skill's own probability. Structures show a skill with probability SEEN, and noise. The selections, the folds, the
measurement and the analysis are those of the experiment: what they cannot see here, they cannot see there.
"""

from __future__ import annotations

import math
import random
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import dspy

from benchmarks.selection.worlds import Answered, Asked, attended
from optimizers import Entry
from optimizers.sampling import TaskExample

SKILLS = 40
TAUGHT = 0.95
READER = (0.2, 0.9)
TEACHER = (0.6, 0.98)
"""Ranges of the skills' own probabilities."""
SEEN = 0.8
NOISE = 6
"""Structures of a task that mean nothing, of a pool as large as that of skills."""


class ControlWorld:
    """See `World`.

    Args:
        tasks: How many.
        attention: A; None for all that is shown, 0 for a reader that does not read.
        alone: Range of the probabilities of skills that nothing teaches.
    """

    def __init__(self, tasks: int, attention: int | None, alone: tuple[float, float] = READER) -> None:
        rng = random.Random("control")
        self.name = "control" if attention is None else f"control@{attention}"
        self._attention = attention
        self._alone = [rng.uniform(*alone) for _ in range(SKILLS)]
        frequencies = [1 / (1 + skill) ** 0.5 for skill in range(SKILLS)]
        self._skills: dict[str, frozenset[int]] = {}
        self._seen: dict[str, frozenset[Hashable]] = {}
        self._sizes: dict[str, int] = {}
        self.groups: dict[str, str] = {}
        for number in range(tasks):
            key = f"task{number}"
            # Tasks of a group share one skill, as those of a family do.
            group = number % 25
            needed = {group % SKILLS, *rng.choices(range(SKILLS), frequencies, k=rng.randint(1, 4))}
            self._skills[key], self.groups[key] = frozenset(needed), f"group{group}"
            noise = (f"noise {rng.randrange(SKILLS)}" for _ in range(NOISE))
            self._seen[key] = frozenset([*noise, *(f"skill {s}" for s in needed if rng.random() < SEEN)])
            self._sizes[key] = rng.randint(150, 350)
        self.tasks: Mapping[str, TaskExample] = {
            key: TaskExample(number, key, dspy.Example(task=key).with_inputs("task"))
            for number, key in enumerate(self._skills)
        }

    def answers(self, asked: Sequence[Asked]) -> list[Answered]:
        """See `World.answers`."""
        return [self._answer(one) for one in asked]

    def structures(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any] | None) -> frozenset[Hashable]:
        """See `World.structures`."""
        return self._seen[inputs["task"]]

    def demo_tokens(self, entry: Entry) -> int:
        """See `World.demo_tokens`."""
        return self._sizes[entry.task_key]

    def choose(self, correct: Sequence[Mapping[str, Any]], rng: random.Random) -> Mapping[str, Any]:
        """See `World.choose`."""
        return correct[0]

    def _answer(self, asked: Asked) -> Answered:
        demos = () if self._attention == 0 else attended(asked.shown, self._attention, asked.seed, asked.key)
        taught = frozenset[int]().union(*(self._skills[entry.task_key] for entry in demos))
        needed = sorted(self._skills[asked.key])
        # Another prompt gives other random numbers, as with an LM; differences are thus less paired than they could be.
        rng = random.Random(f"answer {asked.seed} {asked.key} {[entry.task_key for entry in asked.shown]}")
        right = [rng.random() < (TAUGHT if skill in taught else self._alone[skill]) for skill in needed]
        return Answered(all(right), math.fsum(right) / len(right), {"impl": asked.key})
