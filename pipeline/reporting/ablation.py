"""The paper's ablation for the LMs at hand: its Tables 1 and 2 and Figures 2, 9, 12 and 13 on one page, with CSV files.

The methods: without the structural IR and without a guardian, without a guardian, with both, and additionally with
learning. The first three are sampled once over all tasks, at one temperature; only the last learns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from matplotlib.axes import Axes

from optimizers import TokenCount
from pipeline.base.files import write_text
from pipeline.charts import plots
from pipeline.charts.plots import COLOURS, new_figure, style_axes
from pipeline.reporting import figures, pass_rates, tables
from pipeline.reporting.page import PAGE, PageTable, page_table, template
from pipeline.reporting.pass_rates import Score
from pipeline.reporting.runs import RecordedRun

BARE, SINGLE, AGENT, ADAPTIVE = "Single-WS", "Single", "Agent", "Agent, adaptive"
METHODS = (BARE, SINGLE, AGENT, ADAPTIVE)
SAMPLED = (BARE, SINGLE, AGENT)
"""The methods that do not learn (paper, Section 6.2)."""
COMPARED = (SINGLE, AGENT, ADAPTIVE)
"""The methods in the paper's Figure 2."""
COLOUR = dict(zip(METHODS, COLOURS, strict=False))


@dataclass(frozen=True)
class ModelRuns:
    """The runs of one LM, by method, all on the same tasks.

    Raises:
        ValueError: A method is missing.
    """

    name: str
    runs: Mapping[str, RecordedRun]

    def __post_init__(self) -> None:
        if set(self.runs) != set(METHODS):
            raise ValueError(f"{self.name}: expected runs of {', '.join(METHODS)}, found {', '.join(self.runs)}")

    def named(self, methods: Sequence[str]) -> list[RecordedRun]:
        """The runs of some methods, labelled with these."""
        return [replace(self.runs[method], label=method) for method in methods]


@dataclass(frozen=True)
class Section:
    """The part of the page on one LM."""

    model: str
    overview: PageTable
    diversity: PageTable
    classes: PageTable
    pass_at_k: str
    groups: str


def write(models: Sequence[ModelRuns], folder: Path) -> list[str]:
    """Writes the page and all its files to an existing folder; returns the names of the files, the page's first.

    Each of at least one LM has its runs once; files of an earlier page in the folder are replaced.

    Raises:
        OSError: A file cannot be written.
    """
    written = {
        "methods": _each(models, overview),
        "table1_diversity": _each(models, diversity),
        "table2_classes": _each(models, classes),
        "figure2_completed": _each(models, completed),
        "figure9_pass_at_k": _each(models, lambda model: tables.pass_at_k(model.named(SAMPLED))),
        "figure12_models": _each(models, lambda model: tables.by_group(model.named([AGENT]))),
        "figure13_groups": _each(models, lambda model: tables.by_group(model.named(SAMPLED))),
    }
    for name, table in written.items():
        table.write(folder / f"{name}.csv")
    sections = [_section(model, number, len(models), folder) for number, model in enumerate(models, start=1)]
    pictures = ["figure2_completed.svg", "figure12_models.svg"]
    draw_completed(models, folder / pictures[0])
    draw_groups({model.name: model.runs[AGENT] for model in models}, folder / pictures[1])
    runs = [run for model in models for run in model.runs.values()]
    text = template("ablation").render(
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        sections=sections,
        n=figures.samples(runs),
        temperature=models[0].runs[AGENT].params.get("temperatures"),
        unclassed=[name for name in runs[0].tasks if pass_rates.classes_in(runs[0].language)(name) is None],
    )
    write_text(folder / PAGE, text)
    plotted = [name for section in sections for name in (section.pass_at_k, section.groups)]
    drawn = [name for svg in (*pictures, *plotted) for name in (svg, f"{svg.removesuffix('.svg')}.png")]
    return [PAGE, *(f"{name}.csv" for name in written), *drawn]


def overview(model: ModelRuns) -> tables.Table:
    """How each method was sampled, its results, and its tokens."""
    rows: list[dict[str, tables.Cell]] = []
    for method in METHODS:
        run = model.runs[method]
        tokens = TokenCount.sum(iteration.tokens for iteration in run.iterations)
        spent = tokens.input + tokens.completion + tokens.cached_completion
        rows.append({
            "method": method, "guardian": run.params.get("guardian"), "temperatures": run.params.get("temperatures"),
            "solved": run.score.solved, "tasks": run.score.tasks, "pass_at_1": run.score.pass_at_1,
            "pass_at_n": run.score.pass_at_n, "tokens in": tokens.input, "tokens": spent,
            "tokens per solved task": round(spent / run.score.solved) if run.score.solved else None,
            "answers": run.answers, "run": run.run_id,
        })  # fmt: skip
    return tables.Table.of(rows)


