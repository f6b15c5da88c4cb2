"""One HTML page with its pictures and CSV files in a folder; it needs nothing else and can be opened as a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import jinja2
from pygments import highlight  # type: ignore[import-untyped]
from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
from pygments.lexers import PythonLexer  # type: ignore[import-untyped]

from pipeline.base.files import write_text
from pipeline.charts.plots import title
from pipeline.reporting import figures, pass_rates, tables
from pipeline.reporting.runs import RecordedRun

PAGE = "index.html"
PASS_AT_K = "pass_at_k.svg"
_CODE = HtmlFormatter(nowrap=True, style="friendly")
_DARK_CODE = HtmlFormatter(nowrap=True, style="github-dark")


@dataclass(frozen=True)
class PageTable:
    """A table on a page; its first `texts` columns are texts, the others numbers."""

    head: tuple[str, ...]
    rows: tuple[tables.Row, ...]
    texts: int


@dataclass(frozen=True)
class Pictures:
    """The files of the pictures.

    Attributes:
        compared: The learning curves of all runs, unless a picture by granularity shows them all.
        granularity: The learning curves of runs that differ only in granularity.
    """

    curves: dict[str, str]
    compared: str | None
    granularity: list[str]
    by_iteration: dict[str, str]
    outcomes: dict[str, str]

    @property
    def files(self) -> list[str]:
        """The files of all pictures, each as SVG and as PNG."""
        of_runs = [*self.curves.values(), *self.by_iteration.values(), *self.outcomes.values()]
        drawn = [*of_runs, PASS_AT_K, *([self.compared] if self.compared else []), *self.granularity]
        return [name for svg in drawn for name in (svg, f"{svg.removesuffix('.svg')}.png")]


@dataclass(frozen=True)
class HeatCell:
    """A task in an iteration: right answers of all, at the best temperature; both 0 if it was not sampled."""

    right: int = 0
    samples: int = 0
    newly_solved: bool = False

    @property
    def share(self) -> float:
        """The share of right answers, from 0 to 1."""
        return self.right / self.samples if self.samples else 0.0


@dataclass(frozen=True)
class HeatMap:
    """Tasks by iterations: the iterations' titles, and a row of cells for each task."""

    run: str
    titles: tuple[str, ...]
    rows: tuple[tuple[str, tuple[HeatCell, ...]], ...]


@dataclass(frozen=True)
class TaskEntry:
    """A task on the page: its class, its result in each run, and each program, as HTML, with the labels of its runs."""

    name: str
    program_class: str | None
    results: tuple[str, ...]
    programs: tuple[tuple[tuple[str, ...], str], ...]


def write(runs: Sequence[RecordedRun], folder: Path) -> list[str]:
    """Writes the page of at least one run and all its files to an existing folder; returns their names, the page first.

    Files of an earlier report in the folder are replaced.

    Raises:
        OSError: A file cannot be written.
    """
    written = {
        "runs": tables.runs(runs),
        "learning_curve": tables.learning(runs),
        "pass_at_k": tables.pass_at_k(runs),
        "pass_at_k_iterations": tables.pass_at_k_by_iteration(runs),
        "tasks_iterations": tables.tasks_by_iteration(runs),
        "demonstrations": tables.demonstrations(runs),
        "outcomes": tables.outcomes(runs),
        "table1_diversity": tables.diversity(runs),
        "table2_classes": tables.by_class(runs),
        "table4_groups": tables.by_group(runs),
        "tasks": tables.tasks(runs),
    }
    for name, table in written.items():
        table.write(folder / f"{name}.csv")
    pictures = _draw(runs, folder)
    several = len(runs) > 1

    def on_page(table: tables.Table, texts: int) -> PageTable:
        """Leaves out the column of runs if there is only one."""
        return page_table(table, texts) if several else page_table(table.drop("run"), texts - 1)

    text = template("page").render(
        title=f"Report on {len(runs)} runs" if several else f"Report on {runs[0].name}",
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        code_css=_CODE.get_style_defs("pre"),
        dark_code_css=_DARK_CODE.get_style_defs("pre"),
        runs=runs,
        overview=_overview(written["runs"]),
        remarks=remarks(runs),
        heat_maps=[heat_map(run) for run in runs],
        demonstrations=on_page(written["demonstrations"], 4),
        outcomes=on_page(written["outcomes"], 2),
        diversity=on_page(written["table1_diversity"], 2),
        classes=on_page(tables.class_layout(runs), 3),
        groups=on_page(tables.group_layout(runs), 2),
        unclassed=[name for name in _names(runs) if _class_of(runs, name) is None],
        tasks=list(_tasks(runs)),
        pictures=pictures,
    )
    write_text(folder / PAGE, text)
    return [PAGE, *(f"{name}.csv" for name in written), *pictures.files]


