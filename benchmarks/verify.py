"""Text to verdict on all cores, against a pytest run per generated script in a process pool of the same size.

Both pools are warm, and run alternately. The scripts are written beforehand, and the verifier reuses no result.

How to run: python -m benchmarks.verify
"""

from __future__ import annotations

import argparse
import contextlib
import io
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from random import Random
from statistics import geometric_mean
from typing import Any

from benchmarks.simulated_verdicts import judge_uncached
from pipeline.verification.limits import verification_pool
from pipeline.verification.pool import cores
from signatures import render_task
from step_runtime.codegen import generate_test
from step_runtime.tasks.task import Task
from tests.support.mutants import changed
from tests.support.oracles import solved

SAMPLES = 64
DISTINCT = 8
"""Of a task's samples: the oracle and single edits of it, the first ones sampled most often."""

COLLECTING = "pytest, unchanged"
NOT_COLLECTING = "pytest without its forced garbage collection"


class Uncached(Executor):
    """Verifies in a pool as `judge_uncached` does."""

    def __init__(self, pool: Executor) -> None:
        self._pool = pool

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submits `judge_uncached` in place of `fn`."""
        return self._pool.submit(judge_uncached, *args, **kwargs)


def run_pytest(script: str, options: Sequence[str]) -> int:
    """The exit code of pytest on one script, run in this process, which has imported pytest already."""
    import pytest

    modules = set(sys.modules)
    with contextlib.redirect_stdout(io.StringIO()):
        code = pytest.main([script, "-q", "--rootdir", str(Path(script).parent), "-c", os.devnull, *options])
    for name in set(sys.modules) - modules:
        if name.startswith("test_"):
            del sys.modules[name]
    return int(code)


def settle() -> None:
    """Sets up a worker of the pytest pool: one thread, and no bytecode kept from an earlier run of a script."""
    import pytest  # noqa: F401
    import torch

    import step_runtime  # noqa: F401

    torch.set_num_threads(1)
    sys.dont_write_bytecode = True


def seconds(work: Callable[[], object]) -> float:
    """Wall clock of `work`."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class Contest:
    """The two pools and their work.

    Args:
        workers: Processes in each pool.
        folder: Where the scripts are written.
    """

    def __init__(self, workers: int, folder: Path) -> None:
        self.pairs = [(task.without_impl(), text) for task, text in solved()]
        self.workers = workers
        self._scripts = []
        for task, text in self.pairs:
            script = folder / f"test_{task.name.replace('/', '_')}.py"
            script.write_text(generate_test(task, text), encoding="utf-8")
            self._scripts.append(str(script))
        self._pool = verification_pool(workers)
        context = multiprocessing.get_context("forkserver")
        self._pytest = ProcessPoolExecutor(workers, context, initializer=settle)

    def close(self) -> None:
        """Ends both pools."""
        self._pool.shutdown()
        self._pytest.shutdown()

    def verify(self, times: int = 1) -> None:
        """Every oracle at two sets of sizes and two seeds, `times` times."""
        futures = [
            self._pool.submit(judge_uncached, task.name, render_task(task), text)
            for _ in range(times)
            for task, text in self.pairs
        ]
        if not all(future.result().passed for future in futures):
            raise RuntimeError("an oracle does not pass")

    def pytest(self, collecting: bool) -> None:
        """Every oracle's script, once."""
        options = ["-p", "no:cacheprovider"]
        options += [] if collecting else ["-p", "no:unraisableexception", "-p", "no:threadexception"]
        if any(self._pytest.map(run_pytest, self._scripts, [options] * len(self._scripts))):
            raise RuntimeError("a script does not pass")

    def judge_samples(self, samples: Sequence[tuple[Task, str]]) -> int:
        """Samples through the metric, from threads as the optimizer has them; returns how many are right."""
        import dspy

        from pipeline.verification.metric import Metric

        metric = Metric(Uncached(self._pool))

        def judge(sample: tuple[Task, str]) -> float:
            score: float = metric(dspy.Example(task=sample[0]), dspy.Prediction(impl=sample[1])).score
            return score

        with ThreadPoolExecutor(2 * self.workers) as threads:
            return int(sum(threads.map(judge, samples)))


def repeating(pairs: Sequence[tuple[Task, str]], random: Random) -> Iterator[tuple[Task, str]]:
    """64 samples of each task: few programs, with odds of 1 to 1/8, each in one of four wordings."""
    for task, oracle in pairs:
        edits = [mutant.text for mutant in changed(task, oracle)]
        programs = [oracle, *random.sample(edits, min(DISTINCT - 1, len(edits)))]
        odds = [1 / rank for rank in range(1, len(programs) + 1)]
        for number, text in enumerate(random.choices(programs, odds, k=SAMPLES)):
            yield task, f"# wording {number % 4}\n{text}"


def main(arguments: list[str] | None = None) -> int:
    """Prints samples a second and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="turns that each pool takes (default: %(default)s)")
    parser.add_argument("--times", type=int, default=10, help="verifications a turn, times 26 (default: %(default)s)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(Contest(cores(), Path(folder))) as contest:
        measure(contest, options.rounds, options.times)
    return 0


def measure(contest: Contest, rounds: int, times: int) -> None:
    """Lets the pools run alternately, and prints the results."""
    count = len(contest.pairs)
    samples = list(repeating(contest.pairs, Random(0)))
    Random(1).shuffle(samples)
    for _ in range(contest.workers + 1):
        contest.verify(times=2)  # every worker meets every task
    contest.pytest(collecting=True)
    ratios: dict[tuple[str, str], list[float]] = {}
    for number in range(rounds):
        ours = {
            "text to verdict": times * count / seconds(lambda: contest.verify(times)),
            f"{SAMPLES} samples a task, of {DISTINCT} programs": len(samples)
            / seconds(lambda: contest.judge_samples(samples)),
        }
        theirs = {
            COLLECTING: count / seconds(lambda: contest.pytest(True)),
            NOT_COLLECTING: count / seconds(lambda: contest.pytest(False)),
        }
        rates = [f"{name} {rate:,.1f}/s" for name, rate in {**ours, **theirs}.items()]
        print(f"round {number + 1}, {contest.workers} workers each: {'; '.join(rates)}", flush=True)
        for mine, rate in ours.items():
            for other, slower in theirs.items():
                ratios.setdefault((mine, other), []).append(rate / slower)
    for (mine, other), found in ratios.items():
        spread = f"{min(found):,.0f} to {max(found):,.0f}"
        print(f"{mine}, over {other}: {geometric_mean(found):,.0f} times ({spread})")


if __name__ == "__main__":
    sys.exit(main())
