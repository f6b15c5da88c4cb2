"""The tables of a report: each a head and rows of plain values, written unchanged to CSV.

Shares are from 0 to 1. If the paper's tables put runs side by side, the CSV files have one row for each.

`Table` is hand-written: pandas would replace 30 lines, but is untyped and mutable, and turns integers in columns with
blanks into floats.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path

from optimizers import Attempt
from pipeline.base.files import write_text
from pipeline.charts.plots import title
from pipeline.reporting import pass_rates
from pipeline.reporting.figures import pass_at_k_at
from pipeline.reporting.pass_rates import Score
from pipeline.reporting.runs import RecordedRun

Cell = str | int | float | None
Row = tuple[Cell, ...]

OPTIONS = ("optimizer", "lm", "guardian", "granularity", "samples", "temperatures", "seed")
CSV_ONLY = {"name", "run_id", "started", *OPTIONS, "tokens_prompt", "tokens_completion"} - {"samples"}
"""Columns of the table of runs that the page leaves out."""
SCORE = ("tasks", "solved", "pass_at_1", "pass_at_8", "pass_at_n")
MODES = {"Arith": ("A1", "AR"), "Shape": ("S1", "SR"), "All": ("A1", "S1", "AR", "SR")}
USES = {"Once": ("A1", "S1"), "Reuse": ("AR", "SR"), "Both": ("A1", "S1", "AR", "SR")}


@dataclass(frozen=True)
class Table:
    """A table; each row has a cell for every column of the head."""

    head: tuple[str, ...]
    rows: tuple[Row, ...]

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Cell]]) -> Table:
        """The table of at least one row, each a cell by column; all rows have the same columns."""
        return cls(tuple(rows[0]), tuple(tuple(row.values()) for row in rows))

    def select(self, names: Sequence[str]) -> Table:
        """The table with these columns only, in this order."""
        places = [self.head.index(name) for name in names]
        return Table(tuple(names), tuple(tuple(row[place] for place in places) for row in self.rows))

    def drop(self, name: str) -> Table:
        """The table without a column."""
        return self.select([other for other in self.head if other != name])

    def write(self, path: Path) -> None:
        """Writes the table as CSV; unknown values are empty cells, and what spreadsheets would compute is quoted."""
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.head)
        writer.writerows(map(_plain, row) for row in self.rows)
        write_text(path, text.getvalue())


def _plain(cell: Cell) -> Cell:
    """A cell that no spreadsheet takes for a formula: a name that looks like one begins with an apostrophe."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


def runs(recorded: Sequence[RecordedRun]) -> Table:
    """How each run was made, and its results; the page shows all columns but `CSV_ONLY`."""
    return Table.of([
        {
            "run": run.label, "name": run.name, "run_id": run.run_id, "status": run.status,
            "started": run.started.isoformat(" ", "minutes"), **{name: run.params.get(name) for name in OPTIONS},
            **asdict(run.score), "iterations": len(run.iterations), "answers": run.answers,
            "prompt_tokens_per_task": run.iterations[-1].prompt_per_task,
            "tokens_prompt": run.tokens.prompt, "tokens_completion": run.tokens.completion,
        }
        for run in recorded
    ])  # fmt: skip


def learning(recorded: Sequence[RecordedRun]) -> Table:
    """The learning curves (paper, Figures 7, 8 and 11), one row per iteration."""
    return Table.of([
        {
            "run": run.label, "granularity": run.params.get("granularity"), "iteration": it.index + 1,
            "label": title(it.index, it.label), "prompt_tokens_per_task": it.prompt_per_task, "new": len(it.solved),
            **asdict(it.score),
        }
        for run in recorded for it in run.iterations
    ])  # fmt: skip


def pass_at_k(recorded: Sequence[RecordedRun]) -> Table:
    """pass@k over k (paper, Figure 9)."""
    rows = [
        (run.label, k, value)
        for run in recorded
        for k, value in enumerate(pass_at_k_at(run, run.iterations[-1]), start=1)
    ]
    return Table(("run", "k", "pass_at_k"), tuple(rows))


def pass_at_k_by_iteration(recorded: Sequence[RecordedRun]) -> Table:
    """pass@k over k at the end of each iteration."""
    rows = [
        (run.label, it.index + 1, title(it.index, it.label), k, value)
        for run in recorded for it in run.iterations
        for k, value in enumerate(pass_at_k_at(run, it), start=1)
    ]  # fmt: skip
    return Table(("run", "iteration", "label", "k", "pass_at_k"), tuple(rows))


def tasks_by_iteration(recorded: Sequence[RecordedRun]) -> Table:
    """The right answers of each task in each iteration that sampled it, at the best temperature there."""
    rows: list[dict[str, Cell]] = [
        {
            "run": run.label, "task": name, "iteration": it.index + 1, "label": title(it.index, it.label),
            "correct": count.successes, "samples": count.samples, "temperature": count.temperature,
        }
        for run in recorded for it in run.iterations for name, count in pass_rates.best_counts(it.attempts).items()
    ]  # fmt: skip
    return Table.of(rows) if rows else Table(("run", "task", "iteration"), ())


def demonstrations(recorded: Sequence[RecordedRun]) -> Table:
    """The demonstrations of each iteration, and how they differ from those of the iteration before."""
    rows: list[dict[str, Cell]] = []
    for run in recorded:
        before: tuple[str, ...] = ()
        for it in run.iterations:
            added, dropped = [n for n in it.demos if n not in before], [n for n in before if n not in it.demos]
            rows.append({
                "run": run.label, "iteration": title(it.index, it.label), "added": ", ".join(added) or None,
                "dropped": ", ".join(dropped) or None, "kept": len(it.demos) - len(added),
                "demonstrations": len(it.demos), "newly solved": len(it.solved),
            })  # fmt: skip
            before = it.demos
    return Table.of(rows)


