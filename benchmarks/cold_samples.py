"""What a sample of the embedded LM takes that has read nothing of its task: processor time, each in a fresh process.

With `--beside`, samples of this checkout and of another one take turns, so that both see the same machine. Run it with
nothing else running: what runs beside it takes a share of each core.

How to run: python -m benchmarks.cold_samples TASK.yaml ... [--samples 2] [--beside OTHER-CHECKOUT]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

import torch

from benchmarks.proposing import Desk, Prompt, tasks_in
from pipeline.lms.embedded import engine_named
from step_runtime.verification.loading import load_task

_TEMPERATURE = 0.7
_ROOT = Path(__file__).parents[1]


def measured(paths: Sequence[Path], seed: int) -> list[float]:
    """The seconds of processor time that a sample of each task takes."""
    prompts = [_desk().prompt(load_task(path).model_copy(update={"impl": None})) for path in paths]
    _desk().sample(_desk().prompt(tasks_in("tasks")[0]), seed, _TEMPERATURE)  # Reads what all prompts have in common.
    with get_context("fork").Pool(1, maxtasksperchild=1) as workers:
        return workers.map(partial(_timed, seed), prompts, chunksize=1)


@cache
def _desk() -> Desk:
    torch.set_num_threads(1)
    return Desk(engine_named("embedded"))


def _timed(seed: int, prompt: Prompt) -> float:
    start = time.process_time()
    _desk().sample(prompt, seed, _TEMPERATURE)
    return time.process_time() - start


def _measured_in(checkout: Path, paths: Sequence[Path], seed: int) -> list[float]:
    """As `measured`, with the code of a checkout."""
    command = [sys.executable, "-P", __file__, *map(str, paths), "--seed", str(seed)]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    found: list[float] = json.loads(subprocess.check_output(command, cwd=checkout, env=environment, text=True))
    return found


def main(arguments: list[str] | None = None) -> int:
    """Prints the mean and the largest time, for each checkout."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="+", type=Path, help="task files")
    parser.add_argument("--samples", type=int, default=2, help="samples of each task")
    parser.add_argument("--beside", type=Path, help="the folder of another checkout")
    parser.add_argument("--seed", type=int, help="measures one sample of each task here, and prints the times as JSON")
    options = parser.parse_args(arguments)
    paths = [path.resolve() for path in options.tasks]
    if options.seed is not None:
        print(json.dumps(measured(paths, options.seed)))
        return 0
    times: dict[Path, list[float]] = {_ROOT: []}
    if options.beside:
        times[options.beside.resolve()] = []
    for seed in range(options.samples):
        for checkout in times:
            times[checkout] += _measured_in(checkout, paths, seed)
    for checkout, found in times.items():
        print(f"{checkout}: {statistics.mean(found):.2f} s on average, at most {max(found):.2f} s")
    if options.beside:
        mine, other = map(statistics.mean, times.values())
        print(f"ratio of the averages: {mine / other:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
