"""One HTML page with its pictures and CSV files in a folder; it needs nothing else and opens from a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import jinja2
from pygments import highlight  # type: ignore[import-untyped]
from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
from pygments.lexers import PythonLexer  # type: ignore[import-untyped]

from pipeline.reporting import figures, measures, tables
from pipeline.reporting.runs import RecordedRun

PAGE = "index.html"
PASS_AT_K = "pass_at_k.png"
OVERVIEW = (
    "run", "status", "tasks", "samples", "solved", "pass_at_1", "pass_at_8", "pass_at_n", "iterations", "answers",
    "prompt_tokens_per_task",
)  # fmt: skip
_CODE = HtmlFormatter(nowrap=True, style="friendly")


@dataclass(frozen=True)
class Shown:
    """A table as the page shows it; its first `texts` columns are texts, the others numbers."""

    head: tuple[str, ...]
    rows: tuple[tables.Row, ...]
    texts: int


@dataclass(frozen=True)
class Pictures:
    """The pictures' files: a learning curve a run; all runs' together, unless a picture by granularity has them all.

    A run of one iteration, a mere point, has no curve of its own.
    """

    curves: dict[str, str]
    compared: str | None
    granularity: list[str]

    @property
    def files(self) -> list[str]:
        """All of them."""
        return [*self.curves.values(), PASS_AT_K, *([self.compared] if self.compared else []), *self.granularity]


@dataclass(frozen=True)
class TaskEntry:
    """A task on the page: how it fared in each run, and each program, as HTML, with the runs that it is of."""

    name: str
    kind: str | None
    fared: tuple[str, ...]
    programs: tuple[tuple[tuple[str, ...], str], ...]


def write(runs: Sequence[RecordedRun], folder: Path) -> list[str]:
    """Writes the page and all its files into a folder that exists, and gives their names, the page's first.

    Args:
        runs: at least one.
        folder: files of an earlier report in it are replaced.

    Raises:
        OSError: a file can't be written.
    """
    written = {
        "runs": tables.runs(runs),
        "learning_curve": tables.learning(runs),
        "pass_at_k": tables.pass_at_k(runs),
        "table1_diversity": tables.diversity(runs),
        "table2_classes": tables.by_class(runs),
        "table4_groups": tables.by_group(runs),
        "tasks": tables.tasks(runs),
    }
    for name, table in written.items():
        table.write(folder / f"{name}.csv")
    pictures = _draw(runs, folder)
    several = len(runs) > 1

    def shown(table: tables.Table, texts: int) -> Shown:
        """The table as the page shows it: without its column of runs where there is only one."""
        return show(table, texts) if several else show(_without(table, "run"), texts - 1)

    text = template("page").render(
        title=_title(runs),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        code_css=_CODE.get_style_defs("pre"),
        runs=runs,
        overview=_overview(written["runs"]),
        remarks=remarks(runs),
        diversity=shown(written["table1_diversity"], 2),
        classes=shown(tables.class_layout(runs), 3),
        groups=shown(tables.group_layout(runs), 2),
        unclassed=[name for name in _names(runs) if measures.class_of(name) is None],
        tasks=list(_tasks(runs)),
        pictures=pictures,
    )
    (folder / PAGE).write_text(text, encoding="utf-8")
    return [PAGE, *(f"{name}.csv" for name in written), *pictures.files]


def _draw(runs: Sequence[RecordedRun], folder: Path) -> Pictures:
    """Draws the pictures; several runs have a learning curve each, and one picture together."""
    curves = {}
    for number, run in enumerate(runs, start=1):
        if len(run.iterations) == 1:
            continue
        curves[run.label] = f"learning_curve_{number}.png" if len(runs) > 1 else "learning_curve.png"
        figures.learning_curve(run, folder / curves[run.label])
    figures.pass_at_k(runs, folder / PASS_AT_K)
    sets = figures.granularity_sets(runs)
    granularity = []
    for number, alike in enumerate(sets, start=1):
        granularity.append(f"granularity_{number}.png" if len(sets) > 1 else "granularity.png")
        figures.granularity(alike, folder / granularity[-1])
    compared = None
    if len(runs) > 1 and [len(alike) for alike in sets] != [len(runs)]:
        compared = "learning_curves.png"
        figures.learning_curves(runs, folder / compared)
    return Pictures(curves, compared, granularity)


def remarks(runs: Sequence[RecordedRun]) -> list[str]:
    """What keeps the runs' figures from being taken as they stand: other tasks, other numbers of samples, too few."""
    told = []
    tasks = _alike(runs, lambda run: (tuple(run.tasks), run.params.get("task_set_digest")))
    if len(tasks) > 1:
        shared = len(set.intersection(*(set(run.tasks) for run in runs)))
        sets = "; ".join(f"{len(alike[0].tasks)} in {_names_of(alike)}" for alike in tasks)
        told.append(f"Not the same tasks: {sets}. In all of these runs: {shared}.")
    samples = _alike(runs, lambda run: run.samples)
    if len(samples) > 1:
        numbers = "; ".join(f"{alike[0].samples} in {_names_of(alike)}" for alike in samples)
        told.append(f"Not the same number of samples a task and temperature, the n of pass@n: {numbers}.")
    if few := [run for run in runs if run.samples < 8]:
        told.append(f"Fewer than 8 samples, so that pass@8 is of all there are: {_names_of(few)}.")
    return told