def diversity(model: ModelRuns) -> tables.Table:
    """Table 1: diversity of the answers and pass@n of the methods that do not learn; shares from 0 to 1."""
    return tables.Table.of([
        {"method": run.label, **tables.diversity_cells(run.attempts, run), "pass_at_n": run.score.pass_at_n}
        for run in model.named(SAMPLED)
    ])  # fmt: skip


def classes(model: ModelRuns) -> tables.Table:
    """Table 2: arithmetic and shape tasks, streams used once and reused, without and with the guardian."""
    table = tables.class_layout(model.named([SINGLE, AGENT]))
    return tables.Table(("mode", "metric", "method", *table.head[3:]), table.rows)


def completed(model: ModelRuns) -> tables.Table:
    """Figure 2: the share of tasks with a correct answer."""
    rows = tuple((method, model.runs[method].score.pass_at_n) for method in COMPARED)
    return tables.Table(("method", "pass_at_n"), rows)


def draw_completed(models: Sequence[ModelRuns], path: Path) -> None:
    """Figure 2 as a picture: one group of bars per LM, one bar per method."""
    figure = new_figure((max(6.0, 2.2 * len(models) + 3.0), 4.5))
    axes = figure.add_subplot()
    values = {method: [model.runs[method].score.pass_at_n for model in models] for method in COMPARED}
    _bars(axes, [model.name for model in models], values, COLOUR)
    runs = [model.runs[method] for model in models for method in COMPARED]
    axes.set_ylabel(f"pass@{figures.samples(runs)} (% of tasks)", fontsize=13)
    figure.legend(loc="outside lower center", ncols=len(COMPARED), fontsize=12, frameon=False)
    plots.save(figure, path)


def draw_groups(runs: Mapping[str, RecordedRun], path: Path) -> None:
    """Figures 12 and 13 as a picture: pass@1 and pass@n, one group of bars per group of tasks, one bar per run."""
    figure = new_figure((11.0, 7.5))
    panels = figure.subplots(2, 1)
    scored = {label: pass_rates.scores_by(pass_rates.group_of, run.tasks, run.counts) for label, run in runs.items()}
    groups = list(dict.fromkeys(group for scores in scored.values() for group in scores))
    colours = {label: COLOUR.get(label, COLOURS[index % len(COLOURS)]) for index, label in enumerate(runs)}
    pick: Mapping[str, Callable[[Score], float]] = {
        "pass@1": lambda score: score.pass_at_1,
        f"pass@{figures.samples(list(runs.values()))}": lambda score: score.pass_at_n,
    }
    for number, (axes, (metric, value)) in enumerate(zip(panels, pick.items(), strict=True)):
        totals = {label: value(run.score) for label, run in runs.items()}
        values = {
            label: [*(value(scores[group]) if group in scores else 0.0 for group in groups), totals[label]]
            for label, scores in scored.items()
        }
        _bars(axes, [*groups, "all"], values, colours, legend=number == 0)
        axes.set_ylabel(f"{metric} (%)", fontsize=13)
    figure.legend(loc="outside lower center", ncols=max(1, min(5, len(runs))), fontsize=12, frameon=False)
    plots.save(figure, path)


def _bars(
    axes: Axes,
    groups: Sequence[str],
    values: Mapping[str, Sequence[float]],
    colours: Mapping[str, str],
    legend: bool = True,
) -> None:
    """Groups of bars with their heights, in percent; values are from 0 to 1."""
    width = 0.84 / len(values)
    for index, (name, heights) in enumerate(values.items()):
        places = [group - 0.42 + width * (index + 0.5) for group in range(len(groups))]
        percent = [100 * height for height in heights]
        bars = axes.bar(places, percent, width * 0.94, color=colours[name], label=name if legend else None)
        axes.bar_label(bars, [f"{height:.0f}" for height in percent], padding=2, fontsize=9)
    axes.set_xticks(range(len(groups)), groups)
    axes.set_xlim(-0.6, len(groups) - 0.4)
    style_axes(axes)
    axes.grid(visible=False, axis="x")
    axes.set_ylim(0, 112)


def _section(model: ModelRuns, number: int, of: int, folder: Path) -> Section:
    ending = f"_{number}" if of > 1 else ""
    section = Section(
        model=model.name,
        overview=page_table(overview(model).drop("run"), 3),
        diversity=page_table(diversity(model), 1),
        classes=page_table(classes(model), 3),
        pass_at_k=f"figure9_pass_at_k{ending}.svg",
        groups=f"figure13_groups{ending}.svg",
    )
    figures.pass_at_k(model.named(SAMPLED), folder / section.pass_at_k)
    draw_groups({method: model.runs[method] for method in SAMPLED}, folder / section.groups)
    return section


def _each(models: Sequence[ModelRuns], make: Callable[[ModelRuns], tables.Table]) -> tables.Table:
    """One table of all LMs, with their names in the first column."""
    made = {model.name: make(model) for model in models}
    head = next(iter(made.values())).head
    rows = tuple((name, *row) for name, table in made.items() for row in table.rows)
    return tables.Table(("lm", *head), rows)
