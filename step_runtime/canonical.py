"""Keys under which programs count as the same.

`canonical_key` groups texts by isomorphic syntax tree (paper, Sections 3.1 and 6.2): a consistent renaming of
variables, comments and layout do not count. `graph_key` groups by dataflow graph: programs of one key compute
the same by the same primitives.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Sequence
from typing import Any

from step_runtime.parser import read
from step_runtime.printer import print_primitive
from step_runtime.program import Program, StreamId


def canonical_key(text: str, inputs: Sequence[str] = ()) -> str:
    """A digest of the text's syntax tree up to renaming; of the words themselves where it does not parse.

    `inputs` are the task's input names, which a `def body` may call otherwise.
    """
    source = read(text)
    if source.diagnostics:
        return "text:" + _digest(" ".join(text.split()))
    renamer = _Renamer()
    for index, parameter in enumerate(source.parameters or ()):
        known = inputs[index] if index < len(inputs) else f"parameter {index}"
        renamer.names[parameter.arg] = known
    statements = [s for s in source.statements if not _is_text(s)]
    return "tree:" + _digest("\n".join(ast.dump(renamer.statement(s)) for s in statements))


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


class _Renamer(ast.NodeTransformer):
    """Numbers every binding in order; a use means the binding before it, and other names stay."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.count = 0

    def statement(self, node: ast.stmt) -> ast.AST:
        result: ast.AST = self.visit(node)
        return result

    def visit_Assign(self, node: ast.Assign) -> Any:
        # The value is read before its target is bound.
        value = self.visit(node.value)
        return ast.Assign([self.visit(target) for target in node.targets], value)

    def visit_For(self, node: ast.For) -> Any:
        iterable = self.visit(node.iter)
        target = self.visit(node.target)
        return ast.For(target, iterable, [self.visit(s) for s in node.body if not _is_text(s)], [])

    def visit_ListComp(self, node: ast.ListComp) -> Any:
        outer = dict(self.names)
        generators = []
        for generator in node.generators:
            iterable = self.visit(generator.iter)
            generators.append(ast.comprehension(self.visit(generator.target), iterable, generator.ifs, 0))
        result = ast.ListComp(self.visit(node.elt), generators)
        self.names = outer
        return result

    def visit_Name(self, node: ast.Name) -> Any:
        if isinstance(node.ctx, ast.Store):
            self.names[node.id] = f"variable {self.count}"
            self.count += 1
        return ast.Name(self.names.get(node.id, node.id), node.ctx)


def graph_key(program: Program) -> str:
    """A digest of the live part of a program's graph, whatever the order of independent primitives.

    Every stream is described by the primitive that made it, its place among the results and the descriptions
    of what that primitive consumed; Copy and Identity say nothing. Streams are checked for the affine rule
    before: the key tells what a program computes, not whether it may.
    """
    known: dict[StreamId, str] = {i: f"input {name}" for i, name in enumerate(program.inputs)}
    effects = []
    for node in program.nodes:
        operands = ",".join(known[stream] for stream in node.inputs)
        if node.op.name in ("Copy", "Identity"):
            known |= dict.fromkeys(node.outputs, known[node.inputs[0]])
            continue
        made = _digest(f"{print_primitive(node.op)}({operands})")
        known |= {stream: f"{made}.{index}" for index, stream in enumerate(node.outputs)}
        # A Merge may fail on its data even where nothing uses its result.
        if node.op.name in ("Merge", "Reshape"):
            effects.append(made)
    return _digest(f"{sorted(set(effects))} -> {[known[stream] for stream in program.results]}")
