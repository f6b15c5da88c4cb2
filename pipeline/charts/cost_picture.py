"""A picture of what a program costs: its graph, with memory and time at each primitive and queues at the edges.

The SVG is written here, so that it needs no library and no system package.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from pipeline.base.text import exact_number
from pipeline.charts.layered import Edge, Layout, layered
from step_runtime.program.printer import print_primitive

if TYPE_CHECKING:
    from step_runtime.verification.costing import Priced

# Tints of Okabe and Ito's palette, on which black text is readable, and its colours for what stands out.
_FILL = {"compute": "#cfe6f5", "route": "#fde3b8", "copy": "#e8e8e8", "shape": "#d3efe4", "end": "#ffffff"}
_CRITICAL, _QUEUE, _LINE, _BAR = "#D55E00", "#D55E00", "#555555", "#0072B2"
_FONT = "DejaVu Sans, Helvetica, Arial, sans-serif"
_CHARACTER, _SMALL = 7.4, 6.2
"""Widths of a character of a node's label, and of one of an edge's."""
_MARGIN = 16.0


@dataclass(frozen=True)
class _Box:
    """A node of the picture; `share` of all cycles is what its function is busy for."""

    title: str
    lines: tuple[str, ...]
    kind: str
    share: float = 0.0
    critical: bool = False

    @property
    def size(self) -> tuple[float, float]:
        longest = max([len(self.title) * _CHARACTER, *(len(line) * _SMALL for line in self.lines)])
        return longest + 20, 26 + 14 * len(self.lines) + (8 if self.share else 0)


def draw_cost(priced: Priced) -> str:
    """The picture as SVG."""
    boxes = dict(_boxes(priced))
    edges, labels = _edges(priced)
    layout = layered({name: box.size for name, box in boxes.items()}, edges)
    parts = [_edge_svg(points, label) for points, label in zip(_trimmed(layout, edges, boxes), labels, strict=True)]
    parts += [_box_svg(boxes[name], *layout.nodes[name]) for name in boxes]
    width, height = layout.width + 2 * _MARGIN + _overhang(layout, edges), layout.height + 2 * _MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{-_MARGIN:.0f} {-_MARGIN:.0f} {width:.0f} {height:.0f}" font-family="{_FONT}">'
    )
    background = f'<rect x="{-_MARGIN}" y="{-_MARGIN}" width="100%" height="100%" fill="#ffffff"/>'
    arrow = (
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
        'markerUnits="userSpaceOnUse" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{_LINE}"/></marker></defs>'
    )
    return "\n".join([head, background, arrow, *parts, "</svg>"]) + "\n"


def _boxes(priced: Priced) -> Iterator[tuple[str, _Box]]:
    """Inputs, primitives and outputs, in topological order."""
    program, cost = priced.program, priced.cost
    for name in program.inputs:
        yield f"input {name}", _Box(name, (), "end")
    for number, (node, spent) in enumerate(zip(program.nodes, cost.nodes, strict=True)):
        lines = []
        if spent.memory:
            lines.append(f"{exact_number(spent.memory / 8)} bytes")
        if spent.operations:
            lines.append(f"{exact_number(spent.operations)} operations, {spent.busy / cost.time:.0%} busy")
        title = print_primitive(node.op).removeprefix("step.").removesuffix("()")
        yield f"node {number}", _Box(title, tuple(lines), node.op.kind, spent.busy / cost.time, number in cost.path)
    for number in range(len(program.results)):
        yield f"output {number}", _Box(f"output {number}", (), "end")


def _edges(priced: Priced) -> tuple[list[Edge], list[tuple[str, str]]]:
    """The edges, and for each the stream's type and, where elements wait, its queue."""
    program, queues = priced.program, {(queue.node, queue.operand): queue for queue in priced.cost.queues}
    source = {stream: f"input {name}" for stream, name in enumerate(program.inputs)}
    source |= {stream: f"node {number}" for number, node in enumerate(program.nodes) for stream in node.outputs}
    edges, labels = [], []
    ends = [
        (stream, f"node {number}", queues.get((number, operand)))
        for number, node in enumerate(program.nodes)
        for operand, stream in enumerate(node.inputs)
    ]
    ends += [(stream, f"output {number}", None) for number, stream in enumerate(program.results)]
    for stream, target, queue in ends:
        text = f"{program.name(stream)}: {priced.types[stream]}"
        waits = "" if queue is None else f"queue of {queue.length:,}, {exact_number(queue.bits / 8)} bytes"
        edges.append(Edge(source[stream], target, (max(len(text), len(waits)) * _SMALL + 12, 14.0)))
        labels.append((text, waits))
    return edges, labels


def _trimmed(layout: Layout, edges: list[Edge], boxes: dict[str, _Box]) -> Iterator[list[tuple[float, float]]]:
    """The points of each edge, from the lower side of its source to the upper side of its target."""
    for edge, points in zip(edges, layout.edges, strict=True):
        (x0, y0), *middle, (x1, y1) = points
        start = (x0, y0 + boxes[edge.source].size[1] / 2)
        end = (x1, y1 - boxes[edge.target].size[1] / 2)
        yield [start, *middle, end]


def _overhang(layout: Layout, edges: list[Edge]) -> float:
    """How far the labels reach beyond the rightmost place."""
    reach = [
        (points[0][0] + points[1][0]) / 2 + 6 + edge.label[0] for edge, points in zip(edges, layout.edges, strict=True)
    ]
    return max(0.0, max(reach, default=0.0) - layout.width)


def _edge_svg(points: list[tuple[float, float]], label: tuple[str, str]) -> str:
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        path += f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
    text, waits = label
    colour, width = (_QUEUE, 2.5) if waits else (_LINE, 1.2)
    x, y = (points[0][0] + points[1][0]) / 2 + 6, (points[0][1] + points[1][1]) / 2
    lines = [f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}" marker-end="url(#arrow)"/>']
    lines.append(_text(x, y - (3 if waits else -4), text, 10, "#333333"))
    if waits:
        lines.append(_text(x, y + 10, waits, 10, _QUEUE, bold=True))
    return "\n".join(lines)


def _box_svg(box: _Box, x: float, y: float) -> str:
    width, height = box.size
    left, top = x - width / 2, y - height / 2
    stroke, thick = (_CRITICAL, 2.2) if box.critical else (_LINE, 1.0)
    rounded = height / 2 if box.kind == "end" else 6
    lines = [
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{rounded:.1f}" '
        f'fill="{_FILL[box.kind]}" stroke="{stroke}" stroke-width="{thick}"/>',
        _text(x, top + 18, box.title, 12, "#000000", anchor="middle"),
    ]
    for number, line in enumerate(box.lines):
        lines.append(_text(x, top + 33 + 14 * number, line, 10, "#333333", anchor="middle"))
    if box.share:
        bar = (width - 16) * min(1.0, box.share)
        lines.append(
            f'<rect x="{left + 8:.1f}" y="{top + height - 9:.1f}" width="{bar:.1f}" height="4" fill="{_BAR}"/>'
        )
    return "\n".join(lines)


def _text(x: float, y: float, text: str, size: int, colour: str, *, anchor: str = "start", bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    # Labels of edges may lie on other edges.
    halo = ' stroke="#ffffff" stroke-width="3" paint-order="stroke"' if anchor == "start" else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}"{weight}{halo}>'
        f"{escape(text)}</text>"
    )
