"""A picture of a program's dataflow, drawn by Graphviz."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.base.errors import UsageError

if TYPE_CHECKING:
    from step_runtime.verification.explain import Explained

# Tints of Okabe and Ito's palette, on which black text is readable.
_FILL = {"compute": "#cfe6f5", "route": "#fde3b8", "copy": "#e8e8e8", "shape": "#d3efe4"}
_FONT = "DejaVu Sans, Helvetica, Arial, sans-serif"


def draw(explained: Explained, path: Path) -> None:
    """Draws the dataflow graph: primitives as boxes, streams as edges with element type and dims.

    Args:
        explained: The program and the types of its streams.
        path: Path of the picture, which ends in `.svg`, `.png` or `.pdf`.

    Raises:
        UsageError: Graphviz is not installed, `path` ends otherwise, or the file cannot be written.
    """
    if path.suffix not in (".svg", ".png", ".pdf"):
        raise UsageError(f"{path}: expected a file name that ends in .svg, .png or .pdf")
    try:
        import pygraphviz
    except ImportError:
        raise UsageError("--graph needs Graphviz: pip install 'adaptive-step[graph]'") from None
    graph = pygraphviz.AGraph(directed=True, rankdir="TB", fontname=_FONT, nodesep="0.4", ranksep="0.5")
    graph.node_attr.update(fontname=_FONT, fontsize="12", shape="box", style="filled,rounded", color="#555555")
    graph.edge_attr.update(fontname=_FONT, fontsize="10", color="#555555", fontcolor="#333333")
    _fill(graph, explained)
    try:
        graph.draw(str(path), prog="dot")
    except OSError as error:
        raise UsageError(f"{path}: cannot write the picture: {error.strerror or error}") from None


def _fill(graph: Any, explained: Explained) -> None:
    program, types = explained
    source: dict[int, str] = {}
    for stream, name in enumerate(program.inputs):
        source[stream] = f"input {name}"
        graph.add_node(source[stream], label=name, shape="ellipse", fillcolor="#ffffff")
    for index, node in enumerate(program.nodes):
        key = f"node {index}"
        graph.add_node(key, label=explained.label(node), fillcolor=_FILL[node.op.kind])
        source |= dict.fromkeys(node.outputs, key)
        for stream in node.inputs:
            graph.add_edge(source[stream], key, label=f" {program.name(stream)}: {types[stream] or 'unknown'} ")
    for number, stream in enumerate(program.results):
        key = f"output {number}"
        graph.add_node(key, label=f"output {number}", shape="ellipse", fillcolor="#ffffff")
        graph.add_edge(source[stream], key, label=f" {program.name(stream)}: {types[stream] or 'unknown'} ")
