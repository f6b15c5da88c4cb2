"""A cluster of this machine's processes against one machine's pool: rates, overhead, memory, and the cost of a fault.

Nodes are Dask worker processes on the loopback interface, so that they share this machine's cores: what is measured is
what a cluster costs, and not what more machines give. Pool and clusters take turns in one run.

How to run: python -m benchmarks.scale [rates] [overhead] [memory] [loss] [job]
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from benchmarks.simulated_verdicts import judge_uncached, simulated
from pipeline.cluster.cluster import Cluster, open_cluster
from pipeline.verification.limits import verification_pool, verification_settings
from signatures import render_task
from tests.support.crashing import echo
from tests.support.dask_processes import DaskProcesses, eventually
from tests.support.mutants import changed
from tests.support.oracles import solved

PARTS = ("rates", "overhead", "memory", "loss", "job")
CLUSTERS = ((1, 1), (1, 2), (2, 1), (4, 1))
"""Nodes, and workers of each."""

Call = tuple[str, str, str]


def calls(count: int) -> list[Call]:
    """Solutions of all tasks and their single edits, as many as asked for."""
    programs = [
        (task.name, render_task(task.without_impl()), text)
        for task, oracle in solved()
        for text in (oracle, *[mutant.text for mutant in changed(task, oracle)][:7])
    ]
    return list(itertools.islice(itertools.cycle(programs), count))


@contextmanager
def cluster_of(nodes: int, workers: int) -> Iterator[tuple[Cluster, DaskProcesses]]:
    """A cluster whose nodes have all joined."""
    with tempfile.TemporaryDirectory() as folder, DaskProcesses(Path(folder)) as processes:
        for _ in range(nodes):
            processes.add_node(workers=workers)
        with open_cluster(processes.address, "scale") as cluster:
            eventually(lambda: cluster.nodes == nodes, "all nodes")
            yield cluster, processes


def seconds(work: Callable[[], object]) -> float:
    """Wall clock of `work`."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def judge_all(pool: Executor, work: Sequence[Call]) -> None:
    """Judges all programs, none from memory."""
    for future in [pool.submit(judge_uncached, *call) for call in work]:
        future.result()


def rates(count: int, rounds: int) -> None:
    """Verdicts a second, in turns."""
    work = calls(count)
    with ExitStack() as stack:
        pools: dict[str, tuple[int, Executor]] = {}
        for workers in (1, 2):
            pools[f"one machine's pool, {workers} worker(s)"] = workers, stack.enter_context(verification_pool(workers))
        for nodes, workers in CLUSTERS:
            cluster, _ = stack.enter_context(cluster_of(nodes, workers))
            nodes_pool = stack.enter_context(cluster.pool(verification_settings()))
            pools[f"{nodes} node(s) of {workers}"] = nodes * workers, nodes_pool
        for _, pool in pools.values():
            judge_all(pool, work[:208] * 2)  # every worker meets every task
        found: dict[str, list[float]] = {name: [] for name in pools}
        for _ in range(rounds):
            for name, (_, pool) in pools.items():
                found[name].append(count / seconds(lambda pool=pool: judge_all(pool, work)))  # type: ignore[misc]
    print(f"\n| where | verdicts a second, median of {rounds} | over one machine's pool of that size |\n|---|---|---|")
    for name, values in found.items():
        same = found.get(f"one machine's pool, {pools[name][0]} worker(s)")
        ratio = f"{median(value / base for value, base in zip(values, same, strict=True)):.2f}" if same else ""
        print(f"| {name} | {median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f}) | {ratio} |", flush=True)


def overhead(count: int, rounds: int) -> None:
    """What a call costs that does nothing."""
    print("\n| where | µs a call, by the clock | µs a call, processor time of the client |\n|---|---|---|")
    with ExitStack() as stack:
        cluster, _ = stack.enter_context(cluster_of(1, 1))
        pools: dict[str, Executor] = {
            "one machine's pool, 1 worker": stack.enter_context(verification_pool(1)),
            "1 node of 1": stack.enter_context(cluster.pool(verification_settings())),
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in pools}
        for number in range(rounds + 1):
            for name, pool in pools.items():
                spent = time.process_time()
                took = seconds(lambda pool=pool: [*pool.map(echo, range(count))])  # type: ignore[misc]
                if number:
                    found[name].append((1e6 * took / count, 1e6 * (time.process_time() - spent) / count))
    for name, values in found.items():
        print(f"| {name} | {median(took for took, _ in values):,.0f} | {median(cpu for _, cpu in values):,.0f} |")


