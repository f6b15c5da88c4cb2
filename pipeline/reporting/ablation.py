"""The paper's ablation for the LMs at hand: its Tables 1 and 2 and Figures 2, 9, 12 and 13 on one page, with CSV files.

The methods: without the structural IR and without a guardian, without a guardian, with both, and additionally with
learning. The first three are sampled once over all tasks, at one temperature; only the last learns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from optimizers import TokenCount
from pipeline.charts import plots
from pipeline.charts.plots import Panel, Points
from pipeline.reporting import page, pass_rates, tables
from pipeline.reporting.runs import RecordedRun

BARE, SINGLE, AGENT, ADAPTIVE = "Single-WS", "Single", "Agent", "Agent, adaptive"
METHODS = (BARE, SINGLE, AGENT, ADAPTIVE)
SAMPLED = (BARE, SINGLE, AGENT)
"""The methods that do not learn (paper, Section 6.2)."""
COMPARED = (SINGLE, AGENT, ADAPTIVE)
"""The methods in the paper's Figure 2."""
Methods = Mapping[str, RecordedRun]
"""The runs of one LM, by method, all on the same tasks."""


def write(models: Mapping[str, Methods], folder: Path) -> list[str]:
    """Writes the page and all its files to an existing folder; returns the names of the files, the page's first.

    Each of at least one LM has its runs once; files of an earlier page in the folder are replaced.

    Raises:
        OSError: A file cannot be written.
    """

    def each(make: Callable[[Methods], pd.DataFrame]) -> pd.DataFrame:
        return pd.concat({lm: make(runs) for lm, runs in models.items()}, names=["lm"]).droplevel(1).reset_index()

    written = {
        "methods": each(overview),
        "table1_diversity": each(diversity),
        "table2_classes": each(classes),
        "figure2_completed": each(
            lambda runs: tables.of({"method": method, "pass_at_n": runs[method].score.pass_at_n} for method in COMPARED)
        ),
        "figure9_pass_at_k": each(lambda runs: tables.pass_at_k(_named(runs, SAMPLED))),
        "figure12_models": each(lambda runs: tables.scores(_named(runs, [AGENT]), "group")),
        "figure13_groups": each(lambda runs: tables.scores(_named(runs, SAMPLED), "group")),
    }
    sections: list[dict[str, Any]] = []
    for number, (lm, runs) in enumerate(models.items(), start=1):
        ending = f"_{number}.svg" if len(models) > 1 else ".svg"
        section = {
            "lm": lm,
            "overview": overview(runs).drop(columns="run"),
            "diversity": diversity(runs),
            "classes": classes(runs),
            "pass_at_k": f"figure9_pass_at_k{ending}",
            "groups": f"figure13_groups{ending}",
        }
        sampled = {run.label: run for run in _named(runs, SAMPLED)}
        at_k = {method: run.pass_at_k(run.iterations[-1]) for method, run in sampled.items()}
        plots.draw_pass_at_k(at_k, folder / str(section["pass_at_k"]))
        _draw_groups(sampled, folder / str(section["groups"]))
        sections.append(section)
    everything = [run for runs in models.values() for run in runs.values()]
    bars: dict[str, Points] = {
        method: [(place, 100 * runs[method].score.pass_at_n) for place, runs in enumerate(models.values())]
        for method in COMPARED
    }
    n = page.samples([runs[method] for runs in models.values() for method in COMPARED])
    completed = Panel(bars, f"pass@{n} (% of tasks)", kind="bar", names=list(models))
    size = (max(6.0, 2.2 * len(models) + 3.0), 4.5)
    plots.plot(folder / "figure2_completed.svg", completed, size=size, order=METHODS)
    _draw_groups({lm: runs[AGENT] for lm, runs in models.items()}, folder / "figure12_models.svg")
    pictures = ["figure2_completed.svg", "figure12_models.svg"]
    pictures += [section[name] for section in sections for name in ("pass_at_k", "groups")]
    first = everything[0]
    return page.finish(
        folder,
        written,
        pictures,
        title=f"Ablation on {', '.join(models)}",
        sections=sections,
        n=page.samples(everything),
        temperature=next(iter(models.values()))[AGENT].params.get("temperatures"),
        unclassed=[name for name in first.tasks if pass_rates.classes_in(first.language)(name) is None],
    )


def overview(runs: Methods) -> pd.DataFrame:
    """How each method was sampled, its results, and its tokens."""
    rows = []
    for run in _named(runs, METHODS):
        tokens = TokenCount.sum(iteration.tokens for iteration in run.iterations)
        spent = tokens.input + tokens.completion + tokens.cached_completion
        rows.append({
            "method": run.label, "guardian": run.params.get("guardian"), "temperatures": run.params.get("temperatures"),
            "solved": run.score.solved, "tasks": run.score.tasks, "pass_at_1": run.score.pass_at_1,
            "pass_at_n": run.score.pass_at_n, "tokens in": tokens.input, "tokens": spent,
            "tokens per solved task": round(spent / run.score.solved) if run.score.solved else None,
            "answers": run.answers, "run": run.run_id,
        })  # fmt: skip
    return tables.of(rows)


def diversity(runs: Methods) -> pd.DataFrame:
    """Table 1: diversity of the answers and pass@n of the methods that do not learn; shares from 0 to 1."""
    return tables.of(
        {"method": run.label, **tables.diversity_cells(run.attempts, run), "pass_at_n": run.score.pass_at_n}
        for run in _named(runs, SAMPLED)
    )


def classes(runs: Methods) -> pd.DataFrame:
    """Table 2: arithmetic and shape tasks, streams used once and reused, without and with the guardian."""
    return tables.class_layout(_named(runs, [SINGLE, AGENT])).rename(columns={"run": "method"})


def _named(runs: Methods, methods: Sequence[str]) -> list[RecordedRun]:
    """The runs of some methods, labelled with these, as far as the LM has them."""
    return [replace(runs[method], label=method) for method in methods if method in runs]


def _draw_groups(runs: Methods, path: Path) -> None:
    """Figures 12 and 13 as a picture: pass@1 and pass@n, one group of bars per group of tasks, one bar per run."""
    layout = tables.group_layout([replace(run, label=label) for label, run in runs.items()])
    groups = list(layout.columns[2:])
    panels = []
    for number, metric in enumerate(("pass@1", f"pass@{page.samples(list(runs.values()))}")):
        rows = layout.iloc[number::2].fillna(0.0).itertuples(index=False, name=None)
        bars: dict[str, Points] = {row[0]: [(place, 100 * y) for place, y in enumerate(row[2:])] for row in rows}
        panels.append(Panel(bars, f"{metric} (%)", kind="bar", names=groups))
    plots.plot(path, *panels, size=(11.0, 7.5), rows=2)
