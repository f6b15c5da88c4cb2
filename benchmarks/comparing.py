"""Curves of runs against each other: tables, plots, and which differences are significant.

Three figures were chosen beforehand: solved tasks at the end, pass@1 at the end, and the prompt tokens needed to solve
as many tasks as the worse of the two compared runs solves in total.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path


@dataclass(frozen=True)
class Point:
    """After an iteration: samples and prompt tokens so far, solved tasks, and correct samples of solved tasks."""

    samples: int
    prompt_tokens: int
    solved: int
    pass_at_1: float


Curve = list[Point]
Runs = dict[str, list[Curve]]
"""The curves of each selection, one per seed."""


def solved_more(one: Curve, other: Curve) -> float:
    """How many more tasks a run ends with."""
    return one[-1].solved - other[-1].solved


def more_often(one: Curve, other: Curve) -> float:
    """How much higher the pass@1 is that a run ends with."""
    return one[-1].pass_at_1 - other[-1].pass_at_1


def tokens(one: Curve, other: Curve) -> float:
    """Logarithm of the ratio of the prompt tokens that the two runs need to solve as many tasks as the worse one."""
    goal = min(one[-1].solved, other[-1].solved)
    spent = [next(point.prompt_tokens for point in curve if point.solved >= goal) for curve in (one, other)]
    return math.log(spent[0] / spent[1])


FIGURES: dict[str, Callable[[Curve, Curve], float]] = {"solved": solved_more, "pass@1": more_often, "tokens": tokens}


def interval(values: Sequence[float], resamples: int = 4000) -> tuple[float, float]:
    """The 95 % bootstrap interval of a mean."""
    rng = random.Random(0)
    means = sorted(statistics.fmean(rng.choices(values, k=len(values))) for _ in range(resamples))
    return means[int(0.025 * resamples)], means[int(0.975 * resamples) - 1]


def sign_flip(differences: Sequence[float], samples: int = 1 << 14) -> float:
    """The two-sided p-value of a sign-flip test that the mean is 0; exact for up to 14 differences."""
    size, rng = len(differences), random.Random(0)
    every = 1 << size <= samples
    flips = product((1, -1), repeat=size) if every else (rng.choices((1, -1), k=size) for _ in range(samples))
    sums = [abs(sum(sign * value for sign, value in zip(flip, differences, strict=True))) for flip in flips]
    return sum(total >= abs(sum(differences)) - 1e-9 for total in sums) / len(sums)


def compare(runs: Runs, base: str, figure: str) -> list[str]:
    """Each selection against a base, paired by seed: mean, bootstrap interval, sign-flip p, and its significance.

    A difference is significant if p < 0.05 after Holm's correction for the selections compared here.
    """
    found = {}
    for name in (name for name in runs if name != base):
        differences = [FIGURES[figure](*pair) for pair in zip(runs[name], runs[base], strict=True)]
        found[name] = (differences, sign_flip(differences))
    lines, significant = {}, True
    for rank, (name, (differences, p)) in enumerate(sorted(found.items(), key=lambda item: item[1][1])):
        significant = significant and p * (len(found) - rank) < 0.05
        numbers = (statistics.fmean(differences), *interval(differences))
        if figure == "tokens":
            mean, low, high = (f"{100 * math.expm1(number):+.0f} %" for number in numbers)
        else:
            mean, low, high = (f"{number:+.3f}" for number in numbers)
        words = f"{name:12} - {base:10} {figure:7} {mean} [{low}, {high}]"
        lines[name] = f"{words:64} p = {p:.3f}  {'' if significant else 'not '}significant"
    return [lines[name] for name in found]


def table(runs: Runs) -> list[str]:
    """The ends of all runs, as a table."""
    lines = ["| selection | solved | pass@1 | samples | prompt tokens (1000) |", "|---|---|---|---|---|"]
    for name, curves in runs.items():
        ends = [curve[-1] for curve in curves]
        solved, rate = [float(end.solved) for end in ends], [end.pass_at_1 for end in ends]
        bands = [interval(solved), interval(rate)]
        samples = statistics.fmean(end.samples for end in ends)
        prompts = statistics.fmean(end.prompt_tokens for end in ends) / 1000
        lines.append(
            f"| {name} | {statistics.fmean(solved):.1f} [{bands[0][0]:.1f}, {bands[0][1]:.1f}]"
            f" | {statistics.fmean(rate):.3f} [{bands[1][0]:.3f}, {bands[1][1]:.3f}] | {samples:.0f} | {prompts:.0f} |"
        )
    return lines


def plot(runs: Runs, path: Path, title: str) -> None:
    """Solved tasks and pass@1 over samples and over prompt tokens, with 95 % bands."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(12, 8))
    for row, (value, label) in enumerate((("solved", "solved tasks"), ("pass_at_1", "pass@1"))):
        for column, (along, name) in enumerate((("samples", "samples"), ("prompt_tokens", "prompt tokens"))):
            axis = axes[row][column]
            for selection, curves in runs.items():
                steps = list(zip(*curves, strict=True))
                x = [statistics.fmean(getattr(point, along) for point in step) for step in steps]
                values = [[float(getattr(point, value)) for point in step] for step in steps]
                (line,) = axis.plot(x, [statistics.fmean(step) for step in values], label=selection)
                bands = [interval(step, 400) for step in values]
                axis.fill_between(x, *zip(*bands, strict=True), color=line.get_color(), alpha=0.1)
            axis.set(xlabel=name, ylabel=label)
    axes[0][0].legend(fontsize=8)
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
