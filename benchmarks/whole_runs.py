"""Whole learning runs under each selection: what is learned next depends on what was shown before.

Each run learns from its own answers. In every iteration each task that is still unsolved gets as many samples, after
the demonstrations that the arm chooses for it from what the run has solved; the first iteration has none, nor has the
arm `none` ever. At the end, fresh samples of tasks that no run saw measure what was learned. Arms share the seeds of
their samples, so that they differ by their demonstrations alone.

How to run: python -m benchmarks.whole_runs -o FILE.jsonl    (the same command continues where it ended)
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.generated_tasks import LEVELS, generate
from benchmarks.selection.arms import ARMS, NONE, Arm, Learned
from benchmarks.selection.readers import StepWorld, embedded_reader
from benchmarks.selection.worlds import Answered, Asked, World, seed_of, solved
from optimizers import Entry
from optimizers.strategies.base import Trial
from scripts.documentation.experiment.statistics import Array, effect, sign_flips
from step_runtime.tasks.task import Task

LEARNING, HELD_OUT = "learning", "held-out"
GENERATED_SEEDS = {LEARNING: 21, HELD_OUT: 22}


@dataclass
class WholeRun:
    """One run; `curve` has the samples spent and the tasks solved after each iteration."""

    world: World
    arm: str
    seed: int
    budget: int
    entries: dict[str, Entry] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)
    misses: dict[str, tuple[float, Mapping[str, Any]]] = field(default_factory=dict)
    curve: list[tuple[int, int]] = field(default_factory=list)

    def shown(self, keys: Sequence[str]) -> dict[str, tuple[Entry, ...]]:
        """What the arm shows each task now."""
        if self.arm == NONE or not self.entries:
            return dict.fromkeys(keys, ())
        nearest = {key: outputs for key, (_, outputs) in self.misses.items()}
        arm = Arm(self.arm, Learned(self.world, self.entries, self.trials, self.seed, nearest_misses=nearest))
        return {key: arm.show(key, self.budget) for key in keys}

    def iterate(self, keys: Sequence[str], samples: int) -> None:
        """Samples the unsolved ones of these tasks."""
        unsolved = [key for key in keys if key not in self.entries]
        shown, iteration = self.shown(unsolved), len(self.curve)
        found = self.sampled(shown, samples, ("iteration", iteration))
        for key, answers in found.items():
            self.trials.append(
                Trial(key, tuple(e.task_key for e in shown[key]), float(np.mean([a.closeness for a in answers])))
            )
            if right := [a.outputs for a in answers if a.passed and a.outputs is not None]:
                chosen = self.world.choose(right, random.Random(f"sigma {self.seed} {key}"))
                self.entries[key] = solved(self.world.tasks[key], chosen, len(right), samples)
            for answer in answers:
                if answer.outputs is not None and answer.closeness >= self.misses.get(key, (0.0, {}))[0]:
                    self.misses[key] = (answer.closeness, answer.outputs)
        spent = self.curve[-1][0] if self.curve else 0
        self.curve.append((spent + samples * len(unsolved), len(self.entries)))

    def sampled(
        self, shown: Mapping[str, tuple[Entry, ...]], samples: int, phase: tuple[object, ...]
    ) -> dict[str, list[Answered]]:
        """Samples of each task after what it is shown."""
        asked = [
            Asked(key, demos, seed_of(self.seed, *phase, key, n))
            for key, demos in shown.items()
            for n in range(samples)
        ]
        answers = self.world.answers(asked)
        return {key: answers[place * samples : (place + 1) * samples] for place, key in enumerate(shown)}


def world_of(levels: Sequence[int], per_level: Mapping[str, int]) -> StepWorld:
    """The strong proposer on generated tasks, `learning/…` and `held-out/…`."""
    tasks: dict[str, Task] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part, seed in GENERATED_SEEDS.items():
            for level in levels:
                tasks |= {f"{part}/{task.name}": task for task, _ in generate(level, per_level[part], seed)}
    named = {key: task.named(key) for key, task in tasks.items()}
    return StepWorld("embedded", embedded_reader("embedded"), named, {key: key.rpartition("/")[0] for key in named})


def one_run(world: World, arm: str, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    """A run and its measurement, as a line of the file."""
    parts = {part: [key for key in world.tasks if key.startswith(f"{part}/")] for part in GENERATED_SEEDS}
    run = WholeRun(world, arm, seed, options.budget)
    for _ in range(options.iterations):
        run.iterate(parts[LEARNING], options.samples)
    fresh = run.sampled(run.shown(parts[HELD_OUT]), options.fresh, ("fresh",))
    return {
        "arm": arm, "seed": seed, "curve": run.curve,
        "solved": [key in run.entries for key in parts[LEARNING]],
        "fresh": [sum(answer.passed for answer in answers) / options.fresh for answers in fresh.values()],
    }  # fmt: skip


def table(lines: Sequence[Mapping[str, Any]], groups: Mapping[str, Sequence[str]], reference: str) -> list[str]:
    """By arm: solved tasks and fresh pass@1, and their differences to the reference, over complete seeds."""
    arms = list(dict.fromkeys(line["arm"] for line in lines))
    by = {(line["arm"], line["seed"]): line for line in lines}
    seeds = [seed for seed in dict.fromkeys(line["seed"] for line in lines) if all((arm, seed) in by for arm in arms)]
    shown = [f"Seeds: {len(seeds)}; differences to `{reference}` with 95 % intervals, p, and p by groups' signs", ""]
    shown += ["| arm | samples | solved | difference | fresh pass@1 | difference |", "|---|---|---|---|---|---|"]

    def array(arm: str, figure: str) -> Array:
        return np.array([by[arm, seed][figure] for seed in seeds], dtype=float).T

    def difference(arm: str, figure: str, factor: float, of: Sequence[str]) -> str:
        if arm == reference:
            return ""
        values = array(arm, figure) - array(reference, figure)
        each, (low, high) = effect(values), effect(values).interval()
        mean = f"{factor * each.mean:+.3f} [{factor * low:+.3f}, {factor * high:+.3f}]"
        return f"{mean}, {each.p:.3f}, {sign_flips(values, of):.3f}"

    for arm in arms:
        spent = np.mean([by[arm, seed]["curve"][-1][0] for seed in seeds])
        own, fresh = array(arm, "solved"), array(arm, "fresh")
        first = difference(arm, "solved", len(own), groups["solved"])
        second = difference(arm, "fresh", 1.0, groups["fresh"])
        found = f"{own.mean() * len(own):.1f} of {len(own)} | {first} | {fresh.mean():.3f} | {second}"
        shown.append(f"| {arm} | {spent:.0f} | {found} |")
    return shown


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes the runs that are missing, seed by seed, then prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--arms", nargs="+", choices=ARMS, default=["none", "adaptive", "everything", "similar", "hybrid"]
    )
    parser.add_argument("--levels", type=int, nargs="+", choices=LEVELS, default=[3, 4, 5, 6])
    parser.add_argument("--per-level", type=int, nargs=2, default=[12, 8], metavar=("LEARNING", "HELD_OUT"))
    parser.add_argument("--samples", type=int, default=2, help="per unsolved task and iteration")
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--fresh", type=int, default=2, help="samples of a task that no run saw")
    parser.add_argument("--budget", type=int, default=2000, help="tokens of demonstrations")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="JSON lines")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    world = world_of(options.levels, dict(zip(GENERATED_SEEDS, options.per_level, strict=True)))
    lines = [json.loads(line) for line in options.output.read_text().splitlines()] if options.output.exists() else []
    done = {(line["arm"], line["seed"]) for line in lines}
    for seed in range(options.seeds):
        for arm in options.arms:
            if (arm, seed) not in done:
                lines.append(one_run(world, arm, seed, options))
                with options.output.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(lines[-1]) + "\n")
                print(f"{arm}, seed {seed}: {lines[-1]['curve']}", file=sys.stderr, flush=True)
    of = {"solved": LEARNING, "fresh": HELD_OUT}
    groups = {
        figure: [world.groups[key] for key in world.tasks if key.startswith(f"{part}/")] for figure, part in of.items()
    }
    for reference in ("adaptive", NONE):
        if reference in options.arms:
            print("\n".join([*table(lines, groups, reference), ""]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
