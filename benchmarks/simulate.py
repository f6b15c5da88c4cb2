"""Times the simulator on every task's oracle against the task's PyTorch reference and against per-element loops.

How to run: python -m benchmarks.simulate                    (--tasks 'attn/*' --folds 1 2 for a part)

All dims but E grow to 1, 2, 4, 8 and 16 times the task's first set of sizes, the last only where the streams fit
the verifier's limit. Reference and simulator alternate, and the least of their times counts; both are warm. Loops
run in full up to 2 times the sizes, and beyond on a random part from which the whole is extrapolated (marked ~).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from math import exp, log, log2
from pathlib import Path
from typing import Any

import torch

from step_runtime.execution.applier import Applier, Data
from step_runtime.execution.invocation import default_dtype
from step_runtime.language.parser import evaluate, read
from step_runtime.program.limits import Limits, check_size
from step_runtime.tasks import snippets
from step_runtime.tasks.reader import read_task
from step_runtime.tasks.task import Task
from step_runtime.verification.check import infer_types
from step_runtime.verification.instance import TaskInstance
from step_runtime.verification.simulate import simulate
from tests.support.per_element import PerElement
from tests.support.truth import close

DATA = Path(__file__).parent.parent / "data"
FOLDS = (1, 2, 4, 8, 16)
FULL = 2
"""Multiples of the sizes up to which the loops run in full."""
SAMPLE = 1000
"""Elements of each function call that are timed at larger sizes."""
SECONDS = 0.2
"""Seconds per measurement; what is compared runs alternately."""


@dataclass(frozen=True)
class Row:
    """One task at one size: seconds of each."""

    task: str
    fold: int
    reference: float
    simulator: float
    loop: float


class Place:
    """A task's oracle at one set of sizes, ready to run."""

    def __init__(self, task: Task, fold: int) -> None:
        self.task, self.fold = task, fold
        first = task.size_sets()[0]
        sizes = {name: size if name == "E" else size * fold for name, size in first.items()}
        self.instance = TaskInstance(task, sizes)
        self.inputs = self.instance.sample_inputs(0)
        text = (DATA / "oracles" / f"{task.name}.step").read_text(encoding="utf-8")
        limits, scope = Limits(), self.instance.scope
        self.program, found = evaluate(read(text, limits), scope, limits)
        self.types, typed = infer_types(self.program, scope)
        if found or typed:
            raise ValueError(f"{task.name}: the oracle is rejected: {[*found, *typed]}")
        self.fits = not check_size(self.program, self.types, scope.sizes, limits, itemsize=8)

    def simulate(self, applier: Applier) -> list[Data]:
        """The oracle's outputs."""
        return simulate(self.program, self.types, self.inputs, self.instance.sizes, applier)

    def reference(self) -> Callable[[], None]:
        """What runs the task's own PyTorch code alone, compiled beforehand."""
        namespace = dict(self.instance._namespace)
        codes = [
            snippets.compile_value(source, spec.name, "_value", widen=snippets.NARROW)
            for spec in self.task.outputs
            for source in spec.data_transform
        ]

        def run() -> None:
            for code in codes:
                snippets.run(code, namespace)

        return run


def measured(place: Place) -> Row:
    """Times one task at one size, and checks the simulator's outputs against the reference's.

    Raises:
        ValueError: They differ.
    """
    applier = Applier(torch.float64)
    place.simulate(applier)
    for outputs, expected in zip(place.simulate(applier), place.instance.reference(), strict=True):
        if not all(map(close, outputs, expected)):
            raise ValueError(f"{place.task.name} at {place.fold}-fold sizes: the outputs differ from the reference's")
    reference, simulator = alternated(place.reference(), lambda: place.simulate(applier))
    return Row(place.task.name, place.fold, reference, simulator, loop_seconds(place))


