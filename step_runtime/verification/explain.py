"""A program's dataflow as a table: every stream with its element type, its dims, and its primitive."""

from __future__ import annotations

from typing import NamedTuple

from step_runtime.language.parser import parse
from step_runtime.program.graph import Node, Program
from step_runtime.program.printer import label
from step_runtime.tasks.scope import Scope
from step_runtime.verification.check import Types, infer_types


class Explained(NamedTuple):
    """A program's graph with the type of every stream, as far as known."""

    program: Program
    types: Types

    def table(self) -> str:
        """One line a stream: its name, its type, the primitive that makes it, and that primitive's operands."""
        program = self.program
        rows = [(name, str(self.types[index]), "input") for index, name in enumerate(program.inputs)]
        rows += [row for node in program.nodes for row in self._rows(node)]
        width = [max(len(row[column]) for row in rows) for column in range(2)]
        lines = [f"{name:<{width[0]}}  {dtype:<{width[1]}}  {made}" for name, dtype, made in rows]
        results = ", ".join(program.name(stream) for stream in program.results)
        return "\n".join([*lines, f"returns {results or 'nothing'}"])

    def _rows(self, node: Node) -> list[tuple[str, str, str]]:
        made = f"{label(node.op)} of {', '.join(self.program.name(stream) for stream in node.inputs)}"
        if node.span is not None:
            made += f" (line {node.span.line})"
        return [
            (self.program.name(stream), "unknown" if self.types[stream] is None else str(self.types[stream]), made)
            for stream in node.outputs
        ]


def explain(text: str, scope: Scope) -> Explained:
    """The graph of a program text with all types that can be inferred, even if other parts are wrong."""
    program, _ = parse(text, scope)
    types, _ = infer_types(program, scope)
    return Explained(program, types)
