"""Does a run learn to be cheap? Runs with `--objective` that show savings against runs that show nothing.

Both sample every task as often, solved or not. For each task that both solve: the cost of its best answer, as the
logarithm of the quotient, paired, with a 95 % interval over tasks; then the right answers' own room: the tasks whose
right answers differ in cost, and those whose shortest right answer is not the cheapest.

How to run: python -m benchmarks.objectives data/tasks --objective memory -o experiments/NAME/memory.json (minutes)
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.learning import interval
from pipeline.agent.domain import code_length
from pipeline.record import store
from pipeline.record.attempts import read_attempts
from pipeline.verification.task_files import load_tasks
from step_runtime.cost.chip import DEFAULT_CHIP
from step_runtime.verification.task_costs import TaskCosts

ARMS = ("savings", "resample")


def run(options: argparse.Namespace, selection: str, folder: str) -> tuple[Mapping[str, Any], dict[str, set[str]]]:
    """What a run prints, and the right programs of each task."""
    command = [sys.executable, "-m", "pipeline.compile", "--optimizer", "adaptive", "--selection", selection]
    command += ["--objective", options.objective, "--samples", str(options.samples), "--seed", str(options.seed)]
    command += ["--max-iterations", str(options.iterations), "--lm", options.lm, "--demo-tokens", "12000"]
    done = subprocess.run(
        [*command, "--json", "-o", f"{folder}/{selection}.json", "--tasks", *options.tasks],
        stdout=subprocess.PIPE,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"exit code {done.returncode}")
    result, right = json.loads(done.stdout), dict[str, set[str]]()
    for attempt in read_attempts(store.open_store()[0], result["run_id"]):
        if attempt.passed:
            right.setdefault(attempt.task_key, set()).add(str(attempt.outputs["impl"]))
    return result, right


def main() -> None:
    """Runs, prints and saves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="+")
    parser.add_argument("--objective", choices=("memory", "time", "traffic", "operations"), default="memory")
    parser.add_argument("--lm", default="embedded")
    parser.add_argument("--samples", type=int, default=8, help="at each of three temperatures, for each iteration")
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/runs.db"
        found = {selection: run(options, selection, folder) for selection in ARMS}
    shown, control = (found[selection][0]["costs"] for selection in ARMS)
    both = [name for name in shown if name in control]
    ratios = {name: math.log2((1 + shown[name]) / (1 + control[name])) for name in both}
    low, high = interval([*ratios.values()])
    print(f"solved: {len(shown)} with savings shown, {len(control)} with nothing shown, {len(both)} by both")
    print(f"log2 of the costs' quotient: mean {sum(ratios.values()) / len(both):+.4f} [{low:+.4f}, {high:+.4f}]")
    print(f"cheaper: {sum(each < 0 for each in ratios.values())}, dearer: {sum(each > 0 for each in ratios.values())}")
    rows = {}
    for task in load_tasks(options.tasks):
        texts = sorted(set().union(*(right.get(str(task.name), set()) for _, right in found.values())))
        costs = TaskCosts(task, DEFAULT_CHIP)
        priced = {text: costs.price(text, costs.sizes({})).cost.figure(options.objective) for text in texts}
        if priced:
            shortest = min(texts, key=code_length)
            rows[str(task.name)] = min(priced.values()), max(priced.values()), priced[shortest]
    differ = [name for name, (least, most, _) in rows.items() if least < most]
    dearer = [name for name, (least, _, shortest) in rows.items() if least < shortest]
    print(f"right answers differ in {options.objective} for {len(differ)} of {len(rows)} tasks: {', '.join(differ)}")
    print(f"the shortest is not the cheapest for {len(dearer)}: {', '.join(dearer)}")
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        content = {"objective": options.objective, "shown": shown, "control": control, "answers": rows}
        options.output.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