def _draw(runs: Sequence[RecordedRun], folder: Path) -> Pictures:
    """Makes the pictures: for several runs a learning curve each, and one of all."""
    curves = {}
    for number, run in enumerate(runs, start=1):
        if len(run.iterations) == 1:
            continue
        curves[run.label] = f"learning_curve_{number}.svg" if len(runs) > 1 else "learning_curve.svg"
        figures.learning_curve(run, folder / curves[run.label])
    figures.pass_at_k(runs, folder / PASS_AT_K)
    sets = figures.granularity_sets(runs)
    granularity = []
    for number, alike in enumerate(sets, start=1):
        granularity.append(f"granularity_{number}.svg" if len(sets) > 1 else "granularity.svg")
        figures.granularity(alike, folder / granularity[-1])
    compared = None
    if len(runs) > 1 and [len(alike) for alike in sets] != [len(runs)]:
        compared = "learning_curves.svg"
        figures.learning_curves(runs, folder / compared)
    by_iteration, outcomes = {}, {}
    for number, run in enumerate(runs, start=1):
        ending = f"_{number}" if len(runs) > 1 else ""
        outcomes[run.label] = f"outcomes{ending}.svg"
        figures.outcomes(run, folder / outcomes[run.label])
        if run.label in curves:
            by_iteration[run.label] = f"pass_at_k_iterations{ending}.svg"
            figures.pass_at_k_by_iteration(run, folder / by_iteration[run.label])
    return Pictures(curves, compared, granularity, by_iteration, outcomes)


def heat_map(run: RecordedRun) -> HeatMap:
    """The right answers of each task in each iteration."""
    found = [pass_rates.best_counts(it.attempts) for it in run.iterations]
    rows = []
    for name in run.tasks:
        cells = [
            HeatCell(best[name].successes, best[name].samples, name in it.solved) if name in best else HeatCell()
            for it, best in zip(run.iterations, found, strict=True)
        ]
        rows.append((name, tuple(cells)))
    return HeatMap(run.label, tuple(title(it.index, it.label) for it in run.iterations), tuple(rows))


def remarks(runs: Sequence[RecordedRun]) -> list[str]:
    """Warnings where the runs are not comparable or have few samples."""
    found = []
    tasks = _grouped(runs, lambda run: (tuple(run.tasks), run.params.get("task_set_digest")))
    if len(tasks) > 1:
        shared = len(set.intersection(*(set(run.tasks) for run in runs)))
        sets = "; ".join(f"{len(alike[0].tasks)} in {_labels(alike)}" for alike in tasks)
        found.append(f"The runs have different tasks: {sets}. Tasks in all of these runs: {shared}.")
    samples = _grouped(runs, lambda run: run.samples)
    if len(samples) > 1:
        numbers = "; ".join(f"{alike[0].samples} in {_labels(alike)}" for alike in samples)
        found.append(
            f"The runs have different numbers of samples per task and temperature, which is the n of pass@n: {numbers}."
        )
    if few := [run for run in runs if run.samples < 8]:
        found.append(f"Runs with fewer than 8 samples, whose pass@8 is over all samples: {_labels(few)}.")
    return found


def _grouped(runs: Sequence[RecordedRun], key: Callable[[RecordedRun], object]) -> list[list[RecordedRun]]:
    groups: dict[object, list[RecordedRun]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return list(groups.values())


def _labels(runs: Sequence[RecordedRun]) -> str:
    return " and ".join(run.label for run in runs) if len(runs) < 3 else f"{runs[0].label} and {len(runs) - 1} others"


def _overview(runs: tables.Table) -> PageTable:
    """The table of runs for the page, without their status if all have finished."""
    status = runs.head.index("status")
    finished = all(row[status] == "FINISHED" for row in runs.rows)
    table = runs.select([name for name in runs.head if name not in tables.CSV_ONLY])
    return page_table(table.drop("status"), 1) if finished else page_table(table, 2)


def _tasks(runs: Sequence[RecordedRun]) -> Iterator[tuple[str, list[TaskEntry]]]:
    """The tasks of all runs, by group."""
    groups: dict[str, list[TaskEntry]] = {}
    for name in _names(runs):
        programs: dict[str, list[str]] = {}
        for run in runs:
            if name in run.programs:
                programs.setdefault(run.programs[name].strip(), []).append(run.label)
        entry = TaskEntry(
            name,
            _class_of(runs, name),
            tuple(_result(run, name) for run in runs),
            tuple((tuple(labels), _code(program)) for program, labels in programs.items()),
        )
        groups.setdefault(pass_rates.group_of(name), []).append(entry)
    yield from groups.items()


def _class_of(runs: Sequence[RecordedRun], name: str) -> str | None:
    """A task's class in the language of the first run that has it."""
    run = next(run for run in runs if name in run.tasks)
    return pass_rates.classes_in(run.language)(name)


def _result(run: RecordedRun, name: str) -> str:
    """`3 of 64 at 0.7, iteration 2`."""
    if name not in run.tasks:
        return ""
    count = run.counts.get(name)
    if count is None:
        return "unsolved"
    index = run.solved_in.get(name)
    place = "in an earlier run" if index is None else f"iteration {index + 1}"
    return f"{count.successes} of {count.samples} at {count.temperature}, {place}"


def _names(runs: Sequence[RecordedRun]) -> list[str]:
    return pass_rates.in_group_order(dict.fromkeys(name for run in runs for name in run.tasks))


def page_table(table: tables.Table, texts: int) -> PageTable:
    """A table for a page, without leading texts, in its first `texts` columns, that only repeat the row above."""
    rows: list[tables.Row] = []
    above: tables.Row = (None,) * len(table.head)
    for row in table.rows:
        same = next((i for i in range(texts) if row[i] != above[i]), texts)
        rows.append((*[""] * same, *row[same:]))
        above = row
    return PageTable(table.head, tuple(rows), texts)


def _code(program: str) -> str:
    """The program as HTML, escaped."""
    return f"<pre>{highlight(program, PythonLexer(), _CODE)}</pre>"


def template(name: str) -> jinja2.Template:
    """The template of a page, from this package."""
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(f"{name}.html.jinja")
