"""How a run ended: a table for people, or one JSON object, on stdout."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from optimizers import Experience, TokenCount
from pipeline.base.paths import shown
from pipeline.record.metrics import counted

if TYPE_CHECKING:
    from optimizers import Entry


def as_json(experience: Experience, run_id: str, program: Path) -> dict[str, Any]:
    """The result for machines: `run_id`, `program` (its path), solved and unsolved tasks, and the run's figures."""
    tokens = TokenCount.sum(experience.tokens.values())
    return {
        "run_id": run_id,
        "program": str(program),
        "solved": list(experience.solved),
        "unsolved": list(experience.unsolved),
        "pass_at_1": experience.pass_at(1),
        "pass_at_n": experience.pass_at(),
        "iterations": len(experience.iterations),
        "tokens": {"prompt": tokens.prompt, "completion": tokens.completion, "cached": tokens.cached},
        "cost_usd": tokens.cost,
        "seconds": round(experience.seconds, 3),
        "stopped": experience.stopped,
        "message": experience.message,
    }


def print_summary(experience: Experience, run_name: str, program: Path, console: Console) -> None:
    """Prints which tasks are solved and how often, where the program lies, and how to look at the record."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("task")
    for heading in ("right answers", "temperature", "solved in iteration"):
        table.add_column(heading, justify="right")
    entries = {entry.task_key: entry for entry in experience.entries}
    for key in experience.tasks:
        table.add_row(key, *_cells(entries.get(key)))
    console.print()
    console.print(table)
    solved, total = len(experience.solved), len(experience.tasks)
    tokens = TokenCount.sum(experience.tokens.values())
    cost = "" if tokens.cost is None else f", {tokens.cost:.2f} USD"
    lines = [
        "",
        f"solved {solved} of {counted(total, 'task')} in {_duration(experience.seconds)}: {experience.message}",
        f"tokens   {tokens.prompt:,} in, {tokens.completion:,} out{cost}",
        f"program  {shown(program)}   (pipeline.load_program reads it)",
        f"record   the run {run_name!r}; to look at it: python -m pipeline.ui",
    ]
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _cells(entry: Entry | None) -> tuple[str, ...]:
    if entry is None:
        return "none", "", "unsolved"
    return f"{entry.successes} of {entry.samples}", f"{entry.temperature}", f"{entry.iteration + 1}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
