"""Reads PyTorch code for sources: a walk of the syntax tree at fixed sizes, which knows positions but no data.

Loops are unrolled, as their bounds are sizes. What is not understood is unread: an assignment of it leaves its names
unread, and what uses them.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pipeline.lms.embedded.dependence.recurrences import assigned, base_of, statements_of
from pipeline.lms.embedded.influence.arrays import Array, Unread, unknown
from pipeline.lms.embedded.influence.calls import called
from pipeline.lms.embedded.influence.language import (
    BUILT_IN,
    attribute,
    binary,
    changed,
    compared,
    decided,
    element,
    items_of,
    method,
    reading,
    unary,
    whole,
)

_MODULES = frozenset(("torch", "F", "nn", "functional", "linalg", "math", "special", "np", "numpy"))
_MOST_WORK = 12_000
"""Expressions that are read for one piece of code; more are unread."""
_PER_STEP = 1000
"""As many elements of a tensor count as one expression more."""
_DEEPEST = 40
_MOST_MET = 2000
"""The number of values of expressions that are kept."""


class _Missing:
    """The value of a name that could not be read."""


MISSING = _Missing()


@dataclass(frozen=True)
class Word:
    """A call by its name, which is not made yet."""

    name: str


@dataclass(frozen=True)
class Closure:
    """A function or a lambda of the code, with the names that it can see."""

    parameters: tuple[str, ...]
    defaults: tuple[Any, ...]
    body: tuple[ast.stmt, ...] | ast.expr
    names: dict[str, Any] = field(hash=False, compare=False)


class _Returned(Exception):
    def __init__(self, value: Any) -> None:
        self.value = value


class ArrayReader:
    """Reads snippets in an environment of names; `data` are inputs and weights, `sizes` those of the dims."""

    def __init__(self, data: Mapping[str, Array], sizes: Mapping[str, int]) -> None:
        self._data = data
        self._names: dict[str, Any] = {f"{name}_value": size for name, size in sizes.items()}
        self._work = 0
        self._depth = 0
        self.met: dict[int, Array] = {}
        """The arrays that expressions gave, and the products within matrix products, by identity."""

    def run(self, code: str, env: dict[str, Any]) -> Any:
        """The value of a snippet: what it returns, or its last line; `env` receives the names that it assigns.

        Raises:
            Unread: It could not be read.
        """
        self._work, self._depth = 0, 0
        return self._body(statements_of(code), env)

    def _body(self, body: Sequence[ast.stmt], env: dict[str, Any]) -> Any:
        try:
            return self._run(body, env)
        except _Returned as result:
            return result.value

    def _run(self, body: Sequence[ast.stmt], env: dict[str, Any]) -> Any:
        value: Any = None
        for statement in body:
            value = MISSING
            match statement:
                case ast.Return(value=ast.expr() as expression):
                    raise _Returned(self.value(expression, env))
                case ast.Expr(value=expression):
                    with suppress(Unread):
                        value = self._expression(expression, env)
                case _:
                    try:
                        self._statement(statement, env)
                    except Unread:
                        env |= dict.fromkeys(assigned([statement]), MISSING)
        if value is MISSING:
            raise Unread("the last line has no value that can be read")
        return value

    def _expression(self, node: ast.expr, env: dict[str, Any]) -> Any:
        try:
            return self.value(node, env)
        except Unread:
            match node:
                case ast.Call(func=ast.Attribute(value=owner, attr="append" | "extend" | "insert")):
                    env[base_of(owner)] = MISSING
            raise

    def _statement(self, statement: ast.stmt, env: dict[str, Any]) -> None:
        match statement:
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                self._assign(statement, env)
            case ast.FunctionDef(name=name, args=arguments, body=body):
                env[name] = self._closure(arguments, tuple(body), env)
            case ast.For(target=target, iter=items, body=body):
                for item in items_of(self.value(items, env)):
                    self._bind(target, item, env)
                    self._statements(body, env)
            case ast.If(test=test, body=body, orelse=others):
                self._statements(body if decided(self.value(test, env)) else others, env)
            case ast.With(body=body):
                self._statements(body, env)
            case ast.Pass() | ast.Import() | ast.ImportFrom() | ast.Assert():
                pass
            case _:
                raise Unread("a statement of an unknown kind")

    def _assign(self, statement: ast.Assign | ast.AnnAssign | ast.AugAssign, env: dict[str, Any]) -> None:
        if statement.value is None:
            return
        value = self.value(statement.value, env)
        match statement:
            case ast.Assign(targets=targets):
                for target in targets:
                    self._bind(target, value, env)
            case ast.AugAssign(target=target, op=op):
                before = self.value(target, env)
                with reading():
                    value = binary(op, before, value)
                self._bind(target, value, env)
            case ast.AnnAssign(target=target):
                self._bind(target, value, env)

    def _statements(self, body: Sequence[ast.stmt], env: dict[str, Any]) -> None:
        for statement in body:
            match statement:
                case ast.Expr(value=expression):
                    with suppress(Unread):
                        self._expression(expression, env)
                case ast.Return(value=ast.expr() as expression):
                    raise _Returned(self.value(expression, env))
                case _:
                    self._statement(statement, env)

    def _bind(self, target: ast.expr, value: Any, env: dict[str, Any]) -> None:
        match target:
            case ast.Name(id=name):
                env[name] = value
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                values = items_of(value)
                if len(values) != len(parts) or any(isinstance(part, ast.Starred) for part in parts):
                    raise Unread("values that do not fit their names")
                for part, own in zip(parts, values, strict=True):
                    self._bind(part, own, env)
            case ast.Subscript(value=ast.Name(id=name) as owner, slice=place):
                before, index = self.value(owner, env), self.value(place, env)
                with reading():
                    env[name] = changed(before, index, value)
            case _:
                raise Unread("a target of an unknown kind")

    # --- expressions ---

    def value(self, node: ast.expr, env: dict[str, Any]) -> Any:
        """The value of an expression.

        Raises:
            Unread: It could not be read.
        """
        self._work += 1
        if self._work > _MOST_WORK or self._depth > _DEEPEST:
            raise Unread("too much code")
        self._depth += 1
        try:
            with reading():
                value = self._value(node, env)
            if isinstance(value, Array):
                self._work += value.values.size // _PER_STEP
                self._meet(value)
            return value
        finally:
            self._depth -= 1

    def _meet(self, value: Array) -> None:
        if len(self.met) < _MOST_MET:
            self.met[id(value)] = value

    def _value(self, node: ast.expr, env: dict[str, Any]) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self._named(name, env)
            case ast.BinOp(op=op, left=left, right=right):
                one, other = self.value(left, env), self.value(right, env)
                if isinstance(op, ast.MatMult) and isinstance(one, Array) and isinstance(other, Array):
                    self._multiplied(one, other)
                return binary(op, one, other)
            case ast.UnaryOp(op=op, operand=operand):
                return unary(op, self.value(operand, env))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return compared(op, self.value(left, env), self.value(right, env))
            case ast.Subscript(value=owner, slice=place):
                return self._subscript(owner, place, env)
            case ast.Attribute():
                return self._attribute(node, env)
            case ast.Call():
                return self._call(node, env)
        return self._collected(node, env)

    def _multiplied(self, one: Array, other: Array) -> None:
        """Meets the products of elements that a matrix product adds."""
        if one.ndim > 1 and other.ndim > 1:
            with suppress(ValueError, Unread):
                self._meet(unknown(one.sources[..., :, :, None] | other.sources[..., None, :, :]))

    def _collected(self, node: ast.expr, env: dict[str, Any]) -> Any:
        """Sequences, slices, texts and decisions."""
        match node:
            case ast.Tuple(elts=parts):
                return tuple(self._each(parts, env))
            case ast.List(elts=parts):
                return self._each(parts, env)
            case ast.Slice(lower=lower, upper=upper, step=step):
                return slice(*(None if end is None else whole(self.value(end, env)) for end in (lower, upper, step)))
            case ast.ListComp(elt=item, generators=parts) | ast.GeneratorExp(elt=item, generators=parts):
                return self._comprehension(item, parts, env)
            case ast.Lambda(args=arguments, body=body):
                return self._closure(arguments, body, env)
            case ast.JoinedStr(values=parts):
                return "".join(str(self.value(part, env)) for part in parts)
            case ast.FormattedValue(value=part):
                return self.value(part, env)
        return self._chosen(node, env)

    def _chosen(self, node: ast.expr, env: dict[str, Any]) -> Any:
        match node:
            case ast.BoolOp(op=op, values=parts):
                decisions = [decided(self.value(part, env)) for part in parts]
                return all(decisions) if isinstance(op, ast.And) else any(decisions)
            case ast.IfExp(test=test, body=body, orelse=other):
                return self.value(body if decided(self.value(test, env)) else other, env)
        raise Unread("an expression of an unknown kind")

    def _named(self, name: str, env: dict[str, Any]) -> Any:
        value = env.get(name, MISSING)
        if value is MISSING:
            value = self._names.get(name, MISSING)
        if value is MISSING:
            raise Unread("a name that is not known")
        return value

    def _each(self, parts: Sequence[ast.expr], env: dict[str, Any]) -> list[Any]:
        values: list[Any] = []
        for part in parts:
            if isinstance(part, ast.Starred):
                values += items_of(self.value(part.value, env))
            else:
                values.append(self.value(part, env))
        return values

    def _subscript(self, owner: ast.expr, place: ast.expr, env: dict[str, Any]) -> Any:
        if isinstance(owner, ast.Name) and owner.id == "input_data" and owner.id not in env:
            return self._data[self.value(place, env)]
        return element(self.value(owner, env), self.value(place, env))

    def _attribute(self, node: ast.Attribute, env: dict[str, Any]) -> Any:
        if not _is_module(node.value, env):
            return attribute(self.value(node.value, env), node.attr)
        return getattr(math, node.attr) if node.attr in ("inf", "pi", "e") else Word(node.attr)

    def _comprehension(self, item: ast.expr, generators: Sequence[ast.comprehension], env: dict[str, Any]) -> list[Any]:
        first, *rest = generators
        found: list[Any] = []
        for one in items_of(self.value(first.iter, env)):
            inner = dict(env)
            self._bind(first.target, one, inner)
            if all(decided(self.value(test, inner)) for test in first.ifs):
                found += self._comprehension(item, rest, inner) if rest else [self.value(item, inner)]
        return found

    # --- calls ---

    def _closure(self, arguments: ast.arguments, body: tuple[ast.stmt, ...] | ast.expr, env: dict[str, Any]) -> Closure:
        names = tuple(argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))
        return Closure(names, tuple(self._each(arguments.defaults, env)), body, env)

    def _call(self, node: ast.Call, env: dict[str, Any]) -> Any:
        args = self._each(node.args, env)
        named = {keyword.arg: self.value(keyword.value, env) for keyword in node.keywords if keyword.arg}
        match node.func:
            case ast.Attribute(value=owner, attr=name) if not _is_module(owner, env):
                return method(self.value(owner, env), name, args, named)
            case ast.Name(id=name) if name not in env and name in BUILT_IN:
                return BUILT_IN[name](*args, **named)
        function = self.value(node.func, env)
        if isinstance(function, Closure):
            return self._apply(function, args, named)
        if not isinstance(function, Word):
            raise Unread("a call of something that is not known")
        if not function.name[:1].isupper():
            return called(function.name, args, named)
        if args or named:
            raise Unread("a module with settings")
        return Word(function.name.lower())  # A module, such as `nn.GELU()`, which is called later.

    def _apply(self, closure: Closure, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        defaults = dict(zip(closure.parameters[::-1], closure.defaults[::-1], strict=False))
        given = {**dict(zip(closure.parameters, args, strict=False)), **named}
        env = {**closure.names, **defaults, **given}
        if isinstance(closure.body, ast.expr):
            return self.value(closure.body, env)
        return self._body(closure.body, env)


def _is_module(node: ast.expr, env: Mapping[str, Any]) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in _MODULES and node.id not in env
