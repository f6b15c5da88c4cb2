"""Layers solved by splitting: what each takes.

The sub-tasks of a task share its budget of candidates and seconds. Seconds are processor time of the searches; `wall`
is what passed meanwhile, which says little on a busy machine. `primitives` counts all but Copies.

How to run: python -m benchmarks.splitting (some minutes; --seconds, --candidates, --tasks, --json FILE)
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.proposing import tasks_in
from pipeline.base.files import write_text
from pipeline.splitting.split_search import SplitOutcome, split_all
from pipeline.synthesis import SearchBudget
from pipeline.verification.pool import LocalWorkers
from step_runtime.language.parser import parse
from step_runtime.primitives import Copy
from step_runtime.tasks.scope import static_scope
from step_runtime.tasks.task import Task
from step_runtime.verification.task_costs import TaskCosts

_COLUMNS = ("task", "split", "seconds", "wall", "candidates", "tried", "parts", "primitives", "memory", "time")


def figures(task: Task, outcome: SplitOutcome) -> dict[str, object]:
    """What a task took, and what its program costs on the default chip."""
    found: dict[str, object] = {
        "task": task.name,
        "split": "solved" if outcome.impl else f"no {', '.join(outcome.unsolved) or 'program'}",
        "seconds": round(outcome.processor, 1),
        "wall": round(outcome.seconds, 1),
        "candidates": outcome.candidates,
        "tried": len(outcome.attempts),
        "parts": [part.task.outputs[0].name for part in outcome.parts],
    }
    if outcome.impl is not None:
        program, _ = parse(outcome.impl, static_scope(task))
        costs = TaskCosts(task).price(outcome.impl).cost.figures()
        found["primitives"] = sum(not isinstance(node.op, Copy) for node in program.nodes)
        found |= {"memory": costs["memory"], "time": costs["time"]}
    return found


def row(found: dict[str, object]) -> str:
    """A task's row in the table."""
    parts = found["parts"]
    shown = found | {"parts": len(parts) if isinstance(parts, list) else 0}
    return f"| {' | '.join(str(shown.get(column, '')) for column in _COLUMNS)} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the table, task by task, and a summary."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.splitting", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=300.0, help="by the clock, for each (default: %(default)g)")
    parser.add_argument("--candidates", type=int, default=20_000_000, help="for each (default: %(default)s)")
    parser.add_argument("--set", default="tasks-layers", help="a folder of data/ (default: %(default)s)")
    parser.add_argument("--tasks", default="", help="only tasks whose names begin so")
    parser.add_argument("--json", type=Path, help="a file to which a line is added for each task")
    args = parser.parse_args(argv)
    tasks = [task for task in tasks_in(args.set) if task.name.startswith(args.tasks)]
    print(f"| {' | '.join(_COLUMNS)} |\n{'|---' * len(_COLUMNS)}|", flush=True)
    lines = args.json.read_text().splitlines() if args.json and args.json.exists() else []
    solved = candidates = 0
    for task, outcome in split_all(tasks, SearchBudget(args.seconds, args.candidates), LocalWorkers(1)):
        found = figures(task, outcome)
        solved, candidates = solved + (outcome.impl is not None), candidates + outcome.candidates
        print(row(found), flush=True)
        if args.json:
            lines.append(json.dumps(found))
            write_text(args.json, "\n".join(lines) + "\n")
    print(f"\nsplit: {solved} of {len(tasks)}, {candidates:,} candidates")


if __name__ == "__main__":
    main()