def outcomes(recorded: Sequence[RecordedRun]) -> Table:
    """The answers of each iteration by outcome: right, or the stage at which they fail."""
    rows: list[dict[str, Cell]] = []
    for run in recorded:
        for it in run.iterations:
            right, *failed = pass_rates.outcomes(it.attempts).items()
            stages = {f"fails at {stage}": count for stage, count in failed}  # one of the stages is called `run`
            unknown = {pass_rates.UNKNOWN: sum(attempt.unknown for attempt in it.attempts)}
            row: dict[str, Cell] = {"run": run.label, "iteration": title(it.index, it.label), right[0]: right[1]}
            rows.append({**row, **stages, **unknown})
    return Table.of(rows)


def diversity(recorded: Sequence[RecordedRun]) -> Table:
    """Distinct syntax trees per answer (paper, Table 1), of the first iteration and, if there are more, of all."""
    rows: list[dict[str, Cell]] = []
    for run in recorded:
        first = run.iterations[0]
        parts = [(title(first.index, first.label), list(first.attempts), first.score)]
        if len(run.iterations) > 1:
            parts.append(("all iterations", run.attempts, run.score))
        for name, attempts, score in parts:
            answers = sum(attempt.scored for attempt in attempts)
            shares = diversity_cells(attempts, run)
            rows.append({
                "run": run.label, "answers of": name, "answers": answers, **shares, "pass_at_n": score.pass_at_n
            })  # fmt: skip
    return Table.of(rows)


def diversity_cells(attempts: Sequence[Attempt], run: RecordedRun) -> dict[str, Cell]:
    """The diversity of some attempts of a run, by column."""
    shares = asdict(pass_rates.diversity(attempts, run.tasks, run.language))
    return {f"{kind} diversity": share for kind, share in shares.items()}


def by_class(recorded: Sequence[RecordedRun]) -> Table:
    """Scores by class, one row per run and class; tasks without a known class are omitted."""
    return Table(("run", "class", *SCORE), tuple(_rows_by(recorded, lambda run: pass_rates.classes_in(run.language))))


def by_group(recorded: Sequence[RecordedRun]) -> Table:
    """Scores by group, one row per run and group."""
    return Table(("run", "group", *SCORE), tuple(_rows_by(recorded, lambda run: pass_rates.group_of)))


def class_layout(recorded: Sequence[RecordedRun]) -> Table:
    """The paper's Table 2: arithmetic or shape tasks, streams used once or reused; pass@n as solved of tasks."""
    rows: list[Row] = []
    for mode, rows_of in MODES.items():
        for metric in ("pass@1", "pass@n"):
            for run in recorded:
                cells = [_by_classes(run, set(rows_of) & set(columns)) for columns in USES.values()]
                rows.append((mode, metric, run.label, *(_shown(score, metric) for score in cells)))
    return Table(("mode", "metric", "run", *USES), tuple(rows))


def group_layout(recorded: Sequence[RecordedRun]) -> Table:
    """The paper's Table 4: groups side by side, and all tasks together."""
    names = dict.fromkeys(name for run in recorded for name in run.tasks)
    groups = list(dict.fromkeys(map(pass_rates.group_of, pass_rates.in_group_order(names))))
    rows: list[Row] = []
    for run in recorded:
        scores = pass_rates.scores_by(pass_rates.group_of, run.tasks, run.counts)
        cells = [scores.get(group) for group in groups] + [run.score]
        rows.append((run.label, "pass@1", *(s.pass_at_1 if s else None for s in cells)))
        rows.append((run.label, f"pass@{run.samples}", *(s.pass_at_n if s else None for s in cells)))
    return Table(("run", "metric", *groups, "all"), tuple(rows))


def tasks(recorded: Sequence[RecordedRun]) -> Table:
    """The result of each task in each run, and its program."""
    rows: list[dict[str, Cell]] = []
    for run in recorded:
        solved_in = run.solved_in
        for name in run.tasks:
            count = run.counts.get(name)
            rows.append({
                "run": run.label, "group": pass_rates.group_of(name), "task": name,
                "class": pass_rates.classes_in(run.language)(name),
                "correct": count.successes if count else 0, "samples": count.samples if count else None,
                "temperature": count.temperature if count else None,
                "solved_in_iteration": solved_in[name] + 1 if name in solved_in else None,
                "program": run.programs.get(name),
            })  # fmt: skip
    return Table.of(rows)


def _rows_by(recorded: Sequence[RecordedRun], label_in: Callable[[RecordedRun], pass_rates.Label]) -> list[Row]:
    return [
        (run.label, key, *astuple(score))
        for run in recorded
        for key, score in pass_rates.scores_by(label_in(run), run.tasks, run.counts).items()
    ]


def _by_classes(run: RecordedRun, classes: set[str]) -> Score | None:
    names = [name for name in run.tasks if pass_rates.classes_in(run.language)(name) in classes]
    return pass_rates.score(names, run.counts) if names else None


def _shown(score: Score | None, metric: str) -> Cell:
    if score is None:
        return None
    return score.pass_at_1 if metric == "pass@1" else f"{score.solved}/{score.tasks}"
