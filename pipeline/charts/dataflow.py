"""Pictures of a program's dataflow, drawn by Graphviz: primitives as boxes, streams as edges, and their costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.base.errors import UsageError
from pipeline.base.files import write_bytes
from pipeline.base.text import exact_number
from step_runtime.cost.model import Cost
from step_runtime.program.printer import label
from step_runtime.verification.explain import Explained
from step_runtime.verification.task_costs import Priced

# Tints of Okabe and Ito's palette, on which black text is readable, and a colour for what stands out.
_FILL = {"compute": "#cfe6f5", "route": "#fde3b8", "copy": "#e8e8e8", "shape": "#d3efe4"}
_STANDS_OUT = "#D55E00"
MAX_PRIMITIVES = 300
"""More are no picture that anybody could read, and Graphviz may take hours to place them."""
_FONT = "DejaVu Sans, Helvetica, Arial, sans-serif"


def draw_cost(priced: Priced, path: Path) -> None:
    """Draws the dataflow graph as SVG, with memory and time at each primitive, and queues at the edges.

    Raises:
        UsageError: Graphviz is not installed, the program is too large to be drawn, or the file cannot be written.
    """
    draw(Explained(priced.program, [*priced.types]), path, priced.cost)


def draw(explained: Explained, path: Path, cost: Cost | None = None) -> None:
    """As `draw_cost`, of any program, whose edges have element type and dims."""
    try:
        import pygraphviz
    except ImportError:
        raise UsageError("--svg needs Graphviz: pip install 'adaptive-step[graph]'") from None
    if len(explained.program.nodes) > MAX_PRIMITIVES:
        found = f"{len(explained.program.nodes):,} primitives"
        raise UsageError(f"--svg: expected a program of at most {MAX_PRIMITIVES} primitives, found {found}")
    graph = pygraphviz.AGraph(directed=True, rankdir="TB", fontname=_FONT, nodesep="0.4", ranksep="0.5")
    graph.node_attr.update(fontname=_FONT, fontsize="12", shape="box", style="filled,rounded", color="#555555")
    graph.edge_attr.update(fontname=_FONT, fontsize="10", color="#555555", fontcolor="#333333")
    _fill(graph, explained, cost)
    picture: bytes = graph.draw(format="svg", prog="dot")
    write_bytes(path, picture)


def _fill(graph: Any, explained: Explained, cost: Cost | None) -> None:
    program, types = explained
    source: dict[int, str] = {}
    queues = {(queue.node, queue.operand): queue for queue in cost.queues} if cost else {}
    for stream, name in enumerate(program.inputs):
        source[stream] = f"input {name}"
        graph.add_node(source[stream], label=name, shape="ellipse", fillcolor="#ffffff")
    for index, node in enumerate(program.nodes):
        key, text = f"node {index}", label(node.op)
        stands_out = {"color": _STANDS_OUT, "penwidth": "2"} if cost and index in cost.path else {}
        if cost:
            text = "\n".join([text, *_node_cost(cost, index)])
        graph.add_node(key, label=text, fillcolor=_FILL[node.op.kind], **stands_out)
        source |= dict.fromkeys(node.outputs, key)
        for operand, stream in enumerate(node.inputs):
            text, stands_out = f" {program.name(stream)}: {types[stream] or 'unknown'} ", {}
            if queue := queues.get((index, operand)):
                text += f"\nqueue of {queue.length:,}, {exact_number(queue.bits / 8)} bytes"
                stands_out = {"color": _STANDS_OUT, "fontcolor": _STANDS_OUT, "penwidth": "2.5"}
            graph.add_edge(source[stream], key, label=text, **stands_out)
    for number, stream in enumerate(program.results):
        key = f"output {number}"
        graph.add_node(key, label=key, shape="ellipse", fillcolor="#ffffff")
        graph.add_edge(source[stream], key, label=f" {program.name(stream)}: {types[stream] or 'unknown'} ")


def _node_cost(cost: Cost, index: int) -> list[str]:
    """What one primitive holds, and what its function takes."""
    spent, lines = cost.nodes[index], []
    if spent.memory:
        lines.append(f"{exact_number(spent.memory / 8)} bytes")
    if spent.operations:
        lines.append(f"{exact_number(spent.operations)} operations, {spent.busy / cost.time:.0%} busy")
    return lines
