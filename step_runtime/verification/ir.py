"""A checked program as JSON for compilers: `docs/verify.md` has every key."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from step_runtime.base.functions import Fn
from step_runtime.base.shapes import format_dim
from step_runtime.base.types import Buffer, DType, Element, Multihot, components_of
from step_runtime.program.graph import Node
from step_runtime.tasks.task import Task
from step_runtime.verification.task_costs import Priced

VERSION = 1


def ir_of(task: Task, priced: Priced) -> dict[str, Any]:
    """The graph, its types, functions and queues, at the sizes that it was priced at."""
    program, cost = priced.program, priced.cost
    streams = [
        {
            "id": number,
            "name": program.name(number),
            "dims": list(map(format_dim, kind.shape)),
            "dtype": _type(kind.dtype),
        }
        for number, kind in enumerate(priced.types)
    ]
    functions = [
        {"name": fn.func_name, "apply": fn.apply, "init": fn.init, "takes": _type(taken), "gives": _type(given)}
        for fn, (taken, given) in zip(task.fns, task.fn_types, strict=True)
    ]
    queues = [{**asdict(each), "bytes": each.bits / 8} for each in cost.queues]
    for each in queues:
        del each["bits"]
    return {
        "ir": VERSION,
        "task": task.name,
        "sizes": dict(cost.sizes),
        "inputs": list(range(len(program.inputs))),
        "results": list(program.results),
        "streams": streams,
        "nodes": [{"id": number, **_node(node)} for number, node in enumerate(program.nodes)],
        "functions": functions,
        "parameters": [{"name": spec.name, "dims": spec.dims, "dtype": spec.dtype} for spec in task.parameters],
        "queues": queues,
    }


def _node(node: Node) -> dict[str, Any]:
    config = {field.name: _value(getattr(node.op, field.name)) for field in fields(node.op)}
    span = node.span
    place = {"line": span.line, "column": span.column} if span else {"line": None, "column": None}
    return {
        "primitive": node.op.name,
        "config": config,
        "inputs": list(node.inputs),
        "outputs": list(node.outputs),
        **place,
    }


def _value(value: Any) -> Any:
    """A number of a configuration as it is, a function by its name, a dim as text."""
    if isinstance(value, Fn):
        return value.label
    if isinstance(value, tuple):
        return list(map(_value, value))
    return value if isinstance(value, int) else format_dim(value)


def _type(dtype: DType) -> list[dict[str, Any]]:
    """The components of an element."""
    return list(map(_component, components_of(dtype)))


def _component(element: Element) -> dict[str, Any]:
    inner = element.elem if isinstance(element, Buffer) else element
    length = format_dim(inner.length) if isinstance(inner, Multihot) else None
    dims = list(map(format_dim, element.dims)) if isinstance(element, Buffer) else []
    return {"format": element.format.name, "buffer": dims, "multihot": length}
