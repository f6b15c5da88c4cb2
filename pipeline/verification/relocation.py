"""A verdict told of one text, retold of another with the same syntax tree: its own lines and places.

What a run finds names outputs, functions and sizes, which both texts call alike, and no variable.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from step_runtime.base.errors import Span
from step_runtime.language.collector import Findings
from step_runtime.language.parser import Source, read
from step_runtime.verification.verify import Verdict


def requoted(told: Verdict, judged: str, text: str) -> Verdict | None:
    """The verdict on `judged` as one on `text`; None where their syntax trees differ."""
    one, other = read(judged), read(text)
    if one.diagnostics or other.diagnostics:
        return None
    here, there = _Places(one), _Places(other)
    places: dict[Span | None, Span | None] = {None: None}
    for a, b in _pairs(one, other):
        if a is None or b is None or type(a) is not type(b):
            return None
        if isinstance(a, ast.expr | ast.stmt):
            places[here.span(a)] = there.span(b)
    if not all(diagnostic.span in places for diagnostic in told.diagnostics):
        return None
    return replace(told, diagnostics=tuple(replace(d, span=places[d.span]) for d in told.diagnostics))


class _Places(Findings):
    def __init__(self, source: Source) -> None:
        super().__init__(source.lines, source.indent)


def _pairs(one: Source, other: Source) -> Iterator[tuple[ast.AST | None, ast.AST | None]]:
    """The nodes of both trees, those in the same place together; texts that stand alone, as docstrings do, left out."""
    left: list[tuple[list[ast.AST], list[ast.AST]]] = [([*one.statements], [*other.statements])]
    while left:
        here, there = (_without_texts(nodes) for nodes in left.pop())
        for index in range(max(len(here), len(there))):
            a = here[index] if index < len(here) else None
            b = there[index] if index < len(there) else None
            yield a, b
            if a is not None and b is not None:
                left.append((list(ast.iter_child_nodes(a)), list(ast.iter_child_nodes(b))))


def _without_texts(nodes: list[ast.AST]) -> list[ast.AST]:
    return [node for node in nodes if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
