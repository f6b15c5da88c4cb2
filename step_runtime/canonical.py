"""Keys under which programs count as the same.

`canonical_key` groups texts by isomorphic syntax tree (paper, Sections 3.1 and 6.2): a consistent renaming of
variables, comments and layout do not count. `graph_key` groups by dataflow graph: programs of one key compute
the same by the same primitives. Constants count with their type, and no key depends on Python's `hash`.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from step_runtime.parser import read
from step_runtime.printer import print_primitive
from step_runtime.program import Program, StreamId


def canonical_key(text: str, inputs: Sequence[str] = ()) -> str:
    """A digest of the text's syntax tree up to renaming; of the words themselves where it does not parse.

    `inputs` are the task's input names, which a `def body` may call otherwise.
    """
    return _tree_key(text, tuple(inputs))


@functools.lru_cache(maxsize=4096)
def _tree_key(text: str, inputs: tuple[str, ...]) -> str:
    source = read(text)
    if source.diagnostics:
        return "text:" + _digest(" ".join(text.split()))
    writer = _Writer()
    for index, parameter in enumerate(source.parameters or ()):
        known = inputs[index] if index < len(inputs) else f"parameter {index}"
        writer.names[parameter.arg] = known
    writer.write([*source.statements])
    return "tree:" + _digest("\n".join(writer.words))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


class _Writer:
    """Writes a syntax tree as words. Every binding gets a number; a use means the binding before it.

    Names that nothing binds stay. Fields come in the order in which names are bound: a value before its target.
    """

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.words: list[str] = []
        self._count = 0

    def write(self, value: Any) -> None:
        """Appends the words for a node, a list of nodes, or a constant, with its type."""
        if isinstance(value, ast.Name):
            self._name(value)
        elif isinstance(value, ast.AST):
            self._node(value)
        elif isinstance(value, list):
            self.words.append("[")
            for item in value:
                if not _is_text(item):
                    self.write(item)
            self.words.append("]")
        else:
            self.words.append(repr(value))

    def _name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Store):
            self.names[node.id] = f"variable {self._count}"
            self._count += 1
        self.words.append(self.names.get(node.id, node.id))

    def _node(self, node: ast.AST) -> None:
        kind = type(node)
        self.words.append(kind.__name__)
        if kind is ast.ListComp:
            outer = dict(self.names)
            self._fields(node, ("generators", "elt"))
            self.names = outer
        else:
            self._fields(node, _ORDER.get(kind, node._fields))

    def _fields(self, node: ast.AST, names: Sequence[str]) -> None:
        for name in names:
            if name != "ctx":
                self.write(getattr(node, name))


_ORDER: Mapping[type[ast.AST], Sequence[str]] = {
    ast.Assign: ("value", "targets"),
    ast.For: ("iter", "target", "body", "orelse"),
    ast.comprehension: ("iter", "target", "ifs", "is_async"),
}


def _is_text(node: Any) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def graph_key(program: Program, *, whole: bool = False) -> str:
    """A digest of the live part of a program's graph, whatever the order of independent primitives.

    Every stream is described by the primitive that made it, its place among the results and the descriptions
    of what that primitive consumed; Copy and Identity say nothing. Streams are checked for the affine rule
    before: the key tells what a program computes, not whether it may.

    With `whole`, primitives that no result depends on count too, as all of a program runs and any may fail.
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
        if whole or node.op.name in ("Merge", "Reshape"):
            effects.append(made)
    return _digest(f"{sorted(set(effects))} -> {[known[stream] for stream in program.results]}")
