"""The figures of `pipeline.sweep`: means, intervals, paired differences, and curves of its finished runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from scipy.special import stdtr, stdtrit  # `scipy.stats` would take most of a second to import

from pipeline.actions.run_sweep import Sweep, is_finished, recorded
from pipeline.actions.sweep_spec import configuration
from pipeline.base.redaction import without_secrets
from pipeline.base.terminal import console, figures_table, print_lines
from pipeline.charts.plots import Panel, Points, plot
from pipeline.record import experiment_view, store

FIGURES = {
    "solved": "total_solved", "pass_at_1_pooled": "total_pass_at_1_pooled", "pass_at_n": "total_pass_at_n",
    "tokens": "total_tokens", "seconds": "total_seconds",
}  # fmt: skip
"""The figures of the table, and the metric of a run that has each: pass@1 over all temperatures, which is unbiased."""
TESTED = "solved"
"""The figure whose differences are tested."""
CURVE = ("samples", "tokens_prompt", "tokens_completion")
CONFIDENCE = 0.95
NARROW = 200
"""The parts of an axis in which all places are one."""
LOCAL_SERVER = "http://127.0.0.1:5000"
"""Where `pipeline.ui` serves by default."""


def figures(sweep: Sweep) -> dict[str, Any]:
    """The command's JSON object.

    It has the sweep's runs, each with its curve; for each configuration means and intervals over the seeds; and where
    the file says what to compare with, the differences seed by seed.
    """
    known, runs = recorded(sweep), []
    client, _ = store.open_store()
    groups: dict[str, list[Any]] = {}
    pairs: dict[tuple[str, str], list[tuple[Any, Any]]] = {}
    for each in sweep.runs:
        combination, run = each.combination, known.get(each.key)
        runs.append({
            "values": dict(combination.values),
            "run_id": run and run.info.run_id,
            "status": run.info.status if run else None,
            "curve": solved_curve(client, run) if is_finished(run) else [],
        })  # fmt: skip
        groups.setdefault(combination.configuration, []).extend([run] if is_finished(run) else [])
        if combination.compared_with is not None:
            other = known.get(sweep.key(combination.compared_with))
            place = combination.configuration, configuration(combination.compared_with)
            pairs.setdefault(place, []).extend([(run, other)] if is_finished(run) and is_finished(other) else [])
    configurations = [
        {"configuration": name, "runs": len(finished), "figures": {f: interval(_values(finished, f)) for f in FIGURES}}
        for name, finished in groups.items()
    ]
    tested = holm([p_value(_differences(both, TESTED)) for both in pairs.values()])
    comparisons = [
        {"configuration": name, "less": other, "pairs": len(both), "p": p,
         "differences": {figure: interval(_differences(both, figure)) for figure in FIGURES}}
        for ((name, other), both), p in zip(pairs.items(), tested, strict=True)
    ]  # fmt: skip
    return {
        "sweep": sweep.name, "address": _address(sweep), "runs": runs, "configurations": configurations,
        "comparisons": comparisons,
    }  # fmt: skip


def _values(runs: Sequence[Any], figure: str) -> list[float]:
    metric = FIGURES[figure]
    return [run.data.metrics[metric] for run in runs if metric in run.data.metrics]


def _differences(pairs: Sequence[tuple[Any, Any]], figure: str) -> list[float]:
    """One run's figure less the other's, of each pair that has both."""
    both = ((_values([one], figure), _values([other], figure)) for one, other in pairs)
    return [one[0] - other[0] for one, other in both if one and other]


def interval(values: Sequence[float]) -> dict[str, float | None]:
    """The mean of a figure, and the 95 % confidence interval of that mean by Student's t distribution.

    The interval needs two values at least, one a run or a pair of runs.
    """
    if not values:
        return {"mean": None, "low": None, "high": None}
    mean = fmean(values)
    if len(values) == 1:
        return {"mean": mean, "low": None, "high": None}
    quantile = float(stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2))
    half = quantile * stdev(values) / math.sqrt(len(values))
    return {"mean": mean, "low": mean - half, "high": mean + half}


def p_value(differences: Sequence[float]) -> float | None:
    """The two-sided p-value of Student's paired test; None for fewer than two pairs, or differences that are all one.

    Differences that are all 0 have p = 1.
    """
    if len(set(differences)) < 2:
        return 1.0 if len(differences) > 1 and differences[0] == 0 else None
    t = fmean(differences) * math.sqrt(len(differences)) / stdev(differences)
    return float(2 * stdtr(len(differences) - 1, -abs(t)))


def holm(values: Sequence[float | None]) -> list[float | None]:
    """p-values corrected for their number by Holm's method; None stays None."""
    known = sorted((p, place) for place, p in enumerate(values) if p is not None)
    corrected, largest = list(values), 0.0
    for rank, (p, place) in enumerate(known):
        largest = corrected[place] = max(largest, min(1.0, p * (len(known) - rank)))
    return corrected


