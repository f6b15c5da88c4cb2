"""Reads PyTorch code for sources: a walk of the syntax tree at fixed sizes, which knows positions but no data.

Loops are unrolled, as their bounds are sizes. What is not understood is unread: an assignment of it leaves its names
unread, and what uses them.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pipeline.lms.embedded.dependence.recurrences import assigned, base_of, statements_of
from pipeline.lms.embedded.influence.arrays import (
    Array,
    Unread,
    as_array,
    both,
    either,
    minus,
    over,
    plus,
    pointwise,
    product,
    reduced,
    times,
    unknown,
)
from pipeline.lms.embedded.influence.calls import CALLS, power
from pipeline.lms.embedded.influence.shape_calls import turned, turned_matrices

_MODULES = frozenset(("torch", "F", "nn", "functional", "linalg", "math", "special", "np", "numpy"))
_ERRORS = (TypeError, ValueError, IndexError, KeyError, AttributeError, ArithmeticError, RecursionError, OverflowError)
"""What misread code raises: shapes that do not fit, arguments that a call does not have."""
_NUMBERS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: plus, ast.Sub: minus, ast.Mult: times, ast.Div: over, ast.MatMult: product, ast.Pow: power,
    ast.BitAnd: both, ast.BitOr: either, ast.BitXor: CALLS["logical_xor"], ast.FloorDiv: CALLS["floor_divide"],
    ast.Mod: CALLS["remainder"],
}  # fmt: skip
_COMPARED: dict[type[ast.cmpop], tuple[Callable[[Any, Any], Any], str]] = {
    ast.Gt: (operator.gt, "gt"), ast.Lt: (operator.lt, "lt"), ast.GtE: (operator.ge, "ge"),
    ast.LtE: (operator.le, "le"), ast.Eq: (operator.eq, "eq"), ast.NotEq: (operator.ne, "ne"),
}  # fmt: skip
_MOST_WORK = 12_000
"""Expressions that are read for one piece of code; more are unread."""
_DEEPEST = 40
_LARGEST_POWER = 64


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
            raise Unread("the last line is no value that can be read")
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
            case ast.Assign(targets=targets, value=expression):
                value = self.value(expression, env)
                for target in targets:
                    self._bind(target, value, env)
            case ast.AnnAssign(target=target, value=ast.expr() as expression):
                self._bind(target, self.value(expression, env), env)
            case ast.AugAssign(target=target, op=op, value=expression):
                self._bind(target, self._binary(op, self.value(target, env), self.value(expression, env)), env)
            case ast.FunctionDef(name=name, args=arguments, body=body):
                env[name] = self._closure(arguments, tuple(body), env)
            case ast.For(target=target, iter=items, body=body):
                for item in self._items(self.value(items, env)):
                    self._bind(target, item, env)
                    self._statements(body, env)
            case ast.If(test=test, body=body, orelse=others):
                self._statements(body if self._decided(self.value(test, env)) else others, env)
            case ast.With(body=body):
                self._statements(body, env)
            case ast.Pass() | ast.Import() | ast.ImportFrom() | ast.Assert():
                pass
            case _:
                raise Unread("a statement of an unknown kind")

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

    @staticmethod
    def _decided(value: Any) -> bool:
        if isinstance(value, Array):
            return bool(value.known())
        return bool(value)

    def _items(self, value: Any) -> Sequence[Any]:
        if isinstance(value, Array):
            return [value.through(lambda part: part[place]) for place in range(len(value.values))]  # noqa: B023
        if isinstance(value, list | tuple | range | dict):
            return list(value)
        raise Unread("a sequence that is not known")

    def _bind(self, target: ast.expr, value: Any, env: dict[str, Any]) -> None:
        match target:
            case ast.Name(id=name):
                env[name] = value
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                values = self._items(value)
                if len(values) != len(parts) or any(isinstance(part, ast.Starred) for part in parts):
                    raise Unread("values that do not fit their names")
                for part, own in zip(parts, values, strict=True):
                    self._bind(part, own, env)
            case ast.Subscript(value=ast.Name(id=name) as owner, slice=place):
                whole = self.value(owner, env)
                env[name] = self._changed(whole, self.value(place, env), value)
            case _:
                raise Unread("a target of an unknown kind")

    def _changed(self, whole: Any, place: Any, value: Any) -> Any:
        """A tensor or list with a part replaced."""
        if isinstance(whole, list):
            whole[place] = value
            return whole
        part, index = as_array(value), self._index(place)
        if not isinstance(whole, Array) or index is None:
            raise Unread("a part that data choose")
        kind = np.result_type(whole.sources, part.sources)
        sources, values = whole.sources.astype(kind), whole.values.copy()
        with _reading():
            sources[index], values[index] = part.sources, part.values
        return Array(sources, values)

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
            with _reading():
                return self._value(node, env)
        finally:
            self._depth -= 1

    def _value(self, node: ast.expr, env: dict[str, Any]) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self._named(name, env)
            case ast.Tuple(elts=parts):
                return tuple(self._each(parts, env))
            case ast.List(elts=parts):
                return self._each(parts, env)
            case ast.BinOp(op=op, left=left, right=right):
                return self._binary(op, self.value(left, env), self.value(right, env))
            case ast.UnaryOp(op=op, operand=operand):
                return self._unary(op, self.value(operand, env))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return self._compared(op, self.value(left, env), self.value(right, env))
            case ast.BoolOp(op=op, values=parts):
                decisions = [self._decided(self.value(part, env)) for part in parts]
                return all(decisions) if isinstance(op, ast.And) else any(decisions)
            case ast.IfExp(test=test, body=body, orelse=other):
                return self.value(body if self._decided(self.value(test, env)) else other, env)
            case ast.Subscript(value=whole, slice=place):
                return self._subscript(whole, place, env)
            case ast.Slice(lower=lower, upper=upper, step=step):
                ends = (None if end is None else self.value(end, env) for end in (lower, upper, step))
                return slice(*(int(end.known()) if isinstance(end, Array) else end for end in ends))
            case ast.Attribute():
                return self._attribute(node, env)
            case ast.Call():
                return self._call(node, env)
            case ast.ListComp(elt=item, generators=parts) | ast.GeneratorExp(elt=item, generators=parts):
                return self._comprehension(item, parts, env)
            case ast.Lambda(args=arguments, body=body):
                return self._closure(arguments, body, env)
            case ast.JoinedStr(values=parts):
                return "".join(str(self.value(part, env)) for part in parts)
            case ast.FormattedValue(value=part):
                return self.value(part, env)
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
                values += self._items(self.value(part.value, env))
            else:
                values.append(self.value(part, env))
        return values

    def _binary(self, op: ast.operator, left: Any, right: Any) -> Any:
        if not isinstance(left, Array) and not isinstance(right, Array):
            if isinstance(op, ast.Pow) and abs(right) <= _LARGEST_POWER:
                return left**right
            plain = _NUMBERS.get(type(op))
            if plain is None:
                raise Unread("an operation on numbers that is not known")
            return plain(left, right)
        return _BINARY[type(op)](left, right)

    @staticmethod
    def _unary(op: ast.unaryop, value: Any) -> Any:
        match op:
            case ast.USub():
                return pointwise(np.negative, value) if isinstance(value, Array) else -value
            case ast.UAdd():
                return value
            case ast.Invert() if isinstance(value, Array):
                return CALLS["logical_not"](value)
            case ast.Not():
                return not ArrayReader._decided(value)
        raise Unread("an operation of an unknown kind")

    @staticmethod
    def _compared(op: ast.cmpop, left: Any, right: Any) -> Any:
        if isinstance(op, ast.Is | ast.IsNot):
            return (left is right) == isinstance(op, ast.Is)
        if isinstance(op, ast.In | ast.NotIn):
            return (left in right) == isinstance(op, ast.In)
        plain, name = _COMPARED[type(op)]
        return CALLS[name](left, right) if isinstance(left, Array) or isinstance(right, Array) else plain(left, right)

    def _subscript(self, whole: ast.expr, place: ast.expr, env: dict[str, Any]) -> Any:
        if isinstance(whole, ast.Name) and whole.id == "input_data" and whole.id not in env:
            return self._data[self.value(place, env)]
        value, index = self.value(whole, env), self.value(place, env)
        if not isinstance(value, Array):
            return value[int(index.known()) if isinstance(index, Array) else index]
        places = self._index(index)
        if places is not None:
            return value.through(lambda part: np.asarray(part[places]))
        if isinstance(index, Array):  # Rows that data choose.
            every = reduced(value, 0).sources
            return unknown(index.sources.reshape(*index.shape, *[1] * (value.ndim - 1)) | every)
        raise Unread("an index that depends on data")

    @staticmethod
    def _index(index: Any) -> Any:
        """An index for NumPy; None if it depends on data."""
        parts = []
        for part in index if isinstance(index, tuple) else (index,):
            if isinstance(part, Array):
                if np.isnan(part.values).any():
                    return None
                part = part.values.astype(np.int64)  # noqa: PLW2901
            elif not (part is None or part is Ellipsis or isinstance(part, int | slice | list)):
                raise Unread("an index of an unknown kind")
            parts.append(part)
        return tuple(parts)

    def _attribute(self, node: ast.Attribute, env: dict[str, Any]) -> Any:
        if _is_module(node.value, env):
            match node.attr:
                case "inf":
                    return math.inf
                case "pi" | "e":
                    return getattr(math, node.attr)
            return Word(node.attr)
        value = self.value(node.value, env)
        match node.attr, value:
            case "values", (first, _):
                return first
            case "indices", (_, second):
                return second
            case "shape", Array(shape=shape):
                return shape
            case "ndim", Array(ndim=rank):
                return rank
            case "T", Array():
                return turned(value)
            case "mT" | "mH", Array():
                return turned_matrices(value)
            case "real" | "imag" | "data", Array():
                return value
            case "dtype" | "device", _:
                return None
        raise Unread("an attribute that is not known")

    def _comprehension(self, item: ast.expr, generators: Sequence[ast.comprehension], env: dict[str, Any]) -> list[Any]:
        first, *rest = generators
        found: list[Any] = []
        for one in self._items(self.value(first.iter, env)):
            inner = dict(env)
            self._bind(first.target, one, inner)
            if all(self._decided(self.value(test, inner)) for test in first.ifs):
                found += self._comprehension(item, rest, inner) if rest else [self.value(item, inner)]
        return found

    # --- calls ---

    def _closure(
        self, arguments: ast.arguments, body: tuple[ast.stmt, ...] | ast.expr, env: dict[str, Any]
    ) -> Closure:
        names = tuple(argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))
        return Closure(names, tuple(self._each(arguments.defaults, env)), body, env)

    def _call(self, node: ast.Call, env: dict[str, Any]) -> Any:
        args = self._each(node.args, env)
        named = {keyword.arg: self.value(keyword.value, env) for keyword in node.keywords if keyword.arg}
        match node.func:
            case ast.Attribute(value=owner, attr=name) if not _is_module(owner, env):
                return self._method(self.value(owner, env), name, args, named)
            case ast.Name(id=name) if name not in env:
                return self._built_in(name, args)
        called = self.value(node.func, env)
        if isinstance(called, Closure):
            return self._apply(called, args, named)
        if not isinstance(called, Word):
            raise Unread("a call of something that is not known")
        if called.name[:1].isupper():  # A module, such as `nn.GELU()`, which is called later.
            if args or named:
                raise Unread("a module with settings")
            return Word(called.name.lower())
        return _made(called.name, args, named)

    def _method(self, owner: Any, name: str, args: list[Any], named: dict[str, Any]) -> Any:
        if isinstance(owner, list) and name in ("append", "extend", "insert", "pop", "reverse"):
            return getattr(owner, name)(*args)
        if not isinstance(owner, Array):
            raise Unread("a method of something that is not known")
        match name:
            case "size":
                return owner.shape[args[0]] if args else owner.shape
            case "dim":
                return owner.ndim
            case "numel":
                return owner.values.size
            case "reshape" | "view" if args and args[0] is None:
                raise Unread("a view as another type")
            case "view_as" | "reshape_as":
                return CALLS["view"](owner, args[0].shape)
            case "tolist":
                return self._items(owner)
        return _made(name, [owner, *args], named)

    def _apply(self, closure: Closure, args: Sequence[Any], named: Mapping[str, Any]) -> Any:
        defaults = dict(zip(closure.parameters[::-1], closure.defaults[::-1], strict=False))
        given = {**dict(zip(closure.parameters, args, strict=False)), **named}
        env = {**closure.names, **defaults, **given}
        if isinstance(closure.body, ast.expr):
            return self.value(closure.body, env)
        return self._body(closure.body, env)

    def _built_in(self, name: str, args: list[Any]) -> Any:
        """Python's own functions."""
        match name, args:
            case "range", _:
                return range(*(int(arg.known()) if isinstance(arg, Array) else arg for arg in args))
            case "len", [sized]:
                return sized.shape[0] if isinstance(sized, Array) else len(sized)
            case "enumerate", [items, *start]:
                return list(enumerate(self._items(items), *start))
            case "zip", _:
                return list(zip(*map(self._items, args), strict=False))
            case "reversed", [items]:
                return self._items(items)[::-1]
            case "list", [items]:
                return list(self._items(items))
            case "tuple", [items]:
                return tuple(self._items(items))
            case "sum", [items, *start]:
                result = start[0] if start else 0
                for item in self._items(items):
                    result = self._binary(ast.Add(), result, item)
                return result
            case "min" | "max" | "abs" | "int" | "float", [*numbers] if not any(isinstance(n, Array) for n in numbers):
                return {"min": min, "max": max, "abs": abs, "int": int, "float": float}[name](*numbers)
            case "abs" | "int" | "float", [one]:
                return CALLS[name](one)
        raise Unread("a function that is not known")


class _reading:
    """Turns what misread code raises into `Unread`."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, _ERRORS):
            raise Unread(str(error)) from error


def _made(name: str, args: list[Any], named: dict[str, Any]) -> Any:
    """The result of a call of PyTorch."""
    call = CALLS.get(name) or CALLS.get(name.rstrip("_"))
    if call is None or (name.endswith("_") and name != "requires_grad_"):
        raise Unread(f"the call {name}")
    if "axis" in named:
        named["dim"] = named.pop("axis")
    return call(*args, **named)


def _is_module(node: ast.expr, env: Mapping[str, Any]) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in _MODULES and node.id not in env
