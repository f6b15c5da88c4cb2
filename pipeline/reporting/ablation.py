"""The paper's ablation for the LMs at hand: its Tables 1 and 2 and Figures 2, 9, 12 and 13 on one page, with CSV files.

A method is a way to ask: without the structural IR and without a guardian, without a guardian, with both, and with
learning on top. The first three are sampled once over all tasks, at one temperature; only the last learns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from optimizers import TokenCount
from pipeline.charts.plots import COLOURS, DOTS_PER_INCH
from pipeline.reporting import figures, measures, tables
from pipeline.reporting.measures import Score
from pipeline.reporting.page import PAGE, Shown, show, template
from pipeline.reporting.runs import RecordedRun

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BARE, SINGLE, AGENT, ADAPTIVE = "Single-WS", "Single", "Agent", "Agent, adaptive"
METHODS = (BARE, SINGLE, AGENT, ADAPTIVE)
SAMPLED = (BARE, SINGLE, AGENT)
"""The methods that don't learn (paper, Section 6.2)."""
COMPARED = (SINGLE, AGENT, ADAPTIVE)
"""Those of the paper's Figure 2."""
COLOUR = dict(zip(METHODS, COLOURS, strict=False))


@dataclass(frozen=True)
class Study:
    """What an LM's runs came to, by method; those of one study have the same tasks.

    Raises:
        ValueError: a method is missing.
    """

    model: str
    runs: Mapping[str, RecordedRun]

    def __post_init__(self) -> None:
        if set(self.runs) != set(METHODS):
            raise ValueError(f"{self.model}: expected runs of {', '.join(METHODS)}, found {', '.join(self.runs)}")

    def named(self, methods: Sequence[str]) -> list[RecordedRun]:
        """The runs of some methods, labelled by them."""
        return [replace(self.runs[method], label=method) for method in methods]


@dataclass(frozen=True)
class Section:
    """What the page shows of one LM."""

    model: str
    overview: Shown
    diversity: Shown
    classes: Shown
    pass_at_k: str
    groups: str


def write(studies: Sequence[Study], folder: Path) -> list[str]:
    """Writes the page and all its files into a folder that exists, and gives their names, the page's first.

    Args:
        studies: at least one; models differ.
        folder: files of an earlier page in it are replaced.

    Raises:
        OSError: a file can't be written.
    """
    written = {
        "methods": _each(studies, overview),
        "table1_diversity": _each(studies, diversity),
        "table2_classes": _each(studies, classes),
        "figure2_completed": _each(studies, completed),
        "figure9_pass_at_k": _each(studies, lambda study: tables.pass_at_k(study.named(SAMPLED))),
        "figure12_models": _each(studies, lambda study: tables.by_group(study.named([AGENT]))),
        "figure13_groups": _each(studies, lambda study: tables.by_group(study.named(SAMPLED))),
    }
    for name, table in written.items():
        table.write(folder / f"{name}.csv")
    sections = [_section(study, number, len(studies), folder) for number, study in enumerate(studies, start=1)]
    pictures = ["figure2_completed.png", "figure12_models.png"]
    draw_completed(studies, folder / pictures[0])
    draw_groups({study.model: study.runs[AGENT] for study in studies}, folder / pictures[1])
    runs = [run for study in studies for run in study.runs.values()]
    text = template("ablation").render(
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        sections=sections,
        studies=studies,
        n=figures.samples(runs),
        temperature=studies[0].runs[AGENT].params.get("temperatures"),
        unclassed=[name for name in runs[0].tasks if measures.class_of(name) is None],
    )
    (folder / PAGE).write_text(text, encoding="utf-8")
    drawn = [name for section in sections for name in (section.pass_at_k, section.groups)]
    return [PAGE, *(f"{name}.csv" for name in written), *pictures, *drawn]