def print_figures(result: Mapping[str, Any]) -> None:
    """Prints the table of the configurations, that of the differences, and where the runs are in the UI."""
    stdout = console()
    headings = [name.replace("pass_at_", "pass@").replace("_", " ") for name in FIGURES]
    table = figures_table("configuration", "runs", *headings)
    for row in result["configurations"]:
        table.add_row(row["configuration"], str(row["runs"]), *(_cell(row["figures"][name]) for name in FIGURES))
    stdout.print(table)
    explained: list[str] = []
    if result["comparisons"]:
        explained = ["p is of the difference in solved tasks: Student's paired test, corrected by Holm's method"]
        table = figures_table("seed by seed", "less", "pairs", *headings, "p", texts=2)
        for row in result["comparisons"]:
            cells = (_cell(row["differences"][name], signed=True) for name in FIGURES)
            p = "" if row["p"] is None else f"{row['p']:.3f}"
            table.add_row(row["configuration"], row["less"], str(row["pairs"]), *cells, p)
        stdout.print("", table, sep="\n")
    lines = ["", "± is half of the 95 % confidence interval of the mean", *explained, f"the runs: {result['address']}"]
    if result["address"].startswith(LOCAL_SERVER):
        lines.append("served by: python -m pipeline.ui")
    print_lines(stdout, *lines)


def _cell(figure: Mapping[str, float | None], *, signed: bool = False) -> str:
    mean, high = figure["mean"], figure["high"]
    if mean is None:
        return ""
    digits = 3 if abs(mean) <= 1 else 1 if abs(mean) < 1000 else 0
    half = "" if high is None else f" ± {high - mean:,.{digits}f}"
    return f"{mean:{'+' if signed else ''},.{digits}f}{half}"


def solved_curve(client: Any, run: Any) -> list[dict[str, float]]:
    """Samples and tokens so far, and tasks solved: before the run, after each iteration, and at the end of the run.

    The end includes an iteration that a limit cut short.
    """
    history = {
        name: {point.step: point.value for point in client.get_metric_history(run.info.run_id, name)}
        for name in ("solved", *CURVE)
    }
    points, samples, tokens = [_point(0, 0, 0)], 0.0, 0.0
    for step, solved in sorted(history["solved"].items()):
        new, *new_tokens = (history[name].get(step, 0) for name in CURVE)
        samples, tokens = samples + new, tokens + sum(new_tokens)
        points.append(_point(samples, tokens, solved))
    total = run.data.metrics
    if "total_solved" in total:
        end = _point(total["total_samples"], total["total_tokens"], total["total_solved"])
        points += [end] if end != points[-1] else []
    return points


def _point(samples: float, tokens: float, solved: float) -> dict[str, float]:
    return {"samples": samples, "tokens": tokens, "solved": solved}


def draw(sweep: Sweep, result: Mapping[str, Any], path: Path) -> None:
    """Draws the tasks solved over samples and over tokens: each configuration's mean over the seeds, with its interval.

    A run keeps its last value where another one of its configuration goes on.
    """
    curves: dict[str, list[Sequence[Mapping[str, float]]]] = {}
    for each, run in zip(sweep.runs, result["runs"], strict=True):
        curves.setdefault(each.combination.configuration, []).extend([run["curve"]] if run["curve"] else [])
    found = {name: own for name, own in curves.items() if own}
    tasks = max(len(each.request.tasks) for each in sweep.runs)
    panels = [
        Panel(
            {name: _mean_curve(own, along) for name, own in found.items()},
            f"solved tasks, of {tasks}",
            f"{along} spent",
            kind="step",
            top=tasks,
        )
        for along in ("samples", "tokens")
    ]
    plot(path, *panels, size=(12.0, 4.25))


def _mean_curve(curves: Sequence[Sequence[Mapping[str, float]]], along: str) -> Points:
    """Steps up to the next one: what was spent, the mean number of tasks solved, and the ends of its interval.

    Places that no eye can tell apart are one, the last: the runs take it one after another.
    """
    steps, shown, first = [], list[float](), 0.0
    places = sorted({point[along] for curve in curves for point in curve})
    for place in places:
        if shown and place - first <= places[-1] / NARROW:
            shown[-1] = place
        else:
            shown, first = [*shown, place], place
    for place in shown:
        reached = [max(point["solved"] for point in curve if point[along] <= place) for curve in curves]
        found = interval(reached)
        mean = found["mean"] or 0.0
        low, high = (mean if end is None else end for end in (found["low"], found["high"]))
        steps.append((place, mean, low, high))
    return steps


def _address(sweep: Sweep) -> str:
    """The address of the sweep's runs in MLflow's UI."""
    client, experiment = store.open_store()
    uri = store.store_uri()
    server = without_secrets(uri).rstrip("/") if uri.startswith("http") else LOCAL_SERVER
    return experiment_view.found(client, server, experiment, f"params.sweep = '{sweep.name}'")
