"""What layers cost: programs for the whole beside the fronts of programs that are composed of sub-tasks.

`written` is the hand-written program, `whole` the cheapest of what a search without splitting found and its rewrites,
`joined` the composed program, and `front` the cheapest of that program and its rewrites; each as bytes / cycles. The
same number of programs is priced for each.

How to run: python -m benchmarks.fronts SPLITS WHOLE [--svg FILE] (a minute; SPLITS is the folder of `--subtasks`, and
WHOLE that of `pipeline.generate --split never --format text -o`)
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.proposing import tasks_in
from pipeline.charts.plots import COLOURS, MARKERS, legend_below, new_figure, save
from pipeline.splitting.composing import compose
from pipeline.splitting.split_files import read_split
from step_runtime.cost.front import Figures, pareto_front
from step_runtime.rewriting.optimizing import rewritten
from step_runtime.tasks.task import SolvedTask, Task
from step_runtime.verification.task_costs import TaskCosts
from step_runtime.verification.verify import Verifier

PRICED = 200
_COLUMNS = ("written", "whole", "joined", "front")


def front_of(task: Task, text: str) -> list[Figures]:
    """The figures of a program and its rewrites that no other beats, the least memory first."""
    verifier = Verifier(task)
    found = rewritten(TaskCosts(task), text, "memory", PRICED)
    front = pareto_front(
        found, lambda each: each.cost.figures(), "memory", lambda each: verifier.verify(each.text).passed
    )
    return [each.cost.figures() for each in front]


def costs_of(task: Task, splits: Path, wholes: Path, written: Path) -> dict[str, Figures]:
    """The figures in each column, of those for which there is a program."""
    price = TaskCosts(task).price
    found: dict[str, Figures] = {"written": price(written.read_text(), formulas=False).cost.figures()}
    whole = wholes / f"{task.name}.step"
    if whole.exists():
        found["whole"] = front_of(task, whole.read_text())[0]
    solved = [part.solved() for part in read_split(splits, task).values()]
    parts = [part for part in solved if isinstance(part, SolvedTask)]
    if len(parts) == len(solved) > 0:
        text = compose(task, parts).text
        found |= {"joined": price(text, formulas=False).cost.figures(), "front": front_of(task, text)[0]}
    return found


def draw(rows: Mapping[str, Mapping[str, Figures]], path: Path) -> None:
    """The memory of each program in per cent of the hand-written one's."""
    figure = new_figure((8.0, 1.5 + 0.35 * len(rows)))
    axes = figure.add_subplot()
    for number, column in enumerate(_COLUMNS):
        places = [place for place, row in enumerate(rows.values()) if column in row]
        shares = [100 * row[column]["memory"] / row["written"]["memory"] for row in rows.values() if column in row]
        axes.scatter(shares, [place - 0.18 * (number - 1.5) for place in places], s=45, label=column,
                     marker=MARKERS[number], color=COLOURS[number])  # fmt: skip
    axes.set_yticks(range(len(rows)), [*rows])
    axes.set_xlim(0)
    axes.invert_yaxis()
    axes.set_xlabel("memory (% of the hand-written program)", fontsize=12)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    legend_below(figure, _COLUMNS)
    save(figure, path)


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the table, and draws the picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fronts", description=__doc__.partition("\n")[0])
    parser.add_argument("splits", type=Path)
    parser.add_argument("wholes", type=Path)
    parser.add_argument("--svg", type=Path)
    args = parser.parse_args(argv)
    print(f"| task | {' | '.join(_COLUMNS)} |\n|---{'|---' * len(_COLUMNS)}|", flush=True)
    rows = {}
    for task in tasks_in("tasks-layers"):
        found = costs_of(task, args.splits, args.wholes, Path("data/oracles-layers") / f"{task.name}.step")
        if "front" in found:
            rows[task.name] = found
            cells = [f"{found[c]['memory']:,} / {found[c]['time']:,}" if c in found else "" for c in _COLUMNS]
            print(f"| {task.name} | {' | '.join(cells)} |", flush=True)
    if args.svg:
        draw(rows, args.svg)


if __name__ == "__main__":
    main()
