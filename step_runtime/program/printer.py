"""Dataflow graph to canonical text: one primitive a line, streams named E<number> in order."""

from __future__ import annotations

from typing import Any

import sympy

from step_runtime.base.functions import Fn
from step_runtime.base.shapes import format_dim
from step_runtime.primitives import Primitive
from step_runtime.program.graph import Program, StreamId


def print_program(program: Program) -> str:
    """The program's text; `parse` gives the same graph back.

    The streams of a result list are written `E4[0]`; other results get a name each.
    """
    names: dict[StreamId, str] = dict(enumerate(program.inputs))
    taken = set(program.inputs)
    number = 0
    lines = []
    for node in program.nodes:
        fresh = []
        for _ in range(1 if node.op.lists_results else len(node.outputs)):
            while f"E{number}" in taken:
                number += 1
            fresh.append(f"E{number}")
            taken.add(fresh[-1])
        if node.op.lists_results:
            names |= {stream: f"{fresh[0]}[{index}]" for index, stream in enumerate(node.outputs)}
        else:
            names |= dict(zip(node.outputs, fresh, strict=True))
        argument = node.op.print_argument([names[stream] for stream in node.inputs])
        lines.append(f"{', '.join(fresh)} = {print_primitive(node.op)}.apply({argument})")
    lines.append(f"return {', '.join(names[stream] for stream in program.results)}")
    return "\n".join(lines) + "\n"


def print_primitive(op: Primitive) -> str:
    """`step.NAME(config)`."""
    config = ", ".join(f"{name}={_value(getattr(op, name))}" for name in op.config_names())
    return f"step.{op.name}({config})"


def label(op: Primitive) -> str:
    """The primitive with its configuration, for people: `Accum(fn=fn_sum, b=1)`, `Copy`."""
    return print_primitive(op).removeprefix("step.").removesuffix("()")


def _value(value: Any) -> str:
    if isinstance(value, Fn):
        return value.label
    if isinstance(value, sympy.Expr):
        return format_dim(value)
    return str(list(value)) if isinstance(value, tuple) else str(value)
