"""The pictures of a run: its learning curve (paper, Figure 7), and pass@k over k (Figure 9).

Colours are Okabe and Ito's, which people with any colour vision can distinguish; each series has its own marker, too.
Figures are built without pyplot, so that no window, backend or global state is involved.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimizers import IterationResult, TaskCount
from optimizers import pass_at_k as estimated_pass_at_k
from pipeline.base.files import write_bytes, write_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
SIZE_INCHES = (8.0, 5.0)
DOTS_PER_INCH = 150
MAX_SERIES_INSIDE = 4
"""The largest number of series for which a legend fits inside the axes."""
LEGEND_ROW_INCHES = 0.27
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


@dataclass(frozen=True)
class CurvePoint:
    """An iteration on the learning curve: prompt tokens per task, pass@n from 0 to 1, and a label such as `3: HM_2`."""

    tokens: float
    pass_at_n: float
    label: str


def learning_curve(points: Sequence[CurvePoint], samples: int, path: Path) -> None:
    """Draws pass@n over prompt tokens per task, each point with its label, in the order of the iterations."""
    figure = new_figure()
    axes = figure.add_subplot()
    tokens, shares = [point.tokens for point in points], [100 * point.pass_at_n for point in points]
    axes.plot(tokens, shares, linestyle="--", linewidth=1.4, marker=MARKERS[0], markersize=8, color=COLOURS[0])
    style_learning_axes(axes, str(samples))
    axes.set_title("Learning curve, by iteration and demonstrations", fontsize=13)
    axes.margins(x=0.1)
    if len(set(tokens)) == 1:
        axes.set_xlim(0, 2 * tokens[0] or 1)
    _place_labels(figure, axes, points)
    save(figure, path)


def pass_at_k(curves: Mapping[str, Sequence[float]], path: Path) -> None:
    """Draws pass@k over k: by name, pass@1, pass@2, …, from 0 to 1."""
    figure = new_figure()
    axes = figure.add_subplot()
    for index, (name, values) in enumerate(curves.items()):
        axes.plot(
            range(1, len(values) + 1),
            [100 * value for value in values],
            linewidth=2,
            marker=MARKERS[index % len(MARKERS)],
            markersize=6,
            markevery=[k - 1 for k in _powers_of_two(len(values))],
            color=COLOURS[index % len(COLOURS)],
            label=name,
        )
    ticks = _powers_of_two(max((len(values) for values in curves.values()), default=1))
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(k) for k in ticks])
    style_axes(axes)
    axes.set_xlabel("k (answers sampled per task)", fontsize=13)
    axes.set_ylabel("pass@k (% of tasks)", fontsize=13)
    axes.set_title("Probability that at least one of k answers is correct", fontsize=13)
    if len(curves) > MAX_SERIES_INSIDE:
        legend_below(figure, list(curves))
    elif len(curves) > 1:
        axes.legend(fontsize=12, frameon=False, loc="best")
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Writes a figure in the format of its path's suffix.

    An SVG keeps its texts as text, follows the reader's dark mode, and gets a PNG of the same name beside it, for
    documents that take no SVG.
    """
    if path.suffix != ".svg":
        write_bytes(path, _picture(figure, path.suffix))
        return
    from matplotlib import rc_context

    write_bytes(path.with_suffix(".png"), _picture(figure, ".png"))
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "adaptive-step"}):
        text = _picture(figure, ".svg", metadata={"Date": None}).decode()
    write_text(path, text.replace(" <defs>\n", f"{_DARK_STYLE} <defs>\n", 1))


def _picture(figure: Figure, suffix: str, **options: Any) -> bytes:
    """A figure in the format of a file's suffix."""
    data = io.BytesIO()
    figure.savefig(data, format=suffix.removeprefix("."), **options)
    return data.getvalue()