def memory(counts: Sequence[int]) -> None:
    """The client's memory while simulated verdicts pass through it."""
    print("\n| programs | seconds | client's processor time, µs each | its memory before, MB | at its peak, MB |")
    print("|---|---|---|---|---|")
    with cluster_of(2, 1) as (cluster, _), cluster.pool(verification_settings()) as pool:
        text = "E1 = step.Map(fn=fn_double).apply(E0)\n" * 8
        list(pool.map(simulated, range(1000), itertools.repeat(text)))
        for count in counts:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            texts = (f"# {number}\n{text}" for number in range(count))

            def judged(count: int = count, texts: Iterator[str] = texts) -> None:
                wrong = sum(1 for verdict in pool.map(simulated, range(count), texts) if not verdict.passed)
                if wrong != count:
                    raise RuntimeError(f"{wrong} verdicts of {count}")

            spent = time.process_time()
            took = seconds(judged)
            spent = 1e6 * (time.process_time() - spent) / count
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            print(f"| {count:,} | {took:,.1f} | {spent:,.0f} | {before / 1024:,.0f} | {peak / 1024:,.0f} |", flush=True)


def loss(count: int, rounds: int) -> None:
    """What it costs that a node is killed midway."""
    work = calls(count)
    print("\n| three nodes of 1 | seconds |\n|---|---|")
    for killed in (False, True):
        taken = []
        for _ in range(rounds):
            with cluster_of(3, 1) as (cluster, processes), cluster.pool(verification_settings()) as pool:
                judge_all(pool, work[:208] * 3)
                start = time.perf_counter()
                futures = [pool.submit(judge_uncached, *call) for call in work]
                eventually(lambda futures=futures: sum(each.done() for each in futures) > count // 3, "a third")  # type: ignore[misc]
                if killed:
                    processes.nodes[0].kill()
                for future in futures:
                    future.result()
                taken.append(time.perf_counter() - start)
        print(f"| {'one killed after a third' if killed else 'undisturbed'} | {median(taken):,.1f} |", flush=True)


def job(samples: int) -> None:
    """Seconds of the main job, on one core and on all, without and with a cluster."""
    print("\n| main job | cores | seconds |\n|---|---|---|")
    every = sorted(os.sched_getaffinity(0))
    for cores, options in itertools.product(
        (every[:1], every), ([], ["--cluster", "local:1"], ["--cluster", "local:2"])
    ):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "pipeline.compile", "--optimizer", "adaptive", "--json"]
            environment = {**os.environ, "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db"}

            def run(
                command: list[str] = [*command, "--samples", str(samples), *options],  # noqa: B006
                environment: dict[str, str] = environment,
                cores: list[int] = cores,
            ) -> None:
                subprocess.run(
                    ["taskset", "-c", ",".join(map(str, cores)), *command],
                    env=environment,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    check=True,
                )

            took = seconds(run)
        print(f"| {' '.join(options) or 'without a cluster'} | {len(cores)} | {took:,.0f} |", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=PARTS, metavar="PART", help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--count", type=int, default=2080, help="verdicts a turn (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="turns that each takes (default: %(default)s)")
    parser.add_argument("--programs", type=int, nargs="+", default=[10**4, 10**5, 10**6], help="for `memory`")
    parser.add_argument("--samples", type=int, default=8, help="of the main job (default: %(default)s)")
    options = parser.parse_args(arguments)
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}", flush=True)
    tables: dict[str, Callable[[], None]] = {
        "rates": lambda: rates(options.count, options.rounds),
        "overhead": lambda: overhead(10 * options.count, options.rounds),
        "memory": lambda: memory(options.programs),
        "loss": lambda: loss(options.count, options.rounds),
        "job": lambda: job(options.samples),
    }
    for part in options.parts:
        if part not in tables:
            parser.error(f"no part {part!r}; expected {', '.join(PARTS)}")
        tables[part]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
