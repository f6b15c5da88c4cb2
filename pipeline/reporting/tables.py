"""The tables of a report, as data frames that are written unchanged to CSV; shares are from 0 to 1.

`frame` has one row an attempt, `results` one a task: counts, scores by class and by group are groupbys of these. If the
paper's tables put runs side by side, the CSV files have one row for each. Runs with one label, the seeds of a method,
are one in what is a groupby.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from optimizers import Attempt
from pipeline.base.files import write_text
from pipeline.charts.plots import title
from pipeline.record.task_table import failed_at
from pipeline.reporting import pass_rates
from pipeline.reporting.pass_rates import OUTCOMES, RIGHT, UNKNOWN
from pipeline.reporting.runs import RecordedRun

OPTIONS = ("optimizer", "lm", "guardian", "granularity", "samples", "temperatures", "seed")
CSV_ONLY = {"name", "run_id", "started", *OPTIONS, "tokens_prompt", "tokens_completion"} - {"samples"}
"""Columns of the table of runs that the page leaves out."""
RATES = ("pass_at_1", "pass_at_8", "pass_at_n")
MODES = {"Arith": ("A1", "AR"), "Shape": ("S1", "SR"), "All": ("A1", "S1", "AR", "SR")}
USES = {"Once": ("A1", "S1"), "Reuse": ("AR", "SR"), "Both": ("A1", "S1", "AR", "SR")}


def of(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Plain cells by column; whole numbers stay whole beside blanks."""
    return pd.DataFrame(list(rows), dtype=object)


def write(table: pd.DataFrame, path: Path) -> None:
    """Writes the table as CSV; unknown values are empty cells, and what spreadsheets would compute is quoted."""
    rows = [[_plain(cell) for cell in row] for row in table.itertuples(index=False, name=None)]
    plain = pd.DataFrame(rows, columns=table.columns, dtype=object)
    write_text(path, plain.to_csv(index=False, lineterminator="\n"))


