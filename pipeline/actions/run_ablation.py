"""`pipeline.ablate`: a sweep over LMs, the paper's methods and seeds, and the page that compares them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.actions.run_sweep import Sweep, SweepRun, matched_request, recorded, run_key
from pipeline.actions.sweep_spec import Combination
from pipeline.base.choices import is_embedded
from pipeline.base.config import PlanOptions, RunConfig
from pipeline.base.files import file_errors
from pipeline.record import store
from pipeline.reporting import ablation, tables
from pipeline.reporting.ablation import ADAPTIVE, AGENT, BARE, LEVELS, RESAMPLED, SINGLE
from pipeline.reporting.runs import read_runs

_ONE_PASS: Mapping[str, Any] = {"optimizer": "none", "temperatures": (0.7,)}
_AGENT: Mapping[str, Any] = {"guardian": "paper"}
METHODS: Mapping[str, tuple[Mapping[str, Any], str | None]] = {
    BARE: ({**_ONE_PASS, "guardian": "none", "no_ir": True}, None),
    SINGLE: ({**_ONE_PASS, "guardian": "none"}, BARE),
    AGENT: ({**_ONE_PASS, **_AGENT}, SINGLE),
    RESAMPLED: ({"optimizer": "none", "max_tokens_total": None, **_AGENT}, None),
    **{
        name: ({"optimizer": "adaptive", "granularity": m, **_AGENT}, RESAMPLED if name == ADAPTIVE else ADAPTIVE)
        for m, name in LEVELS.items()
    },
}
"""The settings that make each method, and the method with which it is compared, seed by seed."""


def open_ablation(options: PlanOptions) -> Sweep:
    """The sweep of an ablation; its name follows from its runs, so that the same command finds them again.

    Raises:
        UsageError: A task can't be used, or the language lacks what a method needs.
    """
    shared = {name: value for name, value in options if name not in ("lm", "seed")}
    runs = []
    for lm in options.lm:
        methods = [*METHODS][is_embedded(lm) :]  # the embedded LM reads the structural IR alone
        for method in methods:
            own, other = METHODS[method]
            for seed in options.seed:
                config = RunConfig.model_validate({**shared, **own, "lm": lm, "seed": seed})
                values = {"lm": lm, "method": method, "seed": seed}
                combination = Combination(
                    values,
                    config,
                    compared_with={**values, "method": other} if other in methods else None,
                    matched_to={**values, "method": ADAPTIVE} if method == RESAMPLED else None,
                )
                request = matched_request(combination)
                runs.append(SweepRun(combination, request, run_key(request)))
    keys = hashlib.sha256("".join(sorted(each.key for each in runs)).encode()).hexdigest()
    return Sweep(f"ablation {keys[:8]}", runs)


def write_page(sweep: Sweep, figures: Mapping[str, Any], output: str | None) -> dict[str, Any]:
    """Writes the page of the finished runs to a folder, by default next to the store; returns the command's JSON.

    Raises:
        UsageError: It can't be written.
    """
    folder = Path(output) if output is not None else store.folder() / "ablations" / sweep.name.replace(" ", "-")
    known = recorded(sweep)
    read = {run.run_id: run for run in read_runs([known[each.key].info.run_id for each in sweep.runs])}
    by_lm: dict[str, list[Any]] = {}
    for each in sweep.runs:
        values = each.combination.values
        run = replace(read[known[each.key].info.run_id], label=values["method"])
        by_lm.setdefault(values["lm"], []).append(run)
    tests = tables.of(
        {"method": row["configuration"], "less": row["less"], "seeds": row["pairs"], **row["differences"]["solved"],
         "p": row["p"]}
        for row in figures["comparisons"]
    )  # fmt: skip
    with file_errors(f"--output: can't write the page to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        files = ablation.write(by_lm, tests, folder)
    return {**figures, "page": str(folder / files[0]), "files": files}
