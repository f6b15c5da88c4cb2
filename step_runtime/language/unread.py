"""Code that a program holds and no walk comes to: the bodies of loops over nothing.

It must be of the language's forms, and use names that the scope or the program binds, so that a program is never a
carrier of other code. Values are not known there, so nothing else is checked.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from step_runtime.base.syntax import BUILTINS
from step_runtime.language import hints
from step_runtime.primitives import PRIMITIVES

Finding = tuple[str, hints.Advice, ast.AST]
"""A code, the advice, and the place."""


class UnreadCode:
    """The foreign syntax in code that is not walked.

    Args:
        known: The scope's names, with their values.
        program: The statements of the whole program.
        spend: Called with each node.
    """

    def __init__(self, known: Mapping[str, Any], program: Sequence[ast.stmt], spend: Callable[[ast.AST], None]) -> None:
        self._known, self._program, self._spend = known, program, spend

    @cached_property
    def _bound(self) -> frozenset[str]:
        """The names that the program binds, anywhere."""
        nodes = (node for statement in self._program for node in ast.walk(statement))
        return frozenset(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))

    def statements(self, block: Sequence[ast.stmt]) -> Iterator[Finding]:
        """Of statements; loops with all that they hold."""
        for statement in block:
            self._spend(statement)
            match statement:
                case ast.Assign(targets=targets, value=value):
                    yield from self._all(value)
                    for target in targets:
                        yield from self.target(target)
                case ast.Expr(value=ast.Constant(value=str())):
                    pass
                case ast.Expr(value=ast.Call(func=ast.Attribute(value=name, attr="append"), args=[item], keywords=[])):
                    yield from self._all(name, item)
                case ast.For(target=target, iter=iterable, body=body, orelse=[]):
                    yield from self._all(iterable)
                    yield from self.target(target)
                    yield from self.statements(body)
                case ast.Return(value=ast.expr() as value):
                    yield from self._all(value)
                case _:
                    yield "statement", hints.statement(statement), statement

    def target(self, node: ast.expr) -> Iterator[Finding]:
        """Of what a value is bound to."""
        self._spend(node)
        match node:
            case ast.Name():
                pass
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    yield from self.target(part)
            case ast.Starred(value=inner):
                yield from self.target(inner)
            case _:
                yield "assign", hints.target(node), node

    def generators(self, generators: Sequence[ast.comprehension]) -> Iterator[Finding]:
        """Of the loops of a comprehension."""
        for each in generators:
            yield from self._all(each.iter)
            yield from self.target(each.target)
            if each.ifs or each.is_async:
                yield "comprehension", ("a comprehension cannot have a condition", None), each.target

    def expression(self, node: ast.expr) -> Iterator[Finding]:
        """Of an expression."""
        self._spend(node)
        match node:
            case ast.Name(id=name):
                if name == "step" or (name not in self._known and name not in self._bound):
                    yield "name", hints.unknown_name(name, self._known), node
            case ast.Constant(value=int(number)) if not isinstance(number, bool):
                pass
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                yield from self._all(*(part.value if isinstance(part, ast.Starred) else part for part in parts))
            case ast.ListComp(elt=element, generators=generators):
                yield from self.generators(generators)
                yield from self._all(element)
            case ast.Subscript(value=value, slice=index):
                bounds = [index.lower, index.upper, index.step] if isinstance(index, ast.Slice) else [index]
                yield from self._all(value, *(part for part in bounds if part is not None))
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv(), right=right):
                yield from self._all(left, right)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                yield from self._all(operand)
            case ast.Call():
                yield from self._call(node)
            case _:
                yield "expression", hints.expression(node), node

    def _all(self, *nodes: ast.expr) -> Iterator[Finding]:
        for node in nodes:
            yield from self.expression(node)

    def _call(self, node: ast.Call) -> Iterator[Finding]:
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Call() as made, attr="apply"), args=[argument], keywords=[]):
                yield from self._primitive(made)
                yield from self._all(argument)
            case ast.Call(func=ast.Name(id=name), keywords=[]) if name in BUILTINS:
                yield from self._all(*node.args)
            case _:
                yield "call", hints.call(node, self._known), node

    def _primitive(self, made: ast.Call) -> Iterator[Finding]:
        match made.func:
            case ast.Attribute(value=ast.Name(id="step"), attr=name) if name in PRIMITIVES:
                wrong = [word for word in made.keywords if word.arg not in PRIMITIVES[name].config_names()]
                if wrong:
                    yield "config", (f"{name} has no {wrong[0].arg or '**'}", f"write {hints.usage(name)}"), made
                yield from self._all(*made.args, *(word.value for word in made.keywords))
            case _:
                yield "call", hints.call(made, self._known), made
