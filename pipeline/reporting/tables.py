"""The tables of a report: each a head and rows of plain values, written as they stand to CSV.

Shares are from 0 to 1. The paper's tables put runs beside each other where the CSV files have a row each.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.charts.curves import pass_at_k_curve, title
from pipeline.reporting import measures
from pipeline.reporting.measures import Score
from pipeline.reporting.runs import RecordedRun

Cell = str | int | float | None
Row = tuple[Cell, ...]

SCORE = ("tasks", "solved", "pass_at_1", "pass_at_8", "pass_at_n")
MODES = {"Arith": ("A1", "AR"), "Shape": ("S1", "SR"), "All": ("A1", "S1", "AR", "SR")}
USES = {"Once": ("A1", "S1"), "Reuse": ("AR", "SR"), "Both": ("A1", "S1", "AR", "SR")}


@dataclass(frozen=True)
class Table:
    """A table; each row has a cell for every column of the head."""

    head: tuple[str, ...]
    rows: tuple[Row, ...]

    def write(self, path: Path) -> None:
        """Writes it as CSV; what is not known is an empty cell."""
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(self.head)
            writer.writerows(self.rows)


def runs(recorded: Sequence[RecordedRun]) -> Table:
    """How each run was made and how it ended."""
    options = ("optimizer", "lm", "guardian", "granularity", "samples", "temperatures", "seed")
    tail = (*SCORE, "iterations", "answers", "prompt_tokens_per_task", "tokens_prompt", "tokens_completion")
    rows = []
    for run in recorded:
        tokens = run.tokens
        rows.append((
            run.label, run.name, run.run_id, run.status, run.started.isoformat(" ", "minutes"),
            *(run.params.get(option) for option in options), *_cells(run.score), len(run.iterations),
            sum(attempt.scored for attempt in run.attempts), run.iterations[-1].prompt_per_task,
            tokens.prompt, tokens.completion,
        ))  # fmt: skip
    return Table(("run", "name", "run_id", "status", "started", *options, *tail), tuple(rows))


def learning(recorded: Sequence[RecordedRun]) -> Table:
    """The learning curves (paper, Figures 7, 8 and 11), a row an iteration."""
    head = ("run", "granularity", "iteration", "label", "prompt_tokens_per_task", "new", *SCORE)
    rows = [
        (
            run.label, run.params.get("granularity"), it.index + 1, title(it.index, it.label),
            it.prompt_per_task, len(it.solved), *_cells(it.score),
        )
        for run in recorded for it in run.iterations
    ]  # fmt: skip
    return Table(head, tuple(rows))


def pass_at_k(recorded: Sequence[RecordedRun]) -> Table:
    """pass@k over k (paper, Figure 9)."""
    rows = [
        (run.label, k, value)
        for run in recorded
        for k, value in enumerate(pass_at_k_curve(list(run.counts.values()), len(run.tasks), run.samples), start=1)
    ]
    return Table(("run", "k", "pass_at_k"), tuple(rows))


def diversity(recorded: Sequence[RecordedRun]) -> Table:
    """Distinct syntax trees per answer (paper, Table 1), of the first iteration and, where there are more, of all."""
    rows = []
    for run in recorded:
        parts = [(title(run.iterations[0].index, run.iterations[0].label), list(run.iterations[0].attempts))]
        scores = [run.iterations[0].score.pass_at_n, run.score.pass_at_n]
        if len(run.iterations) > 1:
            parts.append(("all iterations", run.attempts))
        for (name, attempts), solved in zip(parts, scores, strict=False):
            d = measures.diversity(attempts, run.inputs)
            answers = sum(attempt.scored for attempt in attempts)
            rows.append((run.label, name, answers, d.success, d.failure, d.overall, solved))
    head = ("run", "answers of", "answers", "success diversity", "failure diversity", "overall diversity", "pass_at_n")
    return Table(head, tuple(rows))


def by_class(recorded: Sequence[RecordedRun]) -> Table:
    """Scores by class, a row a run and class; tasks of no known class are left out."""
    return Table(("run", "class", *SCORE), tuple(_rows_by(recorded, measures.class_of)))


def by_group(recorded: Sequence[RecordedRun]) -> Table:
    """Scores by group, a row a run and group."""
    return Table(("run", "group", *SCORE), tuple(_rows_by(recorded, measures.group_of)))


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
    groups = list(dict.fromkeys(map(measures.group_of, measures.in_group_order(names))))
    rows: list[Row] = []
    for run in recorded:
        scores = measures.scores_by(measures.group_of, run.tasks, run.counts)
        cells = [scores.get(group) for group in groups] + [run.score]
        rows.append((run.label, "pass@1", *(s.pass_at_1 if s else None for s in cells)))
        rows.append((run.label, f"pass@{run.samples}", *(s.pass_at_n if s else None for s in cells)))
    return Table(("run", "metric", *groups, "all"), tuple(rows))


def tasks(recorded: Sequence[RecordedRun]) -> Table:
    """How each task fared in each run, and the program it was solved by."""
    rows: list[Row] = []
    for run in recorded:
        solved_in = run.solved_in
        for name in run.tasks:
            count = run.counts.get(name)
            cells = (count.successes, count.samples, count.temperature) if count else (0, None, None)
            place = solved_in[name] + 1 if name in solved_in else None
            kind = measures.class_of(name)
            rows.append((run.label, measures.group_of(name), name, kind, *cells, place, run.programs.get(name)))
    head = ("run", "group", "task", "class", "correct", "samples", "temperature", "solved_in_iteration", "program")
    return Table(head, tuple(rows))


def _rows_by(recorded: Sequence[RecordedRun], label: measures.Label) -> list[Row]:
    return [
        (run.label, key, *_cells(score))
        for run in recorded
        for key, score in measures.scores_by(label, run.tasks, run.counts).items()
    ]


def _by_classes(run: RecordedRun, classes: set[str]) -> Score | None:
    names = [name for name in run.tasks if measures.class_of(name) in classes]
    return measures.score(names, run.counts) if names else None


def _shown(score: Score | None, metric: str) -> Cell:
    if score is None:
        return None
    return score.pass_at_1 if metric == "pass@1" else f"{score.solved}/{score.tasks}"


def _cells(score: Score) -> Row:
    return score.tasks, score.solved, score.pass_at_1, score.pass_at_8, score.pass_at_n