def _plain(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: a name that looks like one begins with an apostrophe."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


def frame(recorded: Sequence[RecordedRun]) -> pd.DataFrame:
    """One row per attempt, in the algorithm's order; one that is not scored is unknown, or has no outcome."""

    def outcome(attempt: Attempt) -> str | None:
        if attempt.scored:
            return RIGHT if attempt.passed else failed_at(attempt)
        return UNKNOWN if attempt.unknown else None

    return pd.DataFrame(
        [
            (
                run.label,
                a.task_key,
                it.index + 1,
                title(it.index, it.label),
                a.temperature,
                a.scored,
                a.passed,
                outcome(a),
            )
            for run in recorded
            for it in run.iterations
            for a in it.attempts
        ],
        columns=["run", "task", "iteration", "label", "temperature", "scored", "passed", "outcome"],
    )


def results(recorded: Sequence[RecordedRun]) -> pd.DataFrame:
    """One row per run and task: its group, its class if that is known, and its score."""
    return pd.DataFrame([
        {
            "run": run.label, "group": pass_rates.group_of(name), "class": pass_rates.classes_in(run.language)(name),
            **asdict(pass_rates.score([name], run.counts)),
        }
        for run in recorded for name in run.tasks
    ])  # fmt: skip


def scores(recorded: Sequence[RecordedRun], by: str) -> pd.DataFrame:
    """The score of each `group`, or `class`, of tasks in each run; tasks without a class are omitted."""
    found = results(recorded).groupby(["run", by], sort=False, as_index=False)
    return found.agg({"tasks": "sum", "solved": "sum", **dict.fromkeys(RATES, "mean")})


def runs(recorded: Sequence[RecordedRun]) -> pd.DataFrame:
    """How each run was made, and its results; the page shows all columns but `CSV_ONLY`."""
    return of(
        {
            "run": run.label, "name": run.name, "run_id": run.run_id, "status": run.status,
            "started": run.started.isoformat(" ", "minutes"), **{name: run.params.get(name) for name in OPTIONS},
            **asdict(run.score), "iterations": len(run.iterations), "answers": run.answers,
            "prompt_tokens_per_task": run.iterations[-1].prompt_per_task,
            "tokens_prompt": run.tokens.prompt, "tokens_completion": run.tokens.completion,
        }
        for run in recorded
    )  # fmt: skip


def learning(recorded: Sequence[RecordedRun]) -> pd.DataFrame:
    """The learning curves (paper, Figures 7, 8 and 11), one row per iteration."""
    return of(
        {
            "run": run.label, "granularity": run.params.get("granularity"), "iteration": it.index + 1,
            "label": title(it.index, it.label), "prompt_tokens_per_task": it.prompt_per_task, "new": len(it.solved),
            **asdict(it.score),
        }
        for run in recorded for it in run.iterations
    )  # fmt: skip


def pass_at_k(recorded: Sequence[RecordedRun]) -> pd.DataFrame:
    """pass@k over k at the end of each run (paper, Figure 9)."""
    rows = [
        (run.label, k, value) for run in recorded for k, value in enumerate(run.pass_at_k(run.iterations[-1]), start=1)
    ]
    return pd.DataFrame(rows, columns=["run", "k", "pass_at_k"])


def tasks_by_iteration(recorded: Sequence[RecordedRun]) -> pd.DataFrame:
    """The right answers of each task in each iteration that sampled it, at the best temperature there."""
    found = frame(recorded).query("scored")
    place = ["run", "task", "iteration", "label"]
    counts = found.groupby([*place, "temperature"], sort=False)["passed"].agg(correct="sum", samples="size")
    counts = counts.reset_index().astype({"correct": int})
    best = (counts["correct"] / counts["samples"]).groupby([counts[name] for name in place], sort=False).idxmax()
    return counts.loc[best, [*place, "correct", "samples", "temperature"]]


def outcomes(recorded: Sequence[RecordedRun]) -> pd.DataFrame:
    """The answers of each iteration by outcome: right, or the stage at which they fail, and those not judged."""
    found = frame(recorded)
    counts = pd.get_dummies(found["outcome"], dtype=int).groupby([found["run"], found["label"]], sort=False).sum()
    stages = dict.fromkeys([*OUTCOMES[1:], *(set(counts.columns) - {*OUTCOMES, UNKNOWN})])
    counts = counts.reindex(columns=[RIGHT, *stages, UNKNOWN], fill_value=0)
    counts = counts.rename(columns={stage: f"fails at {stage}" for stage in stages})  # one of these is called `run`
    return counts.rename_axis(index=["run", "iteration"], columns=None).reset_index()


def diversity(recorded: Sequence[RecordedRun]) -> pd.DataFrame:
    """Distinct syntax trees per answer (paper, Table 1), of the first iteration and, if there are more, of all."""
    rows = []
    for run in recorded:
        first = run.iterations[0]
        parts = [(title(first.index, first.label), list(first.attempts), first.score)]
        if len(run.iterations) > 1:
            parts.append(("all iterations", run.attempts, run.score))
        for name, attempts, score in parts:
            shares = pass_rates.diversity(attempts, run.tasks, run.language)
            rows.append({
                "run": run.label, "answers of": name, "answers": sum(attempt.scored for attempt in attempts),
                **{f"{kind} diversity": share for kind, share in shares.items()}, "pass_at_n": score.pass_at_n,
            })  # fmt: skip
    return of(rows)


def class_layout(recorded: Sequence[RecordedRun]) -> pd.DataFrame:
    """The paper's Table 2: arithmetic or shape tasks, streams used once or reused; pass@n as solved of tasks."""
    found = results(recorded)

    def cell(run: str, classes: set[str], metric: str) -> float | str | None:
        own = found[(found["run"] == run) & found["class"].isin(classes)]
        if own.empty:
            return None
        return own["pass_at_1"].mean() if metric == "pass@1" else f"{own['solved'].sum()}/{len(own)}"

    return of(
        {"mode": mode, "metric": metric, "run": run}
        | {use: cell(run, {*rows} & {*columns}, metric) for use, columns in USES.items()}
        for mode, rows in MODES.items()
        for metric in ("pass@1", "pass@n")
        for run in found["run"].unique()
    )


def group_layout(recorded: Sequence[RecordedRun]) -> pd.DataFrame:
    """The paper's Table 4: groups side by side, and all tasks together."""
    names = dict.fromkeys(name for run in recorded for name in run.tasks)
    groups = list(dict.fromkeys(map(pass_rates.group_of, pass_rates.in_group_order(names))))
    means = results(recorded).groupby(["run", "group"])[list(RATES)].mean()
    rows = [
        (run.label, shown, *(means[rate].get((run.label, group)) for group in groups), getattr(run.score, rate))
        for run in recorded
        for rate, shown in (("pass_at_1", "pass@1"), ("pass_at_n", f"pass@{run.samples}"))
    ]
    return pd.DataFrame(rows, columns=["run", "metric", *groups, "all"], dtype=object)


def tasks(recorded: Sequence[RecordedRun]) -> pd.DataFrame:
    """The result of each task in each run, and its program."""
    rows = []
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
    return of(rows)
