"""The search and the embedded LM on every task: solved tasks and seconds.

The search has one core and a process of its own for each task. The embedded LM answers without demonstrations at
temperature 0.7 until an answer is right; figures are medians over several runs with different seeds, and include the
verification of its answers. Seconds are processor time of one thread. `wall` is the search's time by the clock, which
means little on a busy machine.

How to run: python -m benchmarks.synthesis (some minutes; --sets,
--seconds, --runs 0 for the search alone, --tasks)
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence

import torch

from benchmarks.proposing import Desk, Judge, tasks_in
from pipeline.lms.embedded import engine_named
from pipeline.synthesis import SearchBudget, SearchOutcome
from pipeline.synthesis.parallel_search import search_all
from pipeline.verification.pool import LocalWorkers
from step_runtime.tasks.task import Task

SAMPLES = 64
TEMPERATURE = 0.7
_FOLDERS = ("tasks", "tasks-extra", "tasks-modern", "tasks-formats", "tasks-field", "tasks-layers")
_SEARCH = ("task", "search", "seconds", "wall", "candidates", "primitives")
_EMBEDDED = ("embedded: answers", "seconds")


def first_right(desk: Desk, task: Task, run: int) -> tuple[int | None, float]:
    """Answers up to the first right one (None if there is none among the first 64), and the seconds they took."""
    start = time.process_time()
    judge = Judge()
    prompt = desk.prompt(task)
    for number in range(1, SAMPLES + 1):
        answer = desk.sample(prompt, SAMPLES * run + number, TEMPERATURE)
        if judge.passes(task, answer):
            return number, time.process_time() - start
    return None, time.process_time() - start


def median_answer(answers: Sequence[tuple[int | None, float]]) -> int:
    """The median over runs of the first right answer's number; more than 64 for none."""
    return statistics.median_low([SAMPLES + 1 if number is None else number for number, _ in answers])


def row(task: Task, outcome: SearchOutcome, answers: Sequence[tuple[int | None, float]]) -> str:
    """A task's row in the table."""
    cells = [
        task.name,
        "solved" if outcome.impl else str(outcome.reason),
        f"{outcome.processor:.1f}",
        f"{outcome.seconds:.1f}",
        f"{outcome.candidates:,}",
        str(outcome.length or ""),
    ]
    if answers:
        median = median_answer(answers)
        cells.append(f"{median}" if median <= SAMPLES else f"none of {SAMPLES}")
        cells.append(f"{statistics.median(seconds for _, seconds in answers):.2f}")
    return f"| {' | '.join(cells)} |"


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the table, task by task, and a summary."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.synthesis", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--seconds", type=float, default=600.0, help="wall clock, for each search (default: %(default)g)"
    )
    parser.add_argument("--runs", type=int, default=5, help="of the proposer, for each task (default: %(default)s)")
    parser.add_argument("--sets", nargs="+", choices=_FOLDERS, default=_FOLDERS, help="folders of data/ (default: all)")
    parser.add_argument("--tasks", default="", help="only tasks whose names begin so")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    desk = Desk(engine_named("embedded"))
    for folder in args.sets:
        tasks = [task for task in tasks_in(folder) if task.name.startswith(args.tasks)]
        columns = (*_SEARCH, *_EMBEDDED) if args.runs else _SEARCH
        print(f"\ndata/{folder}\n\n| {' | '.join(columns)} |\n{'|---' * len(columns)}|", flush=True)
        # All searches first, so that none has to share its core with the proposer.
        outcomes = [outcome for _, outcome in search_all(tasks, SearchBudget(seconds=args.seconds), LocalWorkers(1))]
        solved = 0
        for task, outcome in zip(tasks, outcomes, strict=True):
            answers = [first_right(desk, task, run) for run in range(args.runs)]
            solved += bool(answers) and median_answer(answers) <= SAMPLES
            print(row(task, outcome, answers), flush=True)
        found = [outcome.processor for outcome in outcomes if outcome.impl]
        within = ", ".join(f"{sum(seconds <= limit for seconds in found)} within {limit} s" for limit in (1, 10, 60))
        embedded = f"; embedded, {SAMPLES} answers: {solved} of {len(tasks)}" if args.runs else ""
        print(f"\nsearch: {len(found)} of {len(tasks)} ({within}){embedded}")


if __name__ == "__main__":
    main()
