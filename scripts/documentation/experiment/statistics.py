"""Differences of two arms with task and seed as random effects.

A difference is an array of tasks by seeds. The model is difference = effect + task + seed + rest, all but the effect
random, with crossed factors (Searle, Casella and McCulloch, Variance Components, 1992, chapter 4); the balanced array
gives its estimates in closed form, and Satterthwaite's approximation the degrees of freedom.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Effect:
    """An estimated difference.

    Attributes:
        mean: The estimate.
        error: Its standard error.
        freedom: Degrees of freedom of the error.
        components: Standard deviations of task, seed and rest.
    """

    mean: float
    error: float
    freedom: float
    components: tuple[float, float, float]

    @property
    def p(self) -> float:
        """Two-sided, that the difference is 0."""
        if self.error == 0:
            return float(self.mean == 0)
        return float(2 * stats.t.sf(abs(self.mean) / self.error, self.freedom))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The confidence interval."""
        half = float(stats.t.ppf((1 + level) / 2, self.freedom)) * self.error
        return self.mean - half, self.mean + half

    def p_equivalent(self, bound: float) -> float:
        """Two one-sided tests: p that the difference is outside ±bound (Schuirmann, 1987)."""
        if self.error == 0:
            return float(abs(self.mean) >= bound)
        return float(stats.t.sf((bound - abs(self.mean)) / self.error, self.freedom))

    def detectable(self, level: float, wanted: float = 0.8) -> float:
        """The smallest true difference that `wanted` of such experiments show at `level`."""
        return float(stats.t.ppf(1 - level / 2, self.freedom) + stats.t.ppf(wanted, self.freedom)) * self.error


def effect(differences: Array) -> Effect:
    """The effect in an array of tasks by seeds; with one seed, tasks alone are random.

    Raises:
        ValueError: There are fewer than two tasks.
    """
    tasks, seeds = differences.shape
    if tasks < 2:
        raise ValueError(f"an effect needs two tasks, not {tasks}")
    mean = float(differences.mean())
    rows, columns = differences.mean(axis=1), differences.mean(axis=0)
    of_task = seeds * float(rows.var(ddof=1))
    if seeds == 1:
        return Effect(mean, math.sqrt(of_task / tasks), tasks - 1, (math.sqrt(of_task), 0.0, 0.0))
    of_seed = tasks * float(columns.var(ddof=1))
    rest = differences - rows[:, None] - columns[None, :] + mean
    of_rest = float((rest**2).sum()) / ((tasks - 1) * (seeds - 1))
    components = (max(0.0, of_task - of_rest) / seeds, max(0.0, of_seed - of_rest) / tasks, of_rest)
    variance = components[0] / tasks + components[1] / seeds + of_rest / (tasks * seeds)
    kept = [(of_task, tasks - 1, of_task > of_rest), (of_seed, seeds - 1, of_seed > of_rest)]
    squares = sum(square**2 / freedom for square, freedom, positive in kept if positive)
    # The squares that make up the variance: of task and of seed where they exceed the rest's, and the rest's.
    weight = 1 - sum(positive for _, _, positive in kept)
    squares += (weight * of_rest) ** 2 / ((tasks - 1) * (seeds - 1))
    freedom = (variance * tasks * seeds) ** 2 / squares if squares else float(tasks - 1)
    return Effect(mean, math.sqrt(variance), freedom, tuple(map(math.sqrt, components)))  # type: ignore[arg-type]


def sign_flips(differences: Array, groups: Sequence[str], flips: int = 20_000) -> float:
    """Two-sided p by flipping the signs of whole groups of tasks: groups are random, nothing is normal."""
    names = sorted(set(groups))
    place = {name: number for number, name in enumerate(names)}
    totals = np.zeros(len(names))
    np.add.at(totals, [place[group] for group in groups], differences.sum(axis=1))
    signs = np.random.default_rng(0).choice((-1.0, 1.0), size=(flips, len(names)))
    extreme = int((np.abs(signs @ totals) >= abs(totals.sum()) - 1e-9).sum())
    return (1 + extreme) / (1 + flips)


def holm(values: Mapping[str, float]) -> dict[str, float]:
    """Holm's corrected p-values, by name."""
    corrected, largest = dict[str, float](), 0.0
    for rank, (name, p) in enumerate(sorted(values.items(), key=lambda item: item[1])):
        largest = max(largest, min(1.0, p * (len(values) - rank)))
        corrected[name] = largest
    return corrected


def power(
    difference: float, components: Sequence[float], tasks: int, seeds: int, level: float, runs: int = 400
) -> float:
    """The share of simulated experiments with such a true difference whose p is below `level`."""
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(runs):
        simulated = (
            difference
            + components[0] * rng.standard_normal((tasks, 1))
            + components[1] * rng.standard_normal((1, seeds))
            + components[2] * rng.standard_normal((tasks, seeds))
        )
        found += effect(simulated).p < level
    return found / runs


def detectable(components: Sequence[float], tasks: int, seeds: int, level: float, wanted: float = 0.8) -> float:
    """The smallest difference, to a thousandth, that `wanted` of simulated experiments show."""
    low, high = 0.0, 0.5
    while high - low > 0.001:
        middle = (low + high) / 2
        if power(middle, components, tasks, seeds, level) < wanted:
            low = middle
        else:
            high = middle
    return high
