"""The costs of programs, as tables for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipeline.base.text import exact_number
from step_runtime.base.shapes import format_sizes
from step_runtime.base.units import FIGURES, UNITS, Figure
from step_runtime.cost.model import Spill
from step_runtime.program.printer import label
from step_runtime.verification.task_costs import Priced


def cost_table(priced: Priced, name: str, chip: str) -> str:
    """The figures of one program, then its primitives, queues, spills and critical path."""
    cost = priced.cost
    rows = [["figure", "value", "unit", "at least", "share"]]
    for figure in FIGURES:
        bound = _least(priced, figure)
        value = exact_number(cost.figure(figure))
        share = f"{bound / cost.figure(figure):.0%}" if bound and cost.figure(figure) else ""
        shown = "" if bound is None else exact_number(bound)
        rows.append([figure, value, UNITS[figure], shown, share])
    lines = [f"{name} at {format_sizes(cost.sizes)} on the {chip} chip", "", *aligned(rows, right={1, 3, 4}), ""]
    lines += [*aligned(_node_rows(priced), right={3, 4, 5, 6}), ""]
    for queue in cost.queues:
        where = f"queue of {priced.program.name(queue.stream)} before {node_label(priced, queue.node)}"
        lines.append(f"{where}: {exact_number(queue.length)} elements, {exact_number(queue.bits / 8)} bytes")
    lines += [_spill_line(priced, spill) for spill in cost.spills]
    if cost.parameters:
        lines.append(f"parameters: {exact_number(cost.parameters)} bytes, loaded once and held in the memory above")
    lines.append(f"transfers pass through {exact_number(cost.staging)} bytes: one element of every input and result")
    if cost.bounded:
        lines.append("dims that depend on the data count as their upper bounds")
    path = " > ".join(_named(priced, number) for number in cost.path)
    lines += [f"critical path: {path or 'the off-chip transfers'}", _roofline(priced)]
    return "\n".join(lines)


def _least(priced: Priced, figure: Figure) -> float | None:
    """What any program costs; other algebra may need fewer operations than the reference."""
    bound: float | None = None if figure == "operations" else getattr(priced.bound, figure, None)
    return bound


def _named(priced: Priced, number: int) -> str:
    """A primitive with the first of its streams that has a name in the program."""
    names = priced.program.names
    found = next((names[stream] for stream in priced.program.nodes[number].outputs if stream in names), None)
    return f"{found} = {node_label(priced, number)}" if found else node_label(priced, number)


def _roofline(priced: Priced) -> str:
    """What binds the time, and how far the other limits are."""
    cost = priced.cost
    parts = [
        f"off-chip transfers take {exact_number(cost.transfer)} cycles, {cost.transfer / cost.time:.0%} of the time"
    ]
    busy, number = max(((each.busy, -at) for at, each in enumerate(cost.nodes)), default=(0, 0))
    if busy:
        parts.append(f"the busiest function {exact_number(busy)}, {busy / cost.time:.0%} ({_named(priced, -number)})")
    parts.append(f"{cost.operations / cost.traffic if cost.traffic else 0.0:.3g} operations a byte")
    parts.append(f"{exact_number(cost.operations)} operations, the reference {exact_number(priced.bound.operations)}")
    return f"roofline: the {'critical path binds' if cost.path else 'transfers bind'}; {'; '.join(parts)}"


def comparison_table(programs: Sequence[tuple[str, Priced]]) -> str:
    """The figures of several programs, a line each, also as multiples of the first's."""
    first = programs[0][1]
    heads = [figure if figure == UNITS[figure] else f"{figure} [{UNITS[figure]}]" for figure in FIGURES]
    rows = [["program", *(cell for head in heads for cell in (head, ""))]]
    for number, (name, priced) in enumerate(programs):
        cells = []
        for figure in FIGURES:
            value, base = priced.cost.figure(figure), first.cost.figure(figure)
            cells += [exact_number(value), f"{value / base:.2f}x" if base and number else ""]
        rows.append([name, *cells])
    return "\n".join([
        f"at {format_sizes(first.cost.sizes)}", "", *aligned(rows, right=set(range(1, len(rows[0]), 2)))
    ])  # fmt: skip


def node_label(priced: Priced, number: int) -> str:
    """A primitive with its configuration, such as `Accum(fn=fn_sum, b=1)`."""
    return label(priced.program.nodes[number].op)


def cost_json(priced: Priced, name: str, chip: str) -> dict[str, Any]:
    """All that the tables show, for machines."""
    cost, program = priced.cost, priced.program
    return {
        "program": name,
        "chip": chip,
        "sizes": dict(cost.sizes),
        "figures": {
            figure: {
                "value": cost.figure(figure),
                "unit": UNITS[figure],
                "at_least": _least(priced, figure),
            }
            for figure in FIGURES
        },
        "reference_operations": priced.bound.operations,
        "loaded": cost.loaded,
        "tile": cost.tile,
        "parameters": cost.parameters,
        "transfer": cost.transfer,
        "staging": cost.staging,
        "bounded": cost.bounded,
        "nodes": [
            {
                "primitive": node_label(priced, number),
                "line": node.span.line if node.span else None,
                "results": [
                    {"name": program.name(stream), "type": str(priced.types[stream])} for stream in node.outputs
                ],
                "memory": spent.memory / 8,
                "operations": spent.operations,
                "busy": spent.busy,
                "critical": number in cost.path,
                "added": spent.added,
            }
            for number, (node, spent) in enumerate(zip(program.nodes, cost.nodes, strict=True))
        ],
        "queues": [
            {
                "before": node_label(priced, queue.node),
                "node": queue.node,
                "stream": program.name(queue.stream),
                "length": queue.length,
                "bytes": queue.bits / 8,
            }
            for queue in cost.queues
        ],
        "spills": [
            {
                "what": _held(priced, spill),
                "node": spill.node,
                "operand": spill.operand,
                "bytes": spill.bits / 8,
                "moved": spill.moved / 8,
            }
            for spill in cost.spills
        ],
        "critical_path": [node_label(priced, number) for number in cost.path],
    }


def aligned(rows: Sequence[Sequence[str]], right: set[int]) -> list[str]:
    """Rows as lines with columns of one width; those in `right` are aligned to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _node_rows(priced: Priced) -> list[list[str]]:
    rows = [["primitive", "gives", "type", "memory", "operations", "busy", "adds"]]
    cost = priced.cost
    for number, (node, spent) in enumerate(zip(priced.program.nodes, cost.nodes, strict=True)):
        rows.append(
            [
                node_label(priced, number),
                ", ".join(priced.program.name(stream) for stream in node.outputs),
                str(priced.types[node.outputs[0]]),
                exact_number(spent.memory / 8) if spent.memory else "",
                exact_number(spent.operations) if node.op.functions() else "",
                f"{spent.busy / priced.cost.time:.0%}" if node.op.functions() else "",
                f"{exact_number(spent.added)} ({spent.added / priced.cost.time:.0%})" if number in cost.path else "",
            ]
        )
    return rows


def _spill_line(priced: Priced, spill: Spill) -> str:
    saved, moved = exact_number(spill.bits / 8), exact_number(spill.moved / 8)
    return f"off chip: {_held(priced, spill)}, {saved} bytes; {moved} bytes written and read instead"


def _held(priced: Priced, spill: Spill) -> str:
    holder = node_label(priced, spill.node)
    if spill.operand is None:
        return f"what {holder} holds"
    return f"the queue of {priced.program.name(priced.program.nodes[spill.node].inputs[spill.operand])} before {holder}"
