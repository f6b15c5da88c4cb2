"""Dataflow graph to canonical text: one primitive a line, streams named E<number> in order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import sympy

from step_runtime.base.functions import Fn
from step_runtime.base.shapes import format_dim
from step_runtime.primitives import Primitive
from step_runtime.program.graph import Node, Program, StreamId


def print_program(program: Program) -> str:
    """The program's text; `parse` gives the same graph back.

    The streams of a result list are written `E4[0]`; other results get a name each.
    """
    names: dict[StreamId, str] = dict(enumerate(program.inputs))
    fresh = (name for number in count() if (name := f"E{number}") not in program.inputs)
    lines = [print_node(node, names, fresh) for node in program.nodes]
    lines.append(f"return {', '.join(names[stream] for stream in program.results)}")
    return "\n".join(lines) + "\n"


def print_node(node: Node, names: dict[StreamId, str], fresh: Iterator[str]) -> str:
    """A node's line, whose results get fresh names, which are added to those of the streams."""
    listed = node.op.lists_results
    own = list(islice(fresh, 1 if listed else len(node.outputs)))
    argument = node.op.print_argument([names[stream] for stream in node.inputs])
    made = [f"{own[0]}[{index}]" for index in range(len(node.outputs))] if listed else own
    names |= zip(node.outputs, made, strict=True)
    return f"{', '.join(own)} = {print_primitive(node.op)}.apply({argument})"


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