def legend_below(figure: Figure, names: Sequence[str]) -> None:
    """Adds a legend below the axes and enlarges the figure by its rows, so that the axes keep their size."""
    columns = max(1, 90 // (8 + max(map(len, names))))
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + LEGEND_ROW_INCHES * ((len(names) - 1) // columns))
    figure.legend(loc="outside lower center", ncols=columns, fontsize=12, frameon=False)


def new_figure(size_inches: tuple[float, float] = SIZE_INCHES) -> Figure:
    """An empty figure."""
    from matplotlib.figure import Figure

    return Figure(figsize=size_inches, dpi=DOTS_PER_INCH, layout="constrained")


def style_axes(axes: Axes) -> None:
    """Sets the style of axes whose y-values are percentages."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=12)
    axes.set_ylim(-3, 111)
    axes.set_yticks(range(0, 101, 20))


def style_learning_axes(axes: Axes, samples: str) -> None:
    """Sets the style and the labels of the axes of learning curves; `samples` is the n of pass@n."""
    style_axes(axes)
    axes.set_xlabel("prompt tokens per task", fontsize=13)
    axes.set_ylabel(f"pass@{samples} (% of tasks)", fontsize=13)
    axes.locator_params("x", nbins=6)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def _powers_of_two(limit: int) -> list[int]:
    powers = [1 << bit for bit in range(limit.bit_length()) if 1 << bit <= limit]
    return powers if powers[-1:] == [limit] else [*powers, limit]


def _place_labels(figure: Figure, axes: Axes, points: Sequence[CurvePoint]) -> None:
    """Places each label near its point, where it covers neither a point nor an earlier label."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

    renderer = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    figure.draw_without_rendering()
    scale = figure.dpi / 72
    centres = [axes.transData.transform((point.tokens, 100 * point.pass_at_n)) for point in points]
    taken = [Bbox.from_bounds(x - 5 * scale, y - 5 * scale, 10 * scale, 10 * scale) for x, y in centres]
    taken += [Bbox.from_bounds(x, y, 1, 1) for line in axes.lines for x, y in _along(axes, line)]
    for point in points:
        note = axes.annotate(
            re.sub(r"_(\d+)$", r"$_{\1}$", point.label),  # the cycle as a subscript, as in the paper
            (point.tokens, 100 * point.pass_at_n),
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


def _along(axes: Axes, line: Line2D) -> Iterator[tuple[float, float]]:
    """Pixels along a polyline, so dense that a label which covers none of them does not cover the line."""
    corners = axes.transData.transform(line.get_xydata())
    for (x0, y0), (x1, y1) in pairwise(corners):
        steps = int(max(abs(x1 - x0), abs(y1 - y0)) // 8) + 1
        yield from ((x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps) for i in range(1, steps))


def title(index: int, label: str) -> str:
    """An iteration's name for people, `3: HM_2`; iterations count from 1, as in the paper's Figure 7."""
    return f"{index + 1}: {label}" if index >= 0 else f"validating {label}"


def learning_points(iterations: Iterable[IterationResult]) -> list[CurvePoint]:
    """The learning curve (paper, Figure 7), one point per iteration."""
    return [CurvePoint(it.tokens_prompt_per_task, it.pass_at_n, title(it.index, it.label)) for it in iterations]


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
    return [
        replace(
            best,
            successes=sum(count.successes for count in iteration.counts if count.task_key == best.task_key),
            samples=sum(count.samples for count in iteration.counts if count.task_key == best.task_key),
        )
        for iteration in iterations
        for best in final_counts([iteration])
    ]


def pass_at_k_curve(counts: Sequence[TaskCount], tasks: int, samples: int) -> list[float]:
    """pass@1 to pass@`samples`, from 0 to 1, averaged over all tasks.

    A solved task with fewer scored samples than k counts with all of them.
    """
    return [
        sum(estimated_pass_at_k(count.samples, count.successes, min(k, count.samples)) for count in counts) / tasks
        for k in range(1, samples + 1)
    ]


def draw_run(iterations: Sequence[IterationResult], tasks: int, samples: int, folder: Path) -> None:
    """Draws `learning_curve.png` and `pass_at_k.png` of at least one iteration into a folder.

    `samples` are those per task and temperature.
    """
    curves = {title(it.index, it.label): pooled_counts([it]) for it in iterations[:1]}
    if len(iterations) > 1:
        curves["all iterations"] = pooled_counts(iterations)
    most = max((count.samples for counts in curves.values() for count in counts), default=samples)
    learning_curve(learning_points(iterations), samples, folder / "learning_curve.png")
    values = {name: pass_at_k_curve(counts, tasks, most) for name, counts in curves.items()}
    pass_at_k(values, folder / "pass_at_k.png")
