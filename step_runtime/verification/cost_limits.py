"""What a task demands of its programs' cost, and how a program that costs more is reported."""

from __future__ import annotations

from step_runtime.base.errors import Diagnostic
from step_runtime.base.measures import UNITS, Figure
from step_runtime.base.shapes import format_dim, format_sizes, upper_bound
from step_runtime.cost.model import Cost
from step_runtime.program.graph import Node, Program
from step_runtime.program.printer import label
from step_runtime.tasks.task import Task

_HINTS: dict[Figure, str] = {
    "memory": "hold less at a time: fold elements as they come, and let no stream wait for another",
    "traffic": "read every input once, and return no more than the outputs",
    "operations": "compute what repeats once, and before it is repeated",
    "time": "let functions work on streams at the same time, and reduce before the slow ones",
    "queue": "make both ways of a copied stream equally long, e.g. combine after the reduction and not before",
}


def over_limits(task: Task, program: Program, cost: Cost) -> list[Diagnostic]:
    """A finding for each limit of the task that a program exceeds, at the primitive that costs most."""
    found = []
    for figure, limit in task.cost_limits.items():
        most, value = upper_bound(limit, cost.sizes), cost.figure(figure)
        if value <= most:
            continue
        written = format_dim(limit) if limit != 0 else "0"
        shown = f"{most:,}" if written in (f"{most}", "0") else f"{written} = {most:,}"
        message = f"the program's {figure} is {value:,} {UNITS[figure]}; the task's limit is {shown}"
        node, why = _costliest(figure, program, cost)
        names = sorted(symbol.name for symbol in limit.free_symbols)
        where = [f"at {format_sizes({name: cost.sizes[name] for name in names or cost.sizes})}"]
        bounded = ["dims that depend on the data count as their upper bounds"] if cost.bounded else []
        span = program.result_span if node is None else node.span
        details = (*([why] if why else []), *where, *bounded)
        found.append(Diagnostic("cost", f"cost-{figure}", message, span, details, _HINTS[figure]))
    return found


def _costliest(figure: Figure, program: Program, cost: Cost) -> tuple[Node | None, str]:
    """The primitive that costs most, and what it costs; None where no single one does."""
    candidates: list[tuple[float, int, str]] = []
    for number, spent in enumerate(cost.nodes):
        name = label(program.nodes[number].op)
        if figure == "memory":
            candidates.append((spent.memory, number, f"{name} holds {spent.memory / 8:,.10g} bytes"))
        elif figure == "operations":
            candidates.append((spent.operations, number, f"{name} takes {spent.operations:,} operations"))
        elif figure == "time" and cost.path:
            candidates.append((spent.added, number, f"{name} adds {spent.added:,} cycles to the critical path"))
    for queue in cost.queues if figure in ("memory", "queue") else ():
        name = label(program.nodes[queue.node].op)
        waits = f"operand {queue.operand} of {name} waits in a queue of {queue.length:,} elements"
        amount = queue.bits if figure == "memory" else queue.length
        candidates.append((amount, queue.node, f"{waits}, {queue.bits / 8:,.10g} bytes"))
    most, number, why = max(candidates, default=(0, 0, ""), key=lambda candidate: candidate[0])
    return (program.nodes[number], why) if most else (None, "")
