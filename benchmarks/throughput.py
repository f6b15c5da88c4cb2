"""An iteration's wall time against a server that answers after a second, 64 requests at a time.

The whole command runs: all tasks at three temperatures, the oracle for an answer three times in four, verified and
recorded as usual. The server is `tests.support.lm_server`, in its own process. Its best possible time is
samples / slots seconds for each second of latency; the samples' processor time bounds what the machine can reach.

How to run: python -m benchmarks.throughput [--samples 16] [--slots 64] [--latency 1] [option of pipeline.compile]...
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.parts import Parts

ANSWERS = "STEP_BENCHMARK_ANSWERS"
LIMIT = 1.3


@cache
def _oracles() -> dict[str, str]:
    found: dict[str, str] = json.loads(Path(os.environ[ANSWERS]).read_text(encoding="utf-8"))
    return found


def answer(body: dict[str, Any], index: int) -> str:
    """The oracle of the task at the request's end, worded differently each time; one answer in four is wrong."""
    task, turn = body["messages"][-1]["content"], (body.get("seed") or 0) + index
    impl = next((oracle for mark, oracle in _oracles().items() if mark in task), "ready")
    if turn % 4 == 0:
        impl = "return E0"
    return f"[[ ## impl ## ]]\n# answer {turn}\n{impl}\n\n[[ ## completed ## ]]"


def write_oracles(path: Path) -> int:
    """Writes what `answer` reads; the number of tasks."""
    from signatures import render_task
    from tests.support.oracles import solved

    pairs = {render_task(task): text for task, text in solved()}
    path.write_text(json.dumps(pairs), encoding="utf-8")
    return len(pairs)


def measure(options: argparse.Namespace, extra: Sequence[str], folder: Path) -> int:
    """Runs the command, and prints its times."""
    os.environ[ANSWERS] = str(folder / "answers.json")
    os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
    os.environ["DSPY_CACHEDIR"] = str(folder / "cache")
    os.environ.setdefault("OPENAI_API_KEY", "none")
    from optimizers import run
    from pipeline import compile as command
    from tests.support.lm_server import Server

    count = write_oracles(folder / "answers.json")
    with Server(answers="benchmarks.throughput:answer", latency=options.latency, slots=options.slots) as server:
        asked = ["--optimizer", "none", "--lm", "openai/gpt-4o-mini", "--api-base", server.address]
        asked += ["--samples", str(options.samples), "--threads", str(options.slots)]
        parts = Parts(time.process_time)
        with parts.watching({"sampling": [(run, "_sample")]}):
            code = command.main([*asked, "-o", str(folder / "program.json"), *extra])
        own = parts.seconds["sampling"]
        stats, asked_for = server.stats(), server.requests()[1:]  # the first is the probe
    requests = [request for request in asked_for if request["status"] == 200]
    seconds = max(request["left"] for request in requests) - min(request["came"] for request in requests)
    best = len(requests) / options.slots * options.latency
    most, children = stats["most_at_once"], resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{count} tasks, {len(requests):,} requests, {stats['answers'] - 1:,} answers, {most} at once:\n"
        f"{seconds:.1f} s from the first to the last, {seconds / best:.2f} times the server's best of {best:.1f} s;\n"
        f"processor time: {1000 * own / len(requests):.1f} ms a request in the command, whose threads share one core,\n"
        f"so at most {len(requests) / own:,.0f} requests a second; {children.ru_utime + children.ru_stime:.1f} s in "
        f"the server and the verifiers; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    )
    return code or int(seconds > LIMIT * best)


def main(arguments: list[str] | None = None) -> int:
    """Prints the wall time and its ratio to the server's best; fails above 1.3."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=16, help="of a task and temperature (default: %(default)s)")
    parser.add_argument("--slots", type=int, default=64, help="requests at a time (default: %(default)s)")
    parser.add_argument("--latency", type=float, default=1.0, help="seconds an answer (default: %(default)s)")
    options, extra = parser.parse_known_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        return measure(options, extra, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
