"""The pictures of a report, as SVGs and PNGs in the style of `pipeline.charts.plots`.

Series may overlap, so later ones are thinner, and their markers are smaller and hollow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from pipeline.charts import plots
from pipeline.charts.plots import COLOURS, MARKERS, CurvePoint, pass_at_k_curve, title
from pipeline.reporting import pass_rates
from pipeline.reporting.runs import LABEL_FORMATS, Iteration, RecordedRun

LINES = ("-", "--", ":")
WIDE_INCHES = (12.0, 5.0)
_OUTCOME_COLOURS = (
    "#009E73", "#F0E442", "#999933", "#56B4E9", "#0072B2", "#CC79A7", "#E69F00", "#D55E00", "#8a6d3b", "#7f7f7f",
)  # fmt: skip
OUTCOME_COLOURS = dict(zip(pass_rates.OUTCOMES, _OUTCOME_COLOURS, strict=True))
HATCHES = ("", "++", "--", "//", "", "\\\\", "", "..", "", "xx")
"""Distinguish neighbors in a stack without color."""
MAX_UPRIGHT = 6
"""The largest number of iterations whose titles fit side by side."""


def learning_curve(run: RecordedRun, path: Path) -> None:
    """One run's learning curve, its points labelled (paper, Figure 7)."""
    plots.learning_curve(_points(run), run.samples, path)


def learning_curves(runs: Sequence[RecordedRun], path: Path) -> None:
    """The learning curves of several runs on one pair of axes."""
    figure = plots.new_figure()
    _draw_curves(figure.add_subplot(), {run.label: run for run in runs})
    plots.legend_below(figure, [run.label for run in runs])
    plots.save(figure, path)


def pass_at_k(runs: Sequence[RecordedRun], path: Path) -> None:
    """pass@k over k, one curve per run (paper, Figure 9); for a single run also its first iteration."""
    curves = {run.label: pass_at_k_at(run, run.iterations[-1]) for run in runs}
    if len(runs) == 1 and len(runs[0].iterations) > 1:
        (run,) = runs
        first = run.iterations[0]
        curves = {title(first.index, first.label): pass_at_k_at(run, first), "all iterations": curves[run.label]}
    plots.pass_at_k(curves, path)


def pass_at_k_by_iteration(run: RecordedRun, path: Path) -> None:
    """pass@k over k at the end of each iteration that solved something, and of the last."""
    shown = [it for it in run.iterations if it.solved or it is run.iterations[-1]]
    shown = shown[: len(COLOURS) - 1] + shown[-1:] if len(shown) > len(COLOURS) else shown
    plots.pass_at_k({title(it.index, it.label): pass_at_k_at(run, it) for it in shown}, path)


def pass_at_k_at(run: RecordedRun, iteration: Iteration) -> list[float]:
    """pass@1, pass@2, …, from 0 to 1, at the end of an iteration of a run, over all temperatures together."""
    solved_in, most = run.solved_in, max((count.samples for count in run.pooled.values()), default=run.samples)
    solved = [count for name, count in run.pooled.items() if solved_in.get(name, -1) <= iteration.index]
    return pass_at_k_curve(solved, len(run.tasks), most)


def outcomes(run: RecordedRun, path: Path) -> None:
    """The answers of each iteration by outcome: right, or the stage of verification at which they fail."""
    figure = plots.new_figure()
    axes = figure.add_subplot()
    names = [title(it.index, it.label) for it in run.iterations]
    shares = [_shares(it) for it in run.iterations]
    bottoms = [0.0] * len(names)
    for index, (outcome, colour) in enumerate(OUTCOME_COLOURS.items()):
        heights = [100 * share.get(outcome, 0.0) for share in shares]
        if any(heights):
            hatch = HATCHES[index % len(HATCHES)]
            style: dict[str, Any] = {"color": colour, "hatch": hatch, "edgecolor": "#ffffff", "linewidth": 0.4}
            axes.bar(range(len(names)), heights, 0.75, bottom=bottoms, label=outcome, **style)
            bottoms = [bottom + height for bottom, height in zip(bottoms, heights, strict=True)]
    plots.style_axes(axes)
    axes.grid(visible=False, axis="x")
    axes.set_ylim(0, 100)
    crowded = len(names) > MAX_UPRIGHT
    axes.set_xticks(range(len(names)), names, rotation=45 if crowded else 0, ha="right" if crowded else "center")
    axes.set_ylabel("answers (%)", fontsize=13)
    axes.set_title("Right answers, and the stage at which the others fail", fontsize=13)
    figure.legend(loc="outside right upper", fontsize=12, frameon=False, reverse=True)
    plots.save(figure, path)


