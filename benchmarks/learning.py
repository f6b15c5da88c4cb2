"""Does learning learn? The embedded proposers on the benchmark, under different selections of demonstrations.

Every run has the same budget: so many iterations, each of so many samples at one temperature for every task that is
still unsolved. After the first iteration, which has no demonstrations, they come from the run's own solved tasks (one
answer each, by the filter function), and only their selection differs:

    none            no demonstrations
    everything      all solved tasks, which is adaptive with one level
    adaptive-m      levels of difficulty: the hardest, then the hardest two, …; anew once something is solved
    hard-first      the hardest half, by rank
    easy-first      as adaptive-3, from the easiest level on
    random          so many as adaptive-3 would take, at random

It draws through the engine (see `proposing`) and applies the optimizer's own functions for selection and filtering;
unlike the optimizer it goes on when a cycle ends, as budgets are to be equal. Samples of one seed are shared by
selections as long as these show the same demonstrations, so that differences are paired.

How to run: python -m benchmarks.learning --lm embedded/small --seeds 10 -o docs/learning
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import torch

from benchmarks.proposing import Desk, Judge, tasks_in
from optimizers.filtering import choose_answer
from optimizers.selection import selections, stratify
from pipeline.domain import code_length
from pipeline.embedded import engine_named
from step_runtime.canonical import canonical_key
from step_runtime.task import Task


@dataclass(frozen=True)
class Entry:
    """A solved task: its answer, and how often it was solved in the iteration that solved it."""

    task: Task
    answer: str
    rate: float


Levels = list[list[Entry]]
Select = Callable[[Sequence[Entry], random.Random], Levels]


def _adaptive(granularity: int) -> Select:
    return lambda entries, rng: selections(stratify(entries, granularity))


def _hard_first(entries: Sequence[Entry], rng: random.Random) -> Levels:
    return [sorted(entries, key=lambda entry: entry.rate)[: (len(entries) + 1) // 2]]


def _easy_first(entries: Sequence[Entry], rng: random.Random) -> Levels:
    return selections(stratify(entries, 3)[::-1])


def _random(entries: Sequence[Entry], rng: random.Random) -> Levels:
    return [rng.sample(list(entries), len(level)) for level in selections(stratify(entries, 3))]


SELECTIONS: dict[str, Select] = {
    "none": lambda entries, rng: [[]],
    "everything": _adaptive(1),
    "adaptive-2": _adaptive(2),
    "adaptive-3": _adaptive(3),
    "adaptive-4": _adaptive(4),
    "hard-first": _hard_first,
    "easy-first": _easy_first,
    "random": _random,
}


@dataclass(frozen=True)
class Point:
    """After an iteration: samples and prompt tokens so far, solved tasks, and correct samples of solved tasks."""

    samples: int
    prompt_tokens: int
    solved: int
    pass_at_1: float


@dataclass
class Bench:
    """What runs share: the tasks, the proposer, the verdicts, and the samples drawn under the same prompt and seed."""

    desk: Desk
    tasks: Sequence[Task]
    samples: int
    temperature: float
    judge: Judge = field(default_factory=Judge)
    drawn: dict[tuple[object, ...], tuple[tuple[str, ...], int]] = field(default_factory=dict)

    def ask(self, task: Task, demos: Sequence[Entry], seed: int, iteration: int) -> tuple[tuple[str, ...], int]:
        """The correct answers among the samples of a task, and the prompt tokens of all."""
        key = (task.name, tuple((entry.task.name, entry.answer) for entry in demos), seed, iteration)
        if key not in self.drawn:
            prompt = self.desk.prompt(task, [(entry.task, entry.answer) for entry in demos])
            correct, tokens = [], 0
            for number in range(self.samples):
                digest = hashlib.sha256(f"{seed}/{iteration}/{number}".encode()).digest()
                sample = self.desk.sample(prompt, int.from_bytes(digest[:4], "big"), self.temperature)
                tokens += sample.prompt_tokens
                if sample.program is not None and self.judge.passes(task, sample.program):
                    correct.append(sample.program)
            self.drawn[key] = (tuple(correct), tokens)
        return self.drawn[key]


def run(bench: Bench, select: Select, seed: int, iterations: int) -> list[Point]:
    """One run: its curve."""
    rng = random.Random(seed)
    entries: dict[str, Entry] = {}
    points: list[Point] = []
    samples = tokens = level = 0
    for iteration in range(iterations):
        levels = select(list(entries.values()), rng) if entries else [[]]
        demos = levels[level % len(levels)]
        unsolved = [task for task in bench.tasks if task.name not in entries]
        found = {}
        for task in unsolved:
            answers, spent = bench.ask(task, demos, seed, iteration)
            samples, tokens = samples + bench.samples, tokens + spent
            if answers:
                chosen = choose_answer(answers, canonical_key, code_length, random.Random(f"{seed}/{task.name}"))
                found[task.name] = Entry(task, chosen, len(answers) / bench.samples)
        level = 0 if found or not iteration else level + 1
        entries |= found
        rate = sum(entry.rate for entry in entries.values()) / len(bench.tasks)
        points.append(Point(samples, tokens, len(entries), rate))
    return points


# --- what came out ----------------------------------------------------------------------------------------------------


def interval(values: Sequence[float], draws: int = 4000) -> tuple[float, float]:
    """The 95 % bootstrap interval of a mean."""
    rng = random.Random(0)
    means = sorted(statistics.fmean(rng.choices(values, k=len(values))) for _ in range(draws))
    return means[int(0.025 * draws)], means[int(0.975 * draws) - 1]


def sign_flip(differences: Sequence[float], draws: int = 1 << 14) -> float:
    """The chance of a mean so far from 0, either way, were the sign of each difference a coin; exact up to 14."""
    size, rng = len(differences), random.Random(0)
    every = 1 << size <= draws
    flips = product((1, -1), repeat=size) if every else (rng.choices((1, -1), k=size) for _ in range(draws))
    sums = [abs(sum(sign * value for sign, value in zip(flip, differences, strict=True))) for flip in flips]
    return sum(total >= abs(sum(differences)) - 1e-9 for total in sums) / len(sums)


def compare(runs: dict[str, list[list[Point]]], base: str, figure: str) -> list[str]:
    """How each selection ends against a base, paired by seed: mean, bootstrap interval, sign-flip p, and a word.

    A difference is called real if its p stays below 0.05 by Holm's correction over the selections compared here.
    """
    found = {}
    for name, curves in runs.items():
        pairs = zip(curves, runs[base], strict=True)
        differences = [getattr(one[-1], figure) - getattr(other[-1], figure) for one, other in pairs]
        found[name] = (differences, sign_flip(differences))
    del found[base]
    lines, real = {}, True
    for rank, (name, (differences, p)) in enumerate(sorted(found.items(), key=lambda item: item[1][1])):
        real = real and p * (len(found) - rank) < 0.05
        low, high = interval(differences)
        lines[name] = (
            f"{name:12} - {base:10} {figure:9} {statistics.fmean(differences):+.3f} [{low:+.3f}, {high:+.3f}]"
            f"  p = {p:.3f}  {'real' if real else 'not shown'}"
        )
    return [lines[name] for name in found]


def table(runs: dict[str, list[list[Point]]]) -> list[str]:
    """The ends of all runs, as a table."""
    lines = ["| selection | solved | pass@1 | samples | prompt tokens (1000) |", "|---|---|---|---|---|"]
    for name, curves in runs.items():
        ends = [curve[-1] for curve in curves]
        solved, rate = [float(end.solved) for end in ends], [end.pass_at_1 for end in ends]
        bands = [interval(solved), interval(rate)]
        drawn = statistics.fmean(end.samples for end in ends)
        tokens = statistics.fmean(end.prompt_tokens for end in ends) / 1000
        lines.append(
            f"| {name} | {statistics.fmean(solved):.1f} [{bands[0][0]:.1f}, {bands[0][1]:.1f}]"
            f" | {statistics.fmean(rate):.3f} [{bands[1][0]:.3f}, {bands[1][1]:.3f}] | {drawn:.0f} | {tokens:.0f} |"
        )
    return lines


def plot(runs: dict[str, list[list[Point]]], path: Path, title: str) -> None:
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


def report(runs: dict[str, list[list[Point]]], options: argparse.Namespace) -> None:
    """Prints what came out, and writes it where it is to be written."""
    seeds = len(next(iter(runs.values())))
    drawn = f"{options.samples} samples a task and iteration, {options.iterations} iterations"
    title = f"{options.lm}: {drawn}, temperature {options.temperature}, {seeds} seeds"
    bases = [base for base in ("none", "everything", "adaptive-3") if base in runs]
    compared = [line for base in bases for figure in ("solved", "pass_at_1") for line in compare(runs, base, figure)]
    text = "\n".join(
        [
            title,
            "",
            *table(runs),
            "",
            "Differences at the end, paired by seed; 95 % bootstrap intervals; p by sign flips, judged by Holm:",
        ]
    )
    text += "\n\n```\n" + "\n".join(compared) + "\n```\n"
    print(text)
    if options.output is not None:
        options.output.with_suffix(".md").write_text(text)
        points = {name: [[vars(point) for point in curve] for curve in curves] for name, curves in runs.items()}
        options.output.with_suffix(".json").write_text(json.dumps(points))
        plot(runs, options.output.with_suffix(".png"), title)


def main(arguments: list[str] | None = None) -> int:
    """Runs all selections seed by seed; prints the table and the comparisons, and writes them with the plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lm", default="embedded/small")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--iterations", type=int, default=8)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--minutes", type=float, default=None, help="no new seed is begun after so long")
    parser.add_argument("--only", nargs="*", choices=SELECTIONS, default=list(SELECTIONS))
    parser.add_argument("-o", "--output", type=Path, default=None, help="writes OUTPUT.md, OUTPUT.json and OUTPUT.png")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    bench = Bench(Desk(engine_named(options.lm)), tasks_in("tasks"), options.samples, options.temperature)
    runs: dict[str, list[list[Point]]] = {name: [] for name in options.only}
    start = time.monotonic()
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        if options.minutes is not None and time.monotonic() - start > 60 * options.minutes:
            break
        for name in options.only:
            runs[name].append(run(bench, SELECTIONS[name], seed, options.iterations))
            print(f"seed {seed} {name:12} {runs[name][-1][-1]} {time.monotonic() - start:.0f} s", file=sys.stderr)
        bench.drawn.clear()
    report(runs, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
