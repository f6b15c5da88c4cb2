"""The paper's ablation for the LMs at hand: its Tables 1 and 2 and Figures 2, 7, 8, 9, 12 and 13, with CSV files.

The methods that do not learn are sampled once over all tasks, at one temperature. Figures and tables are means over the
seeds; learning curves are those of the first seed. Runs are labelled with their methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from optimizers import TokenCount
from pipeline.charts import plots
from pipeline.charts.plots import Panel, Points
from pipeline.reporting import page, pass_rates, tables
from pipeline.reporting.runs import RecordedRun

BARE, SINGLE, AGENT = "Single-WS", "Single", "Agent"
SAMPLED = (BARE, SINGLE, AGENT)
"""The methods that do not learn (paper, Section 6.2)."""
RESAMPLED, ADAPTIVE = "Agent, resampled", "Agent, adaptive"
LEVELS = {m: ADAPTIVE if m == 3 else f"{ADAPTIVE}, m = {m}" for m in (1, 2, 3, 5)}
"""Learning by the number of levels of difficulty (paper, Figure 8)."""
COMPARED = (SINGLE, AGENT, RESAMPLED, ADAPTIVE)
"""The methods in the paper's Figure 2, and the control."""
Runs = Sequence[RecordedRun]
"""The runs of one LM on the same tasks, method by method, each with its seeds in order."""


def write(models: Mapping[str, Runs], tests: pd.DataFrame, folder: Path) -> list[str]:
    """Writes the page and all its files to an existing folder; returns the names of the files, the page's first.

    `tests` has the differences of methods; files of an earlier page in the folder are replaced.

    Raises:
        OSError: A file cannot be written.
    """

    def each(make: Callable[[Runs], pd.DataFrame], methods: Iterable[str]) -> pd.DataFrame:
        own = {lm: make(_of(runs, methods)) for lm, runs in models.items()}
        return pd.concat(own, names=["lm"]).droplevel(1).reset_index()

    learners = tuple(LEVELS.values())
    methods = each(_overview, (*SAMPLED, RESAMPLED, *learners))
    shares = methods.set_index(["lm", "method"])["pass_at_n"].astype(float).groupby(level=[0, 1], sort=False).mean()
    completed = shares[shares.index.isin(COMPARED, level="method")].reset_index()
    written = {
        "methods": methods,
        "tests": tests,
        "table1_diversity": each(_diversity, SAMPLED),
        "table2_classes": each(tables.class_layout, (SINGLE, AGENT)).rename(columns={"run": "method"}),
        "figure2_completed": completed,
        "figure8_granularity": each(tables.learning, learners),
        "figure9_pass_at_k": each(_pass_at_k, SAMPLED),
        "figure12_models": each(lambda runs: tables.scores(runs, "group"), [AGENT]),
        "figure13_groups": each(lambda runs: tables.scores(runs, "group"), SAMPLED),
    }
    sections = [
        {"lm": lm, **_section(runs, folder, f"_{number}.svg" if len(models) > 1 else ".svg")}
        for number, (lm, runs) in enumerate(models.items(), start=1)
    ]
    everything = [run for runs in models.values() for run in runs]
    n, first = page.samples(_of(everything, [AGENT])), everything[0]
    bars: dict[str, Points] = {
        method: [(place, 100 * shares[lm, method]) for place, lm in enumerate(models)] for method in COMPARED
    }
    panel = Panel(bars, f"pass@{n} (% of tasks)", kind="bar", names=list(models))
    size = (max(6.0, 2.2 * len(models) + 3.0), 4.5)
    plots.plot(folder / "figure2_completed.svg", panel, size=size, order=(BARE, *COMPARED))
    _draw_groups({lm: _of(runs, [AGENT]) for lm, runs in models.items()}, folder / "figure12_models.svg")
    own = [file for section in sections for file in section.values() if str(file).endswith(".svg")]
    return page.finish(
        folder,
        written,
        ["figure2_completed.svg", "figure12_models.svg", *own],
        title=f"Ablation on {', '.join(models)}",
        sections=sections,
        tests=tests,
        n=n,
        temperature=_of(everything, [AGENT])[0].params.get("temperatures"),
        unclassed=[name for name in first.tasks if pass_rates.classes_in(first.language)(name) is None],
    )