def alternated(*runs: Callable[[], Any]) -> list[float]:
    """The least time of each of several functions that run in turns, in seconds."""
    best = [float("inf")] * len(runs)
    end = time.perf_counter() + SECONDS
    turns = 0
    while turns < 5 or time.perf_counter() < end:
        turns += 1
        for index, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[index] = min(best[index], time.perf_counter() - start)
    return best


def loop_seconds(place: Place) -> float:
    """The time of the per-element loops, in full or extrapolated from a part: the least of some runs."""
    times = []
    for _ in range(1 if place.fold == FULL else 3):
        loops = PerElement(None if place.fold <= FULL else SAMPLE)
        loops.simulate(place.program, place.types, place.inputs, place.instance.sizes)
        times.append(loops.seconds)
    return min(times)


def mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, values)) / len(values))


def exponent(rows: Sequence[Row], of: Callable[[Row], float]) -> float:
    """The power of two by which the time grows with each doubling of all dims, from the first row to the last."""
    return log2(of(rows[-1]) / of(rows[0])) / log2(rows[-1].fold / rows[0].fold)


def report(rows: Sequence[Row]) -> Iterator[str]:
    """A table by task, and the means by size."""
    yield "| task | size | reference | over the reference | loop over the simulator |"
    yield "|---|---|---|---|---|"
    for row in rows:
        mark = "" if row.fold <= FULL else "~"
        yield (
            f"| {row.task} | {row.fold} | {row.reference * 1e6:,.0f} µs | {row.simulator / row.reference:.2f} "
            f"| {mark}{row.loop / row.simulator:,.0f} |"
        )
    yield ""
    yield "| geometric mean | tasks | over the reference | loop over the simulator | loop over the reference |"
    yield "|---|---|---|---|---|"
    tasks = {row.task for row in rows}
    for fold in sorted({row.fold for row in rows}):
        some = [row for row in rows if row.fold == fold]
        over = mean([row.simulator / row.reference for row in some])
        loops = mean([row.loop / row.simulator for row in some]), mean([row.loop / row.reference for row in some])
        yield f"| {fold} | {len(some)} | {over:.2f} | {loops[0]:,.0f} | {loops[1]:,.0f} |"
    yield ""
    for fold in sorted({row.fold for row in rows}):
        if left := sorted(tasks - {row.task for row in rows if row.fold == fold}):
            yield f"Not at {fold} times the sizes, where the streams are past the verifier's limit: {', '.join(left)}."
    yield from _growth(rows)


def _growth(rows: Sequence[Row]) -> Iterator[str]:
    apart = {}
    for task in dict.fromkeys(row.task for row in rows):
        own = [row for row in rows if row.task == task]
        if len(own) > 1:
            apart[task] = exponent(own, lambda row: row.simulator), exponent(own, lambda row: row.reference)
    if not apart:
        return
    ours, reference = (sum(pair[index] for pair in apart.values()) / len(apart) for index in (0, 1))
    worst = max(apart, key=lambda task: apart[task][0] - apart[task][1])
    yield f"Growth per doubling: 2^{ours:.2f}, the reference's own 2^{reference:.2f}; {ours - reference:+.2f}."
    yield f"Furthest apart: {worst}, 2^{apart[worst][0]:.2f} against 2^{apart[worst][1]:.2f}."


def main(arguments: list[str] | None = None) -> int:
    """Measures, and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", default="*", help="a pattern of task names")
    parser.add_argument("--folds", type=int, nargs="+", default=FOLDS, help="multiples of the default sizes")
    parser.add_argument("--threads", type=int, default=1, help="of torch; a worker of the verifier's pool has one")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    paths = sorted((DATA / "tasks").glob("*/*.yaml"))
    tasks = [read_task(path) for path in paths]
    rows = []
    with default_dtype(torch.float64):
        for task in tasks:
            if fnmatch(task.name, options.tasks):
                places = (Place(task, fold) for fold in options.folds)
                rows += [measured(place) for place in places if place.fold < max(FOLDS) or place.fits]
    print("\n".join(report(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