def _shares(iteration: Iteration) -> dict[str, float]:
    counted = pass_rates.outcomes(iteration.attempts)
    total = sum(counted.values()) or 1
    return {outcome: count / total for outcome, count in counted.items()}


def granularity_sets(runs: Sequence[RecordedRun]) -> list[list[RecordedRun]]:
    """Sets of two or more runs that differ only in granularity, sorted by it; of equal ones only the last."""
    sets: dict[tuple[str | None, ...], dict[int, RecordedRun]] = {}
    for run in runs:
        m = run.params.get("granularity", "")
        if m.isdigit() and run.params.get("optimizer") == "adaptive":
            alike = tuple(run.params.get(key) for key in LABEL_FORMATS if key != "granularity")
            sets.setdefault(alike, {})[int(m)] = run
    return [[found[m] for m in sorted(found)] for found in sets.values() if len(found) > 1]


def granularity(runs: Sequence[RecordedRun], path: Path) -> None:
    """Learning curves by granularity, and the end of each (paper, Figure 8)."""
    figure = plots.new_figure(WIDE_INCHES)
    curves, solved, spent = figure.subplots(1, 3, width_ratios=(2.8, 1, 1))
    by_m = {f"m = {run.params['granularity']}": run for run in runs}
    _draw_curves(curves, by_m)
    curves.legend(fontsize=12, frameon=False, loc="lower right")
    _bars(solved, {m: 100 * run.score.pass_at_n for m, run in by_m.items()}, f"pass@{samples(runs)} at the end (%)")
    _bars(spent, {m: run.iterations[-1].prompt_per_task for m, run in by_m.items()}, "prompt tokens per task")
    spent.set_yticklabels([])
    plots.save(figure, path)


def _draw_curves(axes: Axes, runs: Mapping[str, RecordedRun]) -> None:
    for index, (name, run) in enumerate(runs.items()):
        points = _points(run)
        emphasis = (len(runs) - 1 - index) / max(len(runs) - 1, 1)
        axes.plot(
            [point.tokens for point in points],
            [100 * point.pass_at_n for point in points],
            linestyle=LINES[index // len(COLOURS) % len(LINES)],
            linewidth=1.4 + 2.2 * emphasis,
            marker=MARKERS[index % len(MARKERS)],
            markersize=7 + 6 * emphasis,
            markerfacecolor="none",
            markeredgewidth=1.8,
            color=COLOURS[index % len(COLOURS)],
            label=name,
        )
    plots.style_learning_axes(axes, samples(list(runs.values())))
    axes.set_xlim(left=0)
    axes.margins(x=0.08)


def _bars(axes: Axes, values: Mapping[str, float], label: str) -> None:
    """Bars with their values at their ends, in the colours of the curves."""
    bars = axes.barh(list(values), list(values.values()), color=COLOURS[: len(values)], height=0.55)
    axes.bar_label(bars, [f"{value:,.0f}" for value in values.values()], padding=4, fontsize=12)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.45 * max(values.values(), default=0) or 1)
    axes.set_xticks([])
    axes.set_title(label, fontsize=12)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=12, length=0)


def _points(run: RecordedRun) -> list[CurvePoint]:
    return [CurvePoint(it.prompt_per_task, it.score.pass_at_n, title(it.index, it.label)) for it in run.iterations]


def samples(runs: Sequence[RecordedRun]) -> str:
    """The name of n in pass@n: its number if all runs have the same, else `n`."""
    numbers = {run.samples for run in runs}
    return str(numbers.pop()) if len(numbers) == 1 else "n"
