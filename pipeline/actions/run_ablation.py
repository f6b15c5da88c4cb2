"""`pipeline.ablate`: a sweep over LMs and the paper's methods, and the page that compares them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.table import Table

from pipeline.actions import compile_agent
from pipeline.actions.run_sweep import Sweep, SweepRun, recorded, run_key
from pipeline.actions.sweep_spec import Combination
from pipeline.base.choices import is_embedded
from pipeline.base.config import PlanOptions, RunConfig
from pipeline.base.files import file_errors
from pipeline.base.paths import shown
from pipeline.base.terminal import console, figures_table, print_lines
from pipeline.record import store
from pipeline.reporting import ablation
from pipeline.reporting.ablation import METHODS
from pipeline.reporting.runs import read_runs

_ONE_PASS: Mapping[str, Any] = {"optimizer": "none", "temperatures": (0.7,)}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "Single-WS": {**_ONE_PASS, "guardian": "none", "no_ir": True},
    "Single": {**_ONE_PASS, "guardian": "none"},
    "Agent": {**_ONE_PASS, "guardian": "paper"},
    "Agent, adaptive": {"optimizer": "adaptive", "guardian": "paper"},
}
"""The settings that make each of the paper's methods."""


def open_ablation(options: PlanOptions) -> Sweep:
    """The sweep of an ablation; its name follows from its runs, so that the same command finds them again.

    Raises:
        UsageError: A task can't be used, or the language lacks what a method needs.
    """
    shared = {name: value for name, value in options if name != "lm"}
    runs = []
    for lm in options.lm:
        for method in METHODS[is_embedded(lm) :]:  # the embedded LM reads the structural IR alone
            own = SETTINGS[method]
            request = compile_agent.prepare(RunConfig.model_validate({**shared, **own, "lm": lm}))
            values = {"lm": lm, "method": method}
            runs.append(SweepRun(Combination(values, request.config), request, run_key(request)))
    keys = hashlib.sha256("".join(sorted(each.key for each in runs)).encode()).hexdigest()
    return Sweep(f"ablation {keys[:8]}", runs)


def print_figures(page: Mapping[str, Any]) -> None:
    """Prints a table for each LM, and the page's path."""
    stdout = console()
    for model, methods in page["lms"].items():
        stdout.print("", _table(model, methods), sep="\n")
    print_lines(stdout, "", shown(Path(page["page"]).absolute()))


def _table(model: str, methods: Mapping[str, Mapping[str, Any]]) -> Table:
    table = figures_table("", "solved", "pass@1", "pass@n", "tokens per solved task", title=model)
    for method, row in methods.items():
        per_task = row["tokens per solved task"]
        rates = (f"{row['pass_at_1']:.3f}", f"{row['pass_at_n']:.3f}")
        tokens = "" if per_task is None else f"{per_task:,}"
        table.add_row(method, f"{row['solved']} of {row['tasks']}", *rates, tokens)
    return table


def write_page(sweep: Sweep, output: str | None) -> dict[str, Any]:
    """Writes the page of the finished runs to a folder, by default next to the store; returns the command's JSON.

    Raises:
        UsageError: It can't be written.
    """
    name = sweep.name.replace(" ", "-")
    folder = Path(output) if output is not None else store.folder() / "ablations" / name
    known = recorded(sweep)
    read = {run.run_id: run for run in read_runs([known[each.key].info.run_id for each in sweep.runs])}
    by_lm: dict[str, dict[str, Any]] = {}
    for each in sweep.runs:
        values = each.combination.values
        by_lm.setdefault(values["lm"], {})[values["method"]] = read[known[each.key].info.run_id]
    with file_errors(f"--output: can't write the page to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        files = ablation.write(by_lm, folder)
    overviews = {lm: ablation.overview(runs).set_index("method") for lm, runs in by_lm.items()}
    figures = {lm: {method: dict(row) for method, row in table.iterrows()} for lm, table in overviews.items()}
    return {"ablation": sweep.name, "page": str(folder / files[0]), "files": files, "lms": figures}
