"""What confining cells costs a verdict: workers that confine and workers that do not, in turn, on the same programs.

Warm: a task's cell has judged the program before. Cold: the first verdict of a task, for which a cell is made. A cell:
its making and a call that does nothing, which is what differs in a cold verdict. Times are by the clock; differences
are medians over pairs of neighbours, which a busy machine slows down alike.

How to run: python -m benchmarks.confinement
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence

from pipeline.verification.isolation.confinement import Means, Sandbox
from pipeline.verification.limits import task_of
from pipeline.verification.pool import WorkerPool
from pipeline.verification.worker import judge, verification_pool
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
            assert pool.submit(judge, name, task, text).result().passed

        def nothing(pool: WorkerPool, task: str, name: str, _: str) -> None:
            pool.submit(task_of, name, task).result()

        warm = pairs(pools, programs, rounds, lambda pool, turn, task, text: verdict(pool, task, "warm", text))
        cold = pairs(pools, programs, rounds, lambda pool, turn, task, text: verdict(pool, task, f"cold {turn}", text))
        cell = pairs(pools, programs, rounds, lambda pool, turn, task, text: nothing(pool, task, f"cell {turn}", text))
    lost = statistics.median((own - other) / other for other, own in warm)
    print(f"warm: {1000 * typical(warm):.3f} ms, lost {100 * lost:+.2f} % (at most {100 * MOST_WARM:.0f} %)")
    for what, measured in (("cold", cold), ("cell", cell)):
        more = statistics.median(own - other for other, own in measured)
        print(f"{what}: {1000 * typical(measured):.2f} ms, {1000 * more:+.2f} ms (at most {1000 * MOST_COLD:.0f} ms)")


def typical(measured: Sequence[tuple[float, float]]) -> float:
    """The median of those that are not confined."""
    return statistics.median(other for other, _ in measured)


def pairs(
    pools: tuple[WorkerPool, WorkerPool],
    programs: Sequence[tuple[str, str]],
    rounds: int,
    call: Callable[[WorkerPool, int, str, str], None],
) -> list[tuple[float, float]]:
    """The seconds of a call in each of two pools, for each program and round; the first round is not counted."""
    found: list[tuple[float, float]] = []
    for turn in range(rounds + 1):
        for task, text in programs:
            seconds = [0.0, 0.0]
            for which in (0, 1) if turn % 2 else (1, 0):
                start = time.perf_counter()
                call(pools[which], turn, task, text)
                seconds[which] = time.perf_counter() - start
            if turn:
                found.append((seconds[0], seconds[1]))
    return found


if __name__ == "__main__":
    main()
