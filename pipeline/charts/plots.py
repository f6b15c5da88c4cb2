"""All pictures but the dataflow graph: `plot` draws panels of lines, steps and bars, and the functions below fill them.

Colours are Okabe and Ito's, which people with any colour vision can distinguish; each series has its own marker or
hatch, too. Series may overlap, so later ones are thinner, and their markers are smaller and hollow.
Figures are built without pyplot, so that no window, backend or global state is involved.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from optimizers import IterationResult, TaskCount
from pipeline.base.files import write_bytes, write_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8a6d3b", "#F0E442", "#999933")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "//", "..", "\\\\", "++", "xx", "--")
# In an SVG, matplotlib's styles are attributes of the elements, which a style sheet overrides only with `!important`.
_DARK_STYLE = """ <style>
  @media (prefers-color-scheme: dark) {
   text { fill: #dfe3e8 !important; }
   [style*="fill: #ffffff"] { fill: transparent !important; }
   [style*="stroke: #000000"] { stroke: #aeb6bf !important; }
   [style*="fill: #000000"] { fill: #aeb6bf !important; }
   [style*="stroke: #dddddd"] { stroke: #3c434c !important; }
  }
 </style>
"""
# Offsets of a label from its point, in points, the nearest first.
_OFFSETS = sorted(
    ((x, y) for y in (12, -22, 28, -38, 44, -54, 60) for x in (0, 34, -34, 64, -64)),
    key=lambda xy: math.hypot(*xy),
)
Points = Sequence[tuple[float, ...]]
"""(x, y), or (x, y, low, high) with the ends of an interval; a bar's x is the place of its group."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes; its y-values reach from 0 to `top`.

    `names` are those of the groups of bars, or labels of the points of an only line.
    """

    series: Mapping[str, Points]
    y: str
    x: str = ""
    title: str = ""
    kind: Literal["line", "step", "bar", "stack"] = "line"
    names: Sequence[str] = ()
    top: float = 100.0
    logarithmic: bool = False
    width: float = 1.0


def plot(
    path: Path,
    *panels: Panel,
    size: tuple[float, float] = (8.0, 5.0),
    rows: int = 1,
    order: Sequence[str] = (),
) -> None:
    """Draws the panels, with one legend below if they have several series; a series has one colour in all panels.

    `order` are the names that take the first colours, so that pictures with other series agree.

    An SVG keeps its texts as text, follows the reader's dark mode, and gets a PNG of the same name beside it, for
    documents that take no SVG.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, dpi=150, layout="constrained")
    drawn = dict.fromkeys(name for panel in panels for name in panel.series)
    names = list(dict.fromkeys([*order, *drawn]))
    widths = [panel.width for panel in panels[: len(panels) // rows]]
    all_axes = figure.subplots(rows, len(widths), squeeze=False, width_ratios=widths)
    for axes, panel in zip(all_axes.flat, panels, strict=True):
        (_draw_bars if panel.kind in ("bar", "stack") else _draw_lines)(axes, panel, names)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#dddddd", linewidth=0.8, axis="y" if panel.kind in ("bar", "stack") else "both")
        axes.set_axisbelow(True)
        axes.tick_params(labelsize=12)
        axes.set_xlabel(panel.x, fontsize=13)
        axes.set_ylabel(panel.y, fontsize=13)
        axes.set_title(panel.title, fontsize=13)
    if len(drawn) > 1:
        found = [axes.get_legend_handles_labels() for axes in all_axes.flat]
        handles = {label: handle for shown in found for handle, label in zip(*shown, strict=True)}
        columns = max(1, int(11 * size[0]) // (8 + max(map(len, drawn))))
        figure.set_size_inches(size[0], size[1] + 0.27 * ((len(drawn) - 1) // columns))  # the axes keep their size
        figure.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=columns, fontsize=12, frameon=False
        )
    for axes, panel in zip(all_axes.flat, panels, strict=True):
        if panel.kind == "line" and panel.names:
            _place_labels(figure, axes, panel)
    _save(figure, path)


def _draw_lines(axes: Axes, panel: Panel, names: Sequence[str]) -> None:
    end = max((points[-1][0] for points in panel.series.values() if points), default=1.0)
    for name, points in panel.series.items():
        place = names.index(name)
        emphasis = (len(names) - 1 - place) / max(len(names) - 1, 1)
        drawn = [*points, (end, *points[-1][1:])] if panel.kind == "step" else points
        x, y, *bounds = zip(*drawn, strict=True) if drawn else ((), ())
        colour = COLOURS[place % len(MARKERS)]
        axes.plot(
            x,
            y,
            drawstyle="steps-post" if panel.kind == "step" else "default",
            linestyle=("-", "--", ":")[place // len(MARKERS) % 3],
            linewidth=1.4 + 2.2 * emphasis,
            marker=MARKERS[place % len(MARKERS)],
            markersize=7 + 4 * emphasis,
            markevery=len(x) // 12 + 1,
            markerfacecolor="none",
            markeredgewidth=1.6,
            color=colour,
            label=name,
        )
        if bounds:
            low, high = ([min(max(value, 0.0), panel.top) for value in bound] for bound in bounds)
            axes.fill_between(x, low, high, step="post", color=colour, alpha=0.15, linewidth=0)
    axes.set_ylim(-0.03 * panel.top, 1.11 * panel.top)
    if panel.logarithmic:
        ticks = _powers_of_two(int(end))
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [str(k) for k in ticks])
    else:
        axes.set_xlim(0, 1.1 * end or 1)
        axes.locator_params("x", nbins=6)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _draw_bars(axes: Axes, panel: Panel, names: Sequence[str]) -> None:
    stacked = panel.kind == "stack"
    width = 0.84 / (1 if stacked else len(panel.series))
    bottoms = [0.0] * len(panel.names)
    for index, (name, points) in enumerate(panel.series.items()):
        place, heights = names.index(name), [y for _, y in points]
        offset = 0.0 if stacked else width * (index + 0.5) - 0.42
        bars = axes.bar(
            [x + offset for x, _ in points],
            heights,
            width * 0.94,
            bottom=bottoms if stacked else 0,
            color=COLOURS[place % len(COLOURS)],
            hatch=HATCHES[place % len(HATCHES)] if stacked else None,
            edgecolor="#ffffff",
            linewidth=0.4,
            label=name,
        )
        if stacked:
            bottoms = [bottom + height for bottom, height in zip(bottoms, heights, strict=True)]
        else:
            axes.bar_label(bars, [f"{height:,.0f}" for height in heights], padding=2, fontsize=9)
    axes.set_xticks(range(len(panel.names)), panel.names, rotation=90 if stacked and len(panel.names) > 6 else 0)
    axes.set_xlim(-0.6, len(panel.names) - 0.4)
    axes.set_ylim(0, (1 if stacked else 1.12) * panel.top or 1)


def _save(figure: Figure, path: Path) -> None:
    from matplotlib import rc_context

    def picture(suffix: str, **options: Any) -> bytes:
        data = io.BytesIO()
        figure.savefig(data, format=suffix.removeprefix("."), **options)
        return data.getvalue()

    if path.suffix != ".svg":
        write_bytes(path, picture(path.suffix))
        return
    write_bytes(path.with_suffix(".png"), picture(".png"))
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "adaptive-step"}):
        text = picture(".svg", metadata={"Date": None}).decode()
    write_text(path, text.replace(" <defs>\n", f"{_DARK_STYLE} <defs>\n", 1))


def _powers_of_two(limit: int) -> list[int]:
    powers = [1 << bit for bit in range(limit.bit_length()) if 1 << bit <= limit]
    return powers if powers[-1:] == [limit] else [*powers, limit]


def _place_labels(figure: Figure, axes: Axes, panel: Panel) -> None:
    """Places each label near its point, where it covers neither a point nor an earlier label."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

    (points,) = panel.series.values()
    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    figure.draw_without_rendering()
    scale = figure.dpi / 72
    centres = axes.transData.transform([point[:2] for point in points])
    taken = [Bbox.from_bounds(x - 5 * scale, y - 5 * scale, 10 * scale, 10 * scale) for x, y in centres]
    along = (xy for ends in pairwise(centres) for xy in np.linspace(*ends, 100))
    taken += [Bbox.from_bounds(x, y, 1, 1) for x, y in along]  # so dense that no label slips between two
    for point, label in zip(points, panel.names, strict=True):
        note = axes.annotate(
            re.sub(r"_(\d+)$", r"$_{\1}$", label),  # the cycle as a subscript, as in the paper
            (point[0], point[1]),
            xytext=_OFFSETS[0],
            textcoords="offset points",
            fontsize=11,
            ha="center",
            arrowprops={"arrowstyle": "-", "color": "#999999", "linewidth": 0.8, "shrinkB": 4},
        )
        for offset in _OFFSETS:
            note.xyann = offset
            note.update_positions(renderer)
            box = Text.get_window_extent(note, renderer).padded(2 * scale)
            inside = axes.bbox.contains(*box.min) and axes.bbox.contains(*box.max)
            if inside and not box.count_overlaps(taken):
                break
        taken.append(box)


def title(index: int, label: str) -> str:
    """An iteration's name for people, `3: HM_2`; iterations count from 1, as in the paper's Figure 7."""
    return f"{index + 1}: {label}" if index >= 0 else f"validating {label}"


def learning_panel(curves: Mapping[str, Points], samples: int | str, names: Sequence[str] = ()) -> Panel:
    """Learning curves (paper, Figures 7 and 8): prompt tokens per task and pass@n from 0 to 1, a point an iteration.

    `names` are those of the iterations of a single curve.
    """
    percent = {name: [(tokens, 100 * share) for tokens, share in points] for name, points in curves.items()}
    return Panel(percent, f"pass@{samples} (% of tasks)", "prompt tokens per task", names=names)


def draw_pass_at_k(curves: Mapping[str, Sequence[float]], path: Path) -> None:
    """Draws pass@k over k (paper, Figure 9): by name, pass@1, pass@2, …, from 0 to 1."""
    percent = {name: [(k, 100 * value) for k, value in enumerate(each, start=1)] for name, each in curves.items()}
    said = "Probability that at least one of k answers is correct"
    plot(path, Panel(percent, "pass@k (% of tasks)", "k (answers sampled per task)", said, logarithmic=True))


def final_counts(iterations: Iterable[IterationResult]) -> list[TaskCount]:
    """Each solved task's count at its best temperature, the first of equals, in the iteration that solved it."""
    return [
        max(
            (count for count in iteration.counts if count.task_key == key and count.samples),
            key=lambda count: count.successes / count.samples,
        )
        for iteration in iterations
        for key in iteration.solved
    ]


def pooled_counts(iterations: Iterable[IterationResult]) -> list[TaskCount]:
    """The same over all temperatures together, which makes pass@k unbiased."""
    pooled = []
    for iteration in iterations:
        for best in final_counts([iteration]):
            own = [count for count in iteration.counts if count.task_key == best.task_key]
            right, samples = sum(count.successes for count in own), sum(count.samples for count in own)
            pooled.append(replace(best, successes=right, samples=samples))
    return pooled


def pass_at_k_curve(counts: Sequence[TaskCount], tasks: int, samples: int) -> list[float]:
    """pass@1 to pass@`samples`, from 0 to 1, averaged over all tasks (paper, Equation 1), in linear time.

    A solved task with fewer scored samples than k counts with all of them.
    """
    curve = [0.0] * samples
    for count in counts:
        missed, wrong = 1.0, count.samples - count.successes
        for k in range(samples):
            if k < count.samples:  # the chance that the next sample is wrong as well
                missed *= max(0, wrong - k) / (count.samples - k)
            curve[k] += (1 - missed) / tasks
    return curve


def draw_run(iterations: Sequence[IterationResult], tasks: int, samples: int, folder: Path) -> None:
    """Draws `learning_curve.png` and `pass_at_k.png` of at least one iteration into a folder.

    `samples` are those per task and temperature.
    """
    curves = {title(it.index, it.label): pooled_counts([it]) for it in iterations[:1]}
    if len(iterations) > 1:
        curves["all iterations"] = pooled_counts(iterations)
    most = max((count.samples for counts in curves.values() for count in counts), default=samples)
    points = [(it.tokens_prompt_per_task, it.pass_at_n) for it in iterations]
    names = [title(it.index, it.label) for it in iterations]
    plot(folder / "learning_curve.png", learning_panel({"pass@n": points}, samples, names))
    draw_pass_at_k(
        {name: pass_at_k_curve(each, tasks, most) for name, each in curves.items()}, folder / "pass_at_k.png"
    )
