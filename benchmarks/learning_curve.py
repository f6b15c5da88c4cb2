"""Solved tasks over samples: a run that learns against one that only samples, with equal samples.

Both runs are recorded ones of `pipeline.compile` with one temperature: LEARNING of any optimizer that iterates, and
SAMPLING of any, whose first iteration shows nothing: of `--optimizer none`, say. A task costs the learning run the
samples of each iteration until it is solved. The sampling run is given the same: blocks of as many samples per
unsolved task, until the task is solved; what it has then solved, and spent, is the expectation over all orders of its
samples, so its number of samples has to be at least that of the blocks.

How to run: python -m benchmarks.learning_curve LEARNING SAMPLING -o experiments/curves/NAME.json (and NAME.svg)
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from math import comb
from pathlib import Path

from optimizers import Experience
from pipeline.charts.plots import Panel, plot
from pipeline.record.resume import load_experience

Point = tuple[float, float]
"""Samples spent, tasks solved."""


def learned(run: Experience) -> list[Point]:
    """After each iteration."""
    points, spent = [(0.0, 0.0)], 0
    for iteration in run.iterations:
        spent += iteration.samples
        points.append((float(spent), float(iteration.solved_total)))
    return points


def sampled(run: Experience, block: int, blocks: int) -> list[Point]:
    """After each block of samples per unsolved task.

    Raises:
        ValueError: The run's first iteration shows something, or has several temperatures or too few samples.
    """
    iteration = run.iterations[0]
    if iteration.demos or iteration.reasons:
        raise ValueError("the sampling run's first iteration shows demonstrations")
    counts = {count.task_key: count for count in iteration.counts}
    if len(counts) < len(iteration.counts):
        raise ValueError("the sampling run has several temperatures; use one")
    if (least := min(count.samples for count in counts.values())) < block * blocks:
        raise ValueError(f"the sampling run has {least} samples per task; {block * blocks} are needed")
    points, spent = [(0.0, 0.0)], 0.0
    for done in range(blocks):
        unsolved = [
            comb(c.samples - c.successes, block * done) / comb(c.samples, block * done) for c in counts.values()
        ]
        spent += block * sum(unsolved)
        after = block * (done + 1)
        solved = sum(1 - comb(c.samples - c.successes, after) / comb(c.samples, after) for c in counts.values())
        points.append((spent, solved))
    return points


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the two curves, and a picture of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("learning", help="a run's id, or the path of its experience.json")
    parser.add_argument("sampling", help="likewise, with a first iteration that shows nothing")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    learning, sampling = (load_experience(run, []) for run in (options.learning, options.sampling))
    block = learning.iterations[0].samples // len(learning.tasks)
    blocks = len(learning.iterations)
    learns, samples = learned(learning), sampled(sampling, block, blocks)
    curves = {
        "tasks": len(learning.tasks),
        "selection": learning.settings["selection"],
        "learning": learns,
        "sampling": samples,
        "labels": [iteration.label for iteration in learning.iterations],
    }
    options.output.write_text(json.dumps(curves) + "\n", encoding="utf-8")
    drawn = {"the run that learns": learns, "the run that only samples": samples}
    tasks = len(learning.tasks)
    panel = Panel(drawn, f"solved tasks, of {tasks}", "samples spent", kind="step", top=tasks)
    plot(options.output.with_suffix(".svg"), panel, size=(6.0, 4.25))
    return 0


if __name__ == "__main__":
    sys.exit(main())
