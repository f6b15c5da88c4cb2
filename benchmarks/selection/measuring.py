"""Two phases: experience and measurement.

Experience: a teacher samples every task without demonstrations, which gives solved tasks and their success rates; then
the reader samples the training tasks, without demonstrations and with random ones, which gives trials. Measurement: the
reader samples the held-out tasks afresh under every arm, all arms on the same experience.

Within a seed, arms share the seeds of a task's samples, so differences are paired. Neither answers to a held-out task
nor samples of it reach the experience of its fold.
"""

from __future__ import annotations

import math
import random
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.selection.arms import NONE, Arm, Learned, filled
from benchmarks.selection.worlds import Answered, Asked, World, seed_of, solved
from optimizers import Entry
from optimizers.strategies.base import Trial


@dataclass(frozen=True)
class Amounts:
    """How much is sampled.

    Attributes:
        taught: Samples of every task by the teacher.
        unaided: Samples of every task by the reader without demonstrations, for trials.
        aided: Samples of every training task in each further iteration, after random demonstrations, for trials.
        iterations: Number of those iterations.
        learning_budget: Tokens of their demonstrations.
        fresh: Samples of every held-out task under every arm.
    """

    taught: int = 4
    unaided: int = 1
    aided: int = 1
    iterations: int = 2
    learning_budget: int = 2000
    fresh: int = 1

    def requests(self, tasks: int, folds: int, cells: int) -> int:
        """Samples by the reader for one seed and so many pairs of an arm and a budget."""
        return tasks * (self.unaided + (folds - 1) * self.iterations * self.aided + cells * self.fresh)


@dataclass(frozen=True)
class Cell:
    """An arm on a held-out task: correct samples, tokens and number of demonstrations, milliseconds of selection."""

    correct: int
    tokens: int
    shown: int
    milliseconds: float


def taught(teacher: World, amounts: Amounts, seed: int) -> dict[str, Entry]:
    """The tasks that the teacher solves, with one answer each and its success rate."""
    results = _sampled(teacher, dict.fromkeys(teacher.tasks, ()), amounts.taught, (seed, "taught"))
    entries = {}
    for key, answers in results.items():
        if correct := [answer.outputs for answer in answers if answer.passed and answer.outputs is not None]:
            chosen = teacher.choose(correct, random.Random(f"sigma {seed} {key}"))
            entries[key] = solved(teacher.tasks[key], chosen, len(correct), len(answers))
    return entries


def unaided(world: World, amounts: Amounts, seed: int) -> dict[str, list[Answered]]:
    """The reader's samples of all tasks without demonstrations."""
    return _sampled(world, dict.fromkeys(world.tasks, ()), amounts.unaided, (seed, "unaided"))


def learn(
    world: World,
    training: Sequence[str],
    entries: Mapping[str, Entry],
    first: Mapping[str, Sequence[Answered]],
    amounts: Amounts,
    seed: int,
) -> Learned:
    """The experience of a fold: what the teacher solved of its training tasks, and what the reader made of it."""
    own = {key: entries[key] for key in training if key in entries}
    learned, trials = Learned(world, own, (), seed), list[Trial]()
    for iteration in range(amounts.iterations + 1):
        shown: dict[str, tuple[Entry, ...]] = dict.fromkeys(training, ())
        results: Mapping[str, Sequence[Answered]] = first
        if iteration:
            for key in training:
                ordered = random.Random(f"learning {seed} {iteration} {key}").sample(list(own.values()), len(own))
                others = (entry for entry in ordered if entry.task_key != key)
                shown[key] = tuple(filled(others, learned, amounts.learning_budget))
            results = _sampled(world, shown, amounts.aided, (seed, "learning", iteration))
        for key in training:
            reward = _mean(answer.closeness for answer in results[key])
            trials.append(Trial(key, tuple(entry.task_key for entry in shown[key]), reward))
    return Learned(world, own, trials, seed)


def measure(
    learned: Learned, held_out: Sequence[str], arms: Sequence[str], budgets: Sequence[int], amounts: Amounts
) -> dict[str, dict[str, Cell]]:
    """By `ARM@BUDGET` (`none` without one) and task, fresh samples under an arm."""
    world, cells = learned.world, dict[str, dict[str, Cell]]()
    for name in arms:
        started = time.perf_counter()
        arm = Arm(name, learned)
        setup = time.perf_counter() - started
        for budget in budgets if name != NONE else (0,):
            shown, spent = dict[str, tuple[Entry, ...]](), dict[str, float]()
            for key in held_out:
                started = time.perf_counter()
                shown[key] = arm.show(key, budget)
                spent[key] = 1000 * (time.perf_counter() - started + setup / len(held_out))
            results = _sampled(world, shown, amounts.fresh, (learned.seed, "fresh"))
            cells[name if name == NONE else f"{name}@{budget}"] = {
                key: Cell(
                    sum(answer.passed for answer in results[key]),
                    sum(world.demo_tokens(entry) for entry in shown[key]),
                    len(shown[key]),
                    round(spent[key], 3),
                )
                for key in held_out
            }
    return cells


def _sampled(
    world: World, shown: Mapping[str, tuple[Entry, ...]], samples: int, phase: tuple[object, ...]
) -> dict[str, list[Answered]]:
    asked = [Asked(key, demos, seed_of(*phase, key, n)) for key, demos in shown.items() for n in range(samples)]
    found: dict[str, list[Answered]] = defaultdict(list)
    for one, answer in zip(asked, world.answers(asked), strict=True):
        found[one.key].append(answer)
    return found


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return math.fsum(listed) / len(listed)
