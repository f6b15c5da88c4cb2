"""The page of a report: HTML with its pictures and CSV files in a folder; it needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from pygments import highlight  # type: ignore[import-untyped]
from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
from pygments.lexers import PythonLexer  # type: ignore[import-untyped]

from pipeline.base.files import write_text
from pipeline.charts import plots
from pipeline.charts.plots import Panel, Points, title
from pipeline.reporting import pass_rates, tables
from pipeline.reporting.runs import RecordedRun

PAGE = "index.html"


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
        "tasks_iterations": tables.tasks_by_iteration(runs),
        "outcomes": tables.outcomes(runs),
        "table1_diversity": tables.diversity(runs),
        "table2_classes": tables.scores(runs, "class"),
        "table4_groups": tables.scores(runs, "group"),
        "tasks": tables.tasks(runs),
    }
    counts = written["tasks_iterations"][["run", "task", "iteration", "correct", "samples"]]
    pictures = _draw(runs, written["outcomes"], folder)
    shown = {
        "overview": written["runs"].drop(columns=[*tables.CSV_ONLY]),
        "outcomes": written["outcomes"],
        "diversity": written["table1_diversity"],
        "classes": tables.class_layout(runs),
        "groups": tables.group_layout(runs),
    }
    return finish(
        folder,
        written,
        [file for files in pictures.values() for file in files.values()],
        title=f"Report on {len(runs)} runs" if len(runs) > 1 else f"Report on {runs[0].name}",
        runs=runs,
        shown={name: table if len(runs) > 1 else table.drop(columns="run") for name, table in shown.items()},
        remarks=remarks(runs),
        heat={tuple(place): (right, of) for *place, right, of in counts.itertuples(index=False)},
        unclassed=[name for name in _names(runs) if _class_of(runs, name) is None],
        tasks=_tasks(runs),
        pictures=pictures,
    )


def finish(folder: Path, written: Mapping[str, pd.DataFrame], drawn: Sequence[str], **values: Any) -> list[str]:
    """Writes the tables and the page, filled with values; returns the names of all files, the page's first."""
    for name, table in written.items():
        tables.write(table, folder / f"{name}.csv")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"iteration_title": title}
    code_css, dark_css = (HtmlFormatter(style=style).get_style_defs("pre") for style in ("friendly", "github-dark"))
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    template = environment.get_template("page.html.jinja")
    write_text(folder / PAGE, template.render(made=made, code_css=code_css, dark_code_css=dark_css, **values))
    pictures = [name for svg in drawn for name in (svg, f"{svg.removesuffix('.svg')}.png")]
    return [PAGE, *(f"{name}.csv" for name in written), *pictures]


def _draw(runs: Sequence[RecordedRun], outcomes: pd.DataFrame, folder: Path) -> dict[str, dict[str, str]]:
    """Draws the pictures; returns the names of the files, by kind and by what they show.

    `compared` has all runs; a run of one iteration has no curve of its own.
    """
    several, learned = len(runs) > 1, [run for run in runs if len(run.iterations) > 1]

    def names(kind: str, shown: Sequence[RecordedRun]) -> dict[str, str]:
        return {run.label: f"{kind}_{runs.index(run) + 1}.svg" if several else f"{kind}.svg" for run in shown}

    pictures = {
        "curves": names("learning_curve", learned),
        "pass_at_k": {"pass@k": "pass_at_k.svg"},
        "compared": {"all": "learning_curves.svg"} if several else {},
        "outcomes": names("outcomes", runs),
    }
    for run in learned:
        labels = [title(it.index, it.label) for it in run.iterations]
        curve = plots.learning_panel({run.label: points(run)}, run.samples, labels)
        plots.plot(folder / pictures["curves"][run.label], curve)
    at_end = {run.label: run.pass_at_k(run.iterations[-1]) for run in runs}
    if not several and learned:
        first = runs[0].iterations[0]
        at_end = {title(first.index, first.label): runs[0].pass_at_k(first), "all iterations": at_end[runs[0].label]}
    plots.draw_pass_at_k(at_end, folder / "pass_at_k.svg")
    for file in pictures["compared"].values():
        plots.plot(folder / file, plots.learning_panel({run.label: points(run) for run in runs}, samples(runs)))
    for label, file in pictures["outcomes"].items():
        counts = outcomes[outcomes["run"] == label].set_index("iteration").drop(columns=["run", pass_rates.UNKNOWN])
        shares = 100 * counts.div(counts.sum(axis=1).clip(lower=1), axis=0)
        stacked: dict[str, Points] = {name: [*enumerate(shares[name])] for name in shares if shares[name].any()}
        said = "Right answers, and the stage at which the others fail"
        panel = Panel(stacked, "answers (%)", title=said, kind="stack", names=list(counts.index))
        plots.plot(folder / file, panel, order=list(shares))
    return pictures


def samples(runs: Sequence[RecordedRun]) -> str:
    """The name of n in pass@n: its number if all runs have the same, else `n`."""
    numbers = {run.samples for run in runs}
    return str(numbers.pop()) if len(numbers) == 1 else "n"


def points(run: RecordedRun) -> Points:
    """The learning curve of a run."""
    return [(it.prompt_per_task, it.score.pass_at_n) for it in run.iterations]


def remarks(runs: Sequence[RecordedRun]) -> list[str]:
    """Warnings where the runs are not comparable."""
    found, sets = [], {(tuple(run.tasks), run.params.get("task_set_digest")) for run in runs}
    if len(sets) > 1:
        shared = len(set.intersection(*(set(run.tasks) for run in runs)))
        found.append(f"The runs have {len(sets)} different sets of tasks. Tasks in all of these runs: {shared}.")
    if len(numbers := {run.samples for run in runs}) > 1:
        found.append(f"The n of pass@n, samples per task and temperature, differs: {sorted(numbers)}.")
    return found


def _tasks(runs: Sequence[RecordedRun]) -> dict[str, list[dict[str, Any]]]:
    """The tasks of all runs by group, each with its result in each run, and its programs as HTML, with their runs."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for name in _names(runs):
        programs: dict[str, list[str]] = {}
        for run in runs:
            if name in run.programs:
                programs.setdefault(run.programs[name].strip(), []).append(run.label)
        formatter = HtmlFormatter(nowrap=True)
        groups.setdefault(pass_rates.group_of(name), []).append(
            {
                "name": name,
                "class": _class_of(runs, name),
                "results": [_result(run, name) for run in runs],
                "programs": [(labels, highlight(text, PythonLexer(), formatter)) for text, labels in programs.items()],
            }
        )
    return groups


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
