"""How many candidates does each task take, by what is shown: nothing, other groups, all other tasks?

Without noise, a sample of the embedded LM depends on its dial alone: the table gives the smallest dial of a series that
makes a right program. Demonstrations are the tasks' oracles; the examples of the prompt are shown always. The last line
gives geometric means over the tasks that are solved in each column. Answers are made in this process.

How to run: python -m benchmarks.reach (two minutes)
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.proposing import DATA, Desk, Judge, tasks_in
from pipeline.lms.embedded import EmbeddedEngine
from pipeline.lms.embedded.answering import EmbeddedRequest, answer
from step_runtime.tasks.task import Task
from step_runtime.verification.loading import load_task

DIALS = (1, 2, 3, 4, 6, 8, 11, 16, 22, 32, 45, 64, 90, 128, 181, 256, 362, 512)
DESK = Desk(EmbeddedEngine())
Shown = Callable[[Task], list[tuple[Task, str]]]
"""The solved tasks that a task is shown."""


def reach(task: Task, shown: Shown, judge: Judge) -> int | None:
    """The smallest dial that solves a task without noise; None if none of the series does."""
    prompt = DESK.prompt(task, shown(task))
    asked = EmbeddedRequest(prompt.system, tuple((part.role, part.text or "") for part in prompt.messages), 0, 0.0)
    answers = ((dial, DESK.program(answer(dial, asked))) for dial in DIALS)
    return next((dial for dial, program in answers if judge.passes(task, program)), None)


def solved_below(folder: Path | None) -> list[tuple[Task, str]]:
    """The benchmark's tasks with their oracles, or a folder's, where the oracle of `NAME.yaml` is `NAME.step`."""
    if folder is None:
        return [(task, (DATA / "oracles" / f"{task.name}.step").read_text()) for task in tasks_in("tasks")]
    return [(load_task(path), path.with_suffix(".step").read_text()) for path in sorted(folder.rglob("*.yaml"))]


def arms_of(solved: list[tuple[Task, str]]) -> dict[str, Shown]:
    """What each arm shows a task; groups are the folders in the names of tasks."""

    def others(task: Task) -> list[tuple[Task, str]]:
        return [each for each in solved if each[0].name != task.name]

    def other_groups(task: Task) -> list[tuple[Task, str]]:
        return [each for each in others(task) if _group(each[0]) != _group(task)]

    return {"nothing": lambda task: [], "other groups": other_groups, "all others": others}


def _group(task: Task) -> str:
    return (task.name or "").partition("/")[0]


def main(arguments: list[str] | None = None) -> int:
    """Prints the table, a line for each task as it is done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", help="names of benchmark tasks; all by default")
    parser.add_argument("--folder", type=Path, help="tasks with their oracles beside them, in place of the benchmark")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    judge, found = Judge(), []
    solved = solved_below(options.folder)
    arms = arms_of(solved)
    if options.folder:
        del arms["other groups"]
    print(f"| task | {' | '.join(arms)} |\n|---|{'---|' * len(arms)}")
    for task, _ in solved:
        if options.tasks and task.name not in options.tasks:
            continue
        row = [reach(task, shown, judge) for shown in arms.values()]
        found.append(row)
        shown_row = " | ".join("more" if dial is None else str(dial) for dial in row)
        print(f"| `{task.name}` | {shown_row} |", flush=True)
    whole = [[dial for dial in row if dial is not None] for row in found if None not in row]
    if whole:
        means = (f"{statistics.geometric_mean(column):.1f}" for column in zip(*whole, strict=True))
        print(f"| geometric mean of {len(whole)} | {' | '.join(means)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