def _section(runs: Runs, folder: Path, ending: str) -> dict[str, Any]:
    """The tables of one LM, and the names of its pictures, which this draws."""
    pictures = {name: f"{name}{ending}" for name in ("figure7_learning", "figure8_granularity", "figure9_pass_at_k")}
    pictures["figure13_groups"] = f"figure13_groups{ending}"
    first = {run.label: run for run in reversed(runs)}
    learner = first[ADAPTIVE]
    names = [plots.title(it.index, it.label) for it in learner.iterations]
    curve = plots.learning_panel({ADAPTIVE: page.points(learner)}, learner.samples, names)
    plots.plot(folder / pictures["figure7_learning"], curve)
    _draw_granularity([first[method] for method in LEVELS.values()], folder / pictures["figure8_granularity"])
    sampled = {method: _of(runs, [method]) for method in SAMPLED if method in first}
    at_k = {method: _pass_at_k(own)["pass_at_k"].tolist() for method, own in sampled.items()}
    plots.draw_pass_at_k(at_k, folder / pictures["figure9_pass_at_k"])
    _draw_groups(sampled, folder / pictures["figure13_groups"])
    return {
        "overview": _means(_overview(runs), ["method", "guardian", "temperatures"]),
        "diversity": _means(_diversity(_of(runs, SAMPLED)), ["method"]),
        "classes": tables.class_layout(_of(runs, [SINGLE, AGENT])).rename(columns={"run": "method"}),
        **pictures,
    }


def _of(runs: Runs, methods: Iterable[str]) -> Runs:
    return [run for method in methods for run in runs if run.label == method]


def _means(table: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Means over the seeds, with None for what is unknown."""
    numbers = table.drop(columns=["seed", "run"], errors="ignore").infer_objects()
    means = numbers.groupby(list(by), sort=False, dropna=False).mean(numeric_only=True).reset_index()
    return means.astype(object).where(means.notna(), None)


def _overview(runs: Runs) -> pd.DataFrame:
    """How each method was sampled, its results, and its tokens."""
    rows = []
    for run in runs:
        tokens = TokenCount.sum(iteration.tokens for iteration in run.iterations)
        spent = tokens.input + tokens.completion + tokens.cached_completion
        rows.append({
            "method": run.label, "guardian": run.params.get("guardian"), "temperatures": run.params.get("temperatures"),
            "solved": run.score.solved, "tasks": run.score.tasks, "pass_at_1": run.score.pass_at_1,
            "pass_at_n": run.score.pass_at_n, "tokens in": tokens.input, "tokens": spent,
            "tokens per solved task": round(spent / run.score.solved) if run.score.solved else None,
            "answers": run.answers, "seed": run.params.get("seed"), "run": run.run_id,
        })  # fmt: skip
    return tables.of(rows)


def _diversity(runs: Runs) -> pd.DataFrame:
    """Table 1: diversity of the answers and pass@n of the methods that do not learn; shares from 0 to 1."""
    return tables.diversity(runs).rename(columns={"run": "method"}).drop(columns=["answers of"])


def _pass_at_k(runs: Runs) -> pd.DataFrame:
    return tables.pass_at_k(runs).groupby(["run", "k"], sort=False, as_index=False)["pass_at_k"].mean()


def _draw_granularity(alike: Sequence[RecordedRun], path: Path) -> None:
    """Figure 8: learning curves by granularity, and the end of each."""
    runs = {f"m = {run.params['granularity']}": run for run in alike}
    tokens = {m: run.iterations[-1].prompt_per_task for m, run in runs.items()}
    solved: dict[str, Points] = {m: [(0, 100 * run.score.pass_at_n)] for m, run in runs.items()}
    spent: dict[str, Points] = {m: [(0, value)] for m, value in tokens.items()}
    plots.plot(
        path,
        plots.learning_panel({m: page.points(run) for m, run in runs.items()}, page.samples(alike)),
        Panel(solved, f"pass@{page.samples(alike)} at the end (%)", kind="bar", names=[""], width=0.4),
        Panel(spent, "prompt tokens per task", kind="bar", names=[""], top=max(tokens.values()), width=0.4),
        size=(12.0, 5.0),
    )


def _draw_groups(shown: Mapping[str, Runs], path: Path) -> None:
    """Figures 12 and 13 as a picture: pass@1 and pass@n, one group of bars per group of tasks, one bar per name."""
    panels, n = [], page.samples([run for runs in shown.values() for run in runs])
    for rate, metric in (("pass_at_1", "pass@1"), ("pass_at_n", f"pass@{n}")):
        found = {name: tables.scores(runs, "group").set_index("group")[rate] for name, runs in shown.items()}
        groups = pass_rates.in_group_order(dict.fromkeys(group for own in found.values() for group in own.index))
        bars: dict[str, Points] = {
            name: [(place, 100 * own.get(group, 0.0)) for place, group in enumerate(groups)]
            for name, own in found.items()
        }
        panels.append(Panel(bars, f"{metric} (%)", kind="bar", names=groups))
    plots.plot(path, *panels, size=(11.0, 7.5), rows=2)