def _alike(runs: Sequence[RecordedRun], key: Callable[[RecordedRun], object]) -> list[list[RecordedRun]]:
    groups: dict[object, list[RecordedRun]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    return list(groups.values())


def _names_of(runs: Sequence[RecordedRun]) -> str:
    return " and ".join(run.label for run in runs) if len(runs) < 3 else f"{runs[0].label} and {len(runs) - 1} others"


def _overview(runs: tables.Table) -> Shown:
    """The runs' table as the page shows it; how they ended only where one has not come to an end."""
    status = runs.head.index("status")
    dull = all(row[status] == "FINISHED" for row in runs.rows)
    names = [name for name in OVERVIEW if name != "status" or not dull]
    return show(_columns(runs, names), 1 if dull else 2)


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
            measures.class_of(name),
            tuple(_fared(run, name) for run in runs),
            tuple((tuple(labels), _code(program)) for program, labels in programs.items()),
        )
        groups.setdefault(measures.group_of(name), []).append(entry)
    yield from groups.items()


def _fared(run: RecordedRun, name: str) -> str:
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
    return measures.in_group_order(dict.fromkeys(name for run in runs for name in run.tasks))


def _title(runs: Sequence[RecordedRun]) -> str:
    return f"Report on {runs[0].name}" if len(runs) == 1 else f"Report on {len(runs)} runs"


def show(table: tables.Table, texts: int) -> Shown:
    """A table as a page shows it: leading texts that only repeat the row above are left out."""
    rows: list[tables.Row] = []
    above: tables.Row = (None,) * len(table.head)
    for row in table.rows:
        same = next((i for i in range(texts) if row[i] != above[i]), texts)
        rows.append((*[""] * same, *row[same:]))
        above = row
    return Shown(table.head, tuple(rows), texts)


def _without(table: tables.Table, name: str) -> tables.Table:
    return _columns(table, [other for other in table.head if other != name])


def _columns(table: tables.Table, names: Sequence[str]) -> tables.Table:
    places = [table.head.index(name) for name in names]
    return tables.Table(tuple(names), tuple(tuple(row[place] for place in places) for row in table.rows))


def _code(program: str) -> str:
    """The program as HTML, escaped."""
    return f"<pre>{highlight(program, PythonLexer(), _CODE)}</pre>"


def template(name: str) -> jinja2.Template:
    """A page of this folder, to be filled in."""
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(f"{name}.html.jinja")
