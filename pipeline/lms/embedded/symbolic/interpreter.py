"""Symbolic interpreter of PyTorch code: it turns text into terms by walking the syntax tree, and runs nothing.

Unknown code becomes an opaque atom made of its text.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping, Sequence
from functools import lru_cache

from pipeline.lms.embedded.dependence.recurrences import altered, assigned, in_place
from pipeline.lms.embedded.symbolic.algebra import Term
from pipeline.lms.embedded.symbolic.definitions import definitions
from pipeline.lms.embedded.symbolic.operations import Operations, Value
from step_runtime.base.syntax import parse_python

_MODULES = frozenset(("torch", "F", "nn", "functional", "linalg", "math", "special", "np", "numpy"))
_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.MatMult: "matmul",
    ast.Pow: "pow", ast.BitAnd: "multiply",
}  # fmt: skip
_WITH_INDICES = frozenset(("max", "min", "cummax", "cummin", "sort", "topk", "kthvalue", "median"))
"""Calls that return values and, along a dim, their indices."""
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Gt: "greater", ast.Lt: "less", ast.GtE: "greater_equal", ast.LtE: "less_equal", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip


class SymbolicInterpreter:
    """Walks one snippet at a time in an environment of names.

    `sizes` are those that a comprehension may count to; `data` are the inputs and weights by name.
    """

    def __init__(self, words: Operations, sizes: Mapping[str, int], data: Mapping[str, Term]) -> None:
        self.words = words
        self.algebra = words.algebra
        self._sizes = sizes
        self._data = data
        self._local: dict[str, ast.FunctionDef] = {}
        """The functions that the snippet defines."""

    def run(self, code: str, env: dict[str, Value]) -> Value:
        """The value of a snippet: of its `return`, or of its last line; `env` receives the names that it assigns."""
        self._local = {}
        return self._run(_statements(code), env)

    def _run(self, statements: Sequence[ast.stmt], env: dict[str, Value]) -> Value:
        value: Value = None
        for statement in statements:
            match statement:
                case ast.Assign(targets=[target], value=expression):
                    value = self.value(expression, env)
                    if isinstance(target, ast.Tuple | ast.List) and _has_indices(expression):
                        value = (value, *(self.algebra.atom("indices", value) for _ in target.elts[1:]))
                    self._bind(target, value, env)
                case ast.AugAssign(target=ast.Name(id=name), op=op, value=expression):
                    value = env[name] = self._binary(op, env.get(name), self.value(expression, env))
                case ast.Return(value=ast.expr() as expression) | ast.Expr(value=expression):
                    value = self.value(expression, env)
                    if isinstance(statement, ast.Return):
                        return value
                    self._change(statement, value, env)
                case ast.FunctionDef(name=name):
                    self._local[name] = statement
                case ast.For() | ast.While() | ast.If() | ast.AugAssign() | ast.Assign():
                    self._forget(statement, env)
        return value

    def _change(self, statement: ast.Expr, value: Value, env: dict[str, Value]) -> None:
        """Changes what a statement that is a call changes in place."""
        match statement.value:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if in_place(method) and name in env:
                env[name] = value
            case _ if altered((statement,)):
                self._forget(statement, env)

    def _forget(self, statement: ast.stmt, env: dict[str, Value]) -> None:
        """Makes what a statement changes unknown, but made of what the statement mentions."""
        names = dict.fromkeys(node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and node.id in env)
        values = [value for name in names for value in _flat(env[name])]
        terms = [value for value in values if isinstance(value, Term)]
        for name in assigned([statement]):
            env[name] = self.algebra.atom("loop", name, ast.unparse(statement), *terms)

    def _bind(self, target: ast.expr, value: Value, env: dict[str, Value]) -> None:
        match target:
            case ast.Name(id=name):
                env[name] = value
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                values = value if isinstance(value, tuple) and len(value) == len(parts) else None
                for place, part in enumerate(parts):
                    self._bind(part, values[place] if values else self.words.select(self.words.term(value), place), env)

    # --- expressions ---

    def value(self, node: ast.expr, env: dict[str, Value]) -> Value:
        """The value of an expression."""
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None as constant):
                return constant
            case ast.Name(id=name):
                return self._name(name, env)
            case ast.Subscript(value=whole, slice=index):
                return self._subscript(whole, index, env)
            case ast.Attribute(value=whole, attr=name):
                return self._attribute(whole, name, env)
            case ast.Call():
                return self._call(node, env)
        return self._display(node, env) or self._operation(node, env)

    def _display(self, node: ast.expr, env: dict[str, Value]) -> Value:
        """A sequence or a formatted string; None for others."""
        match node:
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return tuple(self.value(part, env) for part in parts)
            case ast.JoinedStr(values=parts):
                return "".join(str(self.value(part, env)) for part in parts)
            case ast.FormattedValue(value=inner):
                return str(self.value(inner, env))
            case ast.ListComp(elt=element, generators=[one]) | ast.GeneratorExp(elt=element, generators=[one]):
                return self._unrolled(element, one, env)
        return None

    def _operation(self, node: ast.expr, env: dict[str, Value]) -> Value:
        match node:
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self.value(left, env), self.value(right, env))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                value = self.value(operand, env)
                return -value if isinstance(value, int | float) else self.words.call("negative", [value])
            case ast.UnaryOp(op=ast.Invert() | ast.Not(), operand=operand):
                return self.words.call("bitwise_not", [self.value(operand, env)])
            case ast.IfExp(test=test, body=body, orelse=other):
                return self._either(test, body, other, env)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
                return self.words.call(_COMPARE[type(op)], [self.value(left, env), self.value(right, env)])
        return self.algebra.atom("text", ast.unparse(node))

    def _either(self, test: ast.expr, body: ast.expr, other: ast.expr, env: dict[str, Value]) -> Value:
        """The branch chosen by a comparison of constants, or a constant; else an unknown value."""
        match test:
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]):
                decision: Value = self.value(left, env) == self.value(right, env)
            case ast.Compare(left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]):
                decision = (self.value(left, env) is None) == isinstance(op, ast.Is)
            case _:
                decision = self.value(test, env)
        if isinstance(decision, bool) or decision is None:
            return self.value(body if decision else other, env)
        return self.algebra.atom("either", *(self.words.term(self.value(part, env)) for part in (test, body, other)))

    def _name(self, name: str, env: dict[str, Value]) -> Value:
        if name in env:
            return env[name]
        if name.endswith("_value"):
            return self.algebra.size
        return self.algebra.atom("name", name)

    def _binary(self, op: ast.operator, left: Value, right: Value) -> Value:
        if isinstance(left, int) and isinstance(right, int) and isinstance(op, ast.Add | ast.Sub | ast.Mult):
            return {ast.Add: left + right, ast.Sub: left - right, ast.Mult: left * right}[type(op)]
        if type(op) not in _BINARY:
            return self.algebra.atom(type(op).__name__, self.words.term(left), self.words.term(right))
        return self.words.call(_BINARY[type(op)], [left, right])

    def _subscript(self, whole: ast.expr, index: ast.expr, env: dict[str, Value]) -> Value:
        if isinstance(whole, ast.Attribute) and whole.attr == "shape":
            return self.algebra.size
        value, place = self.value(whole, env), self.value(index, env) if not isinstance(index, ast.Slice) else None
        if isinstance(place, str):
            return self._data.get(place) or self.algebra.atom("data", place)
        if place == 0 and _has_indices(whole):
            return value
        if isinstance(value, tuple) and isinstance(place, int):
            return value[place] if -len(value) <= place < len(value) else self.algebra.atom("text", "missing")
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        telling = [part for part in parts if ast.unparse(part) not in (":", "...", "None")]
        if not telling:
            return value
        numbers = [part.value for part in telling if isinstance(part, ast.Constant)]
        if len(telling) == 1 and isinstance(place, int):
            return self.words.select(self.words.term(value), place)
        if len(telling) == 1 and len(numbers) == 1 and isinstance(numbers[0], int):
            return self.words.select(self.words.term(value), numbers[0])
        return self.algebra.atom("part", self.words.term(value), *(ast.unparse(part) for part in telling))

    def _attribute(self, whole: ast.expr, name: str, env: dict[str, Value]) -> Value:
        if name in ("T", "mT", "values", "data"):
            return self.value(whole, env)
        if name in ("dtype", "device", "shape", "inf"):
            return name if name != "inf" else float("inf")
        if isinstance(whole, ast.Name) and whole.id in _MODULES:
            return self.algebra.atom("name", name)
        return self.algebra.atom(name, self.words.term(self.value(whole, env)))

    def _unrolled(self, element: ast.expr, generator: ast.comprehension, env: dict[str, Value]) -> Value:
        match generator.iter:
            case ast.Call(func=ast.Name(id="range"), args=[ast.Name(id=name)]) if (
                name.removesuffix("_value") in self._sizes
            ):
                items: Sequence[Value] = range(self._sizes[name.removesuffix("_value")])
            case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int(count))]):
                items = range(count)
            case other:
                items = self.value(other, env)
        if not isinstance(items, range | tuple) or generator.ifs or len(items) > 16:
            return self.algebra.atom("text", ast.unparse(element))
        values = []
        for item in items:
            inner = dict(env)
            self._bind(generator.target, item, inner)
            values.append(self.value(element, inner))
        return tuple(values)

    # --- calls ---

    def _call(self, node: ast.Call, env: dict[str, Value]) -> Value:
        args = [self.value(arg, env) for arg in node.args if not isinstance(arg, ast.Starred)]
        keywords = node.keywords
        match node.func:
            case ast.Attribute(value=owner, attr=name):
                if not _is_module(owner):
                    args.insert(0, self.value(owner, env))
            case ast.Name(id=name):
                name = env[name] if isinstance(env.get(name), str) else name
            case ast.Call(func=inner, args=settings, keywords=more):
                # An instance of a module: its constructor's arguments follow the call's.
                name = inner.attr if isinstance(inner, ast.Attribute) else ast.unparse(inner)
                args += [self.value(setting, env) for setting in settings]
                keywords = [*keywords, *more]
            case _:
                return self.algebra.atom("text", ast.unparse(node))
        named = {keyword.arg: self.value(keyword.value, env) for keyword in keywords if keyword.arg}
        if isinstance(node.func, ast.Name) and name in self._local:
            return self._inlined(name, args, named, env)
        name = name.lower()
        # A trailing underscore: in place.
        return self._called(name.rstrip("_") if not name.startswith("_") else name, args, named)

    def _called(self, name: str, args: Sequence[Value], named: Mapping[str, Value]) -> Value:
        """The value of a call: by its definition where it has one, else by the vocabulary."""
        definition = definitions().get(name)
        if definition is None or not args:
            return self.words.call(name, args, named)
        return self._run(definition.body, self._given(definition, args, named))

    def _inlined(self, name: str, args: Sequence[Value], named: Mapping[str, Value], env: Mapping[str, Value]) -> Value:
        """The value of a call of a function that the snippet defines, which sees the snippet's names."""
        local = self._local
        definition = local[name]
        self._local = {other: own for other, own in local.items() if other != name}  # It does not call itself.
        try:
            return self._run(definition.body, {**env, **self._given(definition, args, named)})
        finally:
            self._local = local

    def _given(
        self, definition: ast.FunctionDef, args: Sequence[Value], named: Mapping[str, Value]
    ) -> dict[str, Value]:
        """The arguments of a call by their names, with defaults."""
        names = [parameter.arg for parameter in definition.args.args]
        defaults = definition.args.defaults
        inner = {key: self.value(default, {}) for key, default in zip(names[::-1], defaults[::-1], strict=False)}
        given = {**dict(zip(names, args, strict=False)), **{key: named[key] for key in names if key in named}}
        return inner | {key: value for key, value in given.items() if value is not None}


def _flat(value: Value) -> list[Value]:
    return [part for item in value for part in _flat(item)] if isinstance(value, tuple) else [value]


def _has_indices(node: ast.expr) -> bool:
    """Whether an expression is a call along a dim whose result is a pair of values and indices."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=args, keywords=keywords):
            given = len(args) - _is_module(owner) + any(keyword.arg == "dim" for keyword in keywords)
            return name in _WITH_INDICES and (given > 0 or not name.startswith("m"))
    return False


def _is_module(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in _MODULES


@lru_cache(maxsize=1024)
def _statements(code: str) -> tuple[ast.stmt, ...]:
    # A function's body may `return`, which the grammar allows anywhere.
    return tuple(parse_python(textwrap.dedent(code)).body)
