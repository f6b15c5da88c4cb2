"""Solved tasks over tokens and samples, by configuration: the curve that compares learning with its control."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from optimizers import IterationResult
from pipeline.charts.plots import COLOURS, MARKERS, SIZE_INCHES, legend_below, new_figure, save


@dataclass(frozen=True)
class Step:
    """From `x` spent on, up to the next step: the mean number of tasks solved, and the ends of its interval."""

    x: float
    mean: float
    low: float
    high: float


def draw_curves(panels: Mapping[str, Mapping[str, Sequence[Step]]], tasks: int, path: Path) -> None:
    """Draws one panel for each unit of cost, with a curve of at least one step for each name, up to `tasks`."""
    width, height = SIZE_INCHES
    figure = new_figure((0.75 * width * len(panels), 0.85 * height))
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for panel, (unit, curves) in zip(axes, panels.items(), strict=True):
        end = max((curve[-1].x for curve in curves.values()), default=1.0)
        for name, curve in curves.items():
            place = names.index(name)
            colour, xs = COLOURS[place % len(COLOURS)], [step.x for step in curve] + [end]
            means, lows, highs = ([*values, values[-1]] for values in _columns(curve))
            style = {"marker": MARKERS[place % len(MARKERS)], "markersize": 4, "markevery": len(xs) // 12 + 1}
            panel.step(
                xs, means, where="post", color=colour, linewidth=2, **style, label=name if panel is axes[0] else None
            )
            bounded = ([max(0.0, low) for low in lows], [min(tasks, high) for high in highs])
            panel.fill_between(xs, *bounded, step="post", color=colour, alpha=0.15, linewidth=0)
        panel.set_xlabel(f"{unit} spent", fontsize=13)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(color="#dddddd", linewidth=0.8)
        panel.set_axisbelow(True)
        panel.set_ylim(0, 1.05 * tasks)
        panel.locator_params("x", nbins=5)
        panel.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        panel.tick_params(labelsize=12)
    axes[0].set_ylabel(f"solved tasks, of {tasks}", fontsize=13)
    legend_below(figure, names)
    save(figure, path)


def draw_solved(
    iterations: Sequence[IterationResult], control: Sequence[tuple[float, float]], tasks: int, path: Path
) -> None:
    """Draws a run's solved tasks over its samples, and those of its control, points of samples and solved tasks."""
    points, samples = [(0.0, 0.0)], 0
    for iteration in iterations:
        samples += iteration.samples
        points.append((samples, iteration.solved_total))
    curves = {"this run": points} | ({"without demonstrations": control} if control else {})
    steps = {name: [Step(x, y, y, y) for x, y in curve] for name, curve in curves.items()}
    draw_curves({"samples": steps}, tasks, path)


def _columns(curve: Sequence[Step]) -> tuple[list[float], list[float], list[float]]:
    return [step.mean for step in curve], [step.low for step in curve], [step.high for step in curve]