def overview(study: Study) -> tables.Table:
    """How each method was asked, how it ended, and what it took."""
    rows: list[tables.Row] = []
    for method in METHODS:
        run = study.runs[method]
        tokens = TokenCount.sum(iteration.tokens for iteration in run.iterations)
        spent = tokens.input + tokens.completion + tokens.cached_completion
        rows.append((
            method, run.params.get("guardian"), run.params.get("temperatures"), run.score.solved, run.score.tasks,
            run.score.pass_at_1, run.score.pass_at_n, tokens.input, spent,
            round(spent / run.score.solved) if run.score.solved else None,
            sum(attempt.scored for attempt in run.attempts), run.run_id,
        ))  # fmt: skip
    head = ("method", "guardian", "temperatures", "solved", "tasks", "pass_at_1", "pass_at_n")
    return tables.Table((*head, "tokens in", "tokens", "tokens per solved task", "answers", "run"), tuple(rows))


def diversity(study: Study) -> tables.Table:
    """Table 1: diversity of the answers beside pass@n, by the methods that don't learn."""
    rows: list[tables.Row] = []
    for method in SAMPLED:
        run = study.runs[method]
        found = measures.diversity(run.attempts, run.inputs)
        rows.append((method, found.success, found.failure, found.overall, run.score.pass_at_n))
    head = ("method", "success diversity", "failure diversity", "overall diversity", "pass_at_n")
    return tables.Table(head, tuple(rows))


def classes(study: Study) -> tables.Table:
    """Table 2: arithmetic and shape tasks, streams used once and reused, without and with the guardian."""
    table = tables.class_layout(study.named([SINGLE, AGENT]))
    return tables.Table(("mode", "metric", "method", *table.head[3:]), table.rows)


def completed(study: Study) -> tables.Table:
    """Figure 2: the share of tasks that have a right answer."""
    rows = tuple((method, study.runs[method].score.pass_at_n) for method in COMPARED)
    return tables.Table(("method", "pass_at_n"), rows)


def draw_completed(studies: Sequence[Study], path: Path) -> None:
    """Figure 2 as a PNG: a group of bars an LM, a bar a method."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(6.0, 2.2 * len(studies) + 3.0), 4.5), dpi=DOTS_PER_INCH, layout="constrained")
    axes = figure.add_subplot()
    values = {method: [study.runs[method].score.pass_at_n for study in studies] for method in COMPARED}
    _bars(axes, [study.model for study in studies], values, COLOUR)
    runs = [study.runs[method] for study in studies for method in COMPARED]
    axes.set_ylabel(f"pass@{figures.samples(runs)} (% of tasks)", fontsize=13)
    figure.legend(loc="outside lower center", ncols=len(COMPARED), fontsize=12, frameon=False)
    figure.savefig(path)


def draw_groups(runs: Mapping[str, RecordedRun], path: Path) -> None:
    """Figures 12 and 13 as a PNG: pass@1 and pass@n, a group of bars a group of tasks, a bar a run."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, 7.5), dpi=DOTS_PER_INCH, layout="constrained")
    panels = figure.subplots(2, 1)
    scored = {label: measures.scores_by(measures.group_of, run.tasks, run.counts) for label, run in runs.items()}
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
    figure.savefig(path)


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
    axes.set_ylim(0, 112)
    axes.set_yticks(range(0, 101, 20))
    axes.tick_params(labelsize=12)
    axes.grid(axis="y", color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _section(study: Study, number: int, of: int, folder: Path) -> Section:
    ending = f"_{number}" if of > 1 else ""
    section = Section(
        model=study.model,
        overview=show(_without_run(overview(study)), 3),
        diversity=show(diversity(study), 1),
        classes=show(classes(study), 3),
        pass_at_k=f"figure9_pass_at_k{ending}.png",
        groups=f"figure13_groups{ending}.png",
    )
    figures.pass_at_k(study.named(SAMPLED), folder / section.pass_at_k)
    draw_groups({method: study.runs[method] for method in SAMPLED}, folder / section.groups)
    return section


def _without_run(table: tables.Table) -> tables.Table:
    """Without the last column, the runs' long ids."""
    return tables.Table(table.head[:-1], tuple(row[:-1] for row in table.rows))


def _each(studies: Sequence[Study], make: Callable[[Study], tables.Table]) -> tables.Table:
    """One table of all LMs, whose names are its first column."""
    made = {study.model: make(study) for study in studies}
    head = next(iter(made.values())).head
    rows = tuple((model, *row) for model, table in made.items() for row in table.rows)
    return tables.Table(("lm", *head), rows)
