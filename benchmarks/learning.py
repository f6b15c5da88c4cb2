"""Does learning learn? Runs of `pipeline.compile` that show their own solutions against runs that show nothing.

For each seed, both runs sample every unsolved task as often in each iteration; `--selection resample` shows nothing. A
run that learns may end before the last iteration, when no selection is left: that counts against it. The differences of
solved tasks are paired by seed, and tested by flipping their signs.

How to run: python -m benchmarks.learning data/tasks --seeds 10 -o experiments/NAME/benchmark.json (some minutes)
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from optimizers import Experience
from pipeline.record.resume import load_experience

SELECTIONS = ("adaptive", "resample")


def solved(tasks: Path, selection: str, seed: int, settings: argparse.Namespace) -> list[int]:
    """Solved tasks after each iteration of one run."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/runs.db"
        command = [
            *(sys.executable, "-m", "pipeline.compile", "--optimizer", "adaptive", "--selection", selection),
            *("--tasks", str(tasks), "--lm", settings.lm, "--samples", str(settings.samples), "--seed", str(seed)),
            *("--max-iterations", str(settings.iterations)),
            *("--json", "-o", f"{folder}/program.json"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            raise RuntimeError(done.stderr)
        run: Experience = load_experience(json.loads(done.stdout)["run_id"], [])
    counts = [iteration.solved_total for iteration in run.iterations]
    return [*counts, *counts[-1:] * int(settings.iterations - len(counts))]


def interval(values: Sequence[float], resamples: int = 4000) -> tuple[float, float]:
    """The 95 % bootstrap interval of a mean."""
    rng = random.Random(0)
    means = sorted(statistics.fmean(rng.choices(values, k=len(values))) for _ in range(resamples))
    return means[int(0.025 * resamples)], means[int(0.975 * resamples) - 1]


def sign_flip(differences: Sequence[float]) -> float:
    """The exact two-sided p-value of a sign-flip test that the mean is 0."""
    flips = list(product((1, -1), repeat=len(differences)))
    sums = [abs(sum(sign * value for sign, value in zip(flip, differences, strict=True))) for flip in flips]
    return sum(total >= abs(sum(differences)) - 1e-9 for total in sums) / len(flips)


def main() -> None:
    """Runs, prints and saves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=Path)
    parser.add_argument("--lm", default="embedded")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--samples", type=int, default=8, help="at each of three temperatures, for each iteration")
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path, required=True)
    settings = parser.parse_args()
    runs: dict[str, list[list[int]]] = {selection: [] for selection in SELECTIONS}
    for seed in range(settings.seeds):
        for selection in SELECTIONS:
            runs[selection].append(solved(settings.tasks, selection, seed, settings))
            print(seed, selection, *runs[selection][-1], flush=True)
        settings.output.parent.mkdir(parents=True, exist_ok=True)
        settings.output.write_text(json.dumps({"lm": settings.lm, "tasks": str(settings.tasks), "runs": runs}) + "\n")
    ends = {selection: [counts[-1] for counts in runs[selection]] for selection in SELECTIONS}
    differences = [one - other for one, other in zip(*ends.values(), strict=True)]
    for selection in SELECTIONS:
        means = (statistics.fmean(counts) for counts in zip(*runs[selection], strict=True))
        print(f"{selection:9}", *(f"{mean:5.1f}" for mean in means))
    low, high = interval(differences)
    print(
        f"difference {statistics.fmean(differences):+.1f} [{low:+.1f}, {high:+.1f}], p = {sign_flip(differences):.4f}"
    )


if __name__ == "__main__":
    main()
