"""What confining cells costs a verdict: workers that confine and workers that do not, in turn, on the same programs.

Warm: a task's cell has judged the program before. Cold: the first verdict of a task, for which a cell is made. A cell:
its making and a call that does nothing, which is what differs in a cold verdict. Times by the clock are medians over
pairs of neighbours. Those of the processors are means of what workers and their cells have used, on which another load
on the machine has less influence.

How to run: python -m benchmarks.confinement
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.verification.isolation import processes
from pipeline.verification.isolation.confinement import Means, Sandbox
from pipeline.verification.judge import Request, judge
from pipeline.verification.limits import task_of, verification_pool
from pipeline.verification.pool import WorkerPool
from tests.support import crashing
from tests.support.oracles import solved

MOST_WARM, MOST_COLD = 0.02, 0.003
"""What may be lost: of a warm verdict's time, and seconds of a cold one's."""


def main() -> None:
    """Measures, and prints a line for each figure."""
    parser = argparse.ArgumentParser(description="What confining cells costs a verdict.")
    parser.add_argument("--rounds", type=int, default=20, help="how often each program is judged, warm and cold")
    rounds = parser.parse_args().rounds
    programs = [(task.statement, text) for task, text in solved()]
    print(f"confined by: {Means.here()}")
    with (
        verification_pool(1, sandbox=Sandbox("off")) as free,
        verification_pool(1, sandbox=Sandbox("require")) as confined,
    ):
        pools = (free, confined)

        def verdict(pool: WorkerPool, task: str, name: str, text: str) -> None:
            assert pool.submit(judge, Request(task=name, statement=task, text=text)).result().passed

        def nothing(pool: WorkerPool, task: str, name: str, _: str) -> None:
            pool.submit(task_of, name, task).result()

        warm = pairs(pools, programs, rounds, lambda pool, turn, task, text: verdict(pool, task, "warm", text))
        cold = pairs(pools, programs, rounds, lambda pool, turn, task, text: verdict(pool, task, f"cold {turn}", text))
        cell = pairs(pools, programs, rounds, lambda pool, turn, task, text: nothing(pool, task, f"cell {turn}", text))
    for of in ("clock", "processors"):
        other, more = (1000 * figure for figure in getattr(warm, of))
        print(f"warm, {of}: {other:.3f} ms, lost {100 * more / other:+.2f} % (at most {100 * MOST_WARM:.0f} %)")
        for what, measured in (("cold", cold), ("cell", cell)):
            other, more = (1000 * figure for figure in getattr(measured, of))
            print(f"{what}, {of}: {other:.2f} ms, {more:+.2f} ms (at most {1000 * MOST_COLD:.0f} ms)")


@dataclass(frozen=True)
class Measured:
    """Seconds of a call that is not confined, and how many more one takes that is: by the clock, of the processors."""

    clock: tuple[float, float]
    processors: tuple[float, float]


def processors(pool: WorkerPool) -> float:
    """The seconds of the processors that a pool's only worker and its cells have used, those that are gone included."""
    worker = pool.submit(crashing.worker_id).result()
    gone = sum(map(int, Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[13:15]))
    living = sum(map(processes.processor_time, (worker, *processes.descendants(worker))))
    return living + gone / os.sysconf("SC_CLK_TCK")


def pairs(
    pools: tuple[WorkerPool, WorkerPool],
    programs: Sequence[tuple[str, str]],
    rounds: int,
    call: Callable[[WorkerPool, int, str, str], None],
) -> Measured:
    """What a call takes in each of two pools, over all programs and rounds; the first round is not counted."""
    found: list[tuple[float, float]] = []
    before = (0.0, 0.0)
    for turn in range(rounds + 1):
        if turn == 1:
            before = (processors(pools[0]), processors(pools[1]))
        for task, text in programs:
            seconds = [0.0, 0.0]
            for which in (0, 1) if turn % 2 else (1, 0):
                start = time.perf_counter()
                call(pools[which], turn, task, text)
                seconds[which] = time.perf_counter() - start
            if turn:
                found.append((seconds[0], seconds[1]))
    used = [(processors(pool) - start) / len(found) for pool, start in zip(pools, before, strict=True)]
    clock = statistics.median(other for other, _ in found), statistics.median(own - other for other, own in found)
    return Measured(clock, (used[0], used[1] - used[0]))


if __name__ == "__main__":
    main()
