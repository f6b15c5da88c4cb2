"""Reads the expressions of PyTorch code for flows."""

from __future__ import annotations

import ast
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from pipeline.lms.embedded.dependence.paths import NOTHING, Flow, Path, leaves, union
from pipeline.lms.embedded.dependence.recurrences import altered, base_of, in_place, is_module, viewed
from pipeline.lms.embedded.dependence.vocabulary import STATE, Elements, Value, Vocabulary
from pipeline.lms.embedded.symbolic.definitions import definitions

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.MatMult: "matmul", ast.Pow: "pow",
    ast.BitAnd: "mul", ast.BitOr: "add", ast.FloorDiv: "floor_divide", ast.Mod: "remainder", ast.BitXor: "ne",
}  # fmt: skip
_COMPUTED: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
"""Operations on numbers, which are computed."""
_COMPARED: dict[type[ast.cmpop], str] = {
    ast.Gt: "gt", ast.Lt: "lt", ast.GtE: "ge", ast.LtE: "le", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip
_UNROLLED = 16
"""Longer sequences are read as a loop."""
_DEEPEST = 12
_MOST_MET = 2000
_BY_NAME = {
    "where": ("condition", "input", "other"), "clamp": ("input", "min", "max"), "sum": ("input",),
    "masked_fill": ("input", "mask", "value"), "topk": ("input", "k", "dim"), "max": ("input", "dim"),
    "min": ("input", "dim"), "norm": ("input", "p"), "gather": ("input", "dim", "index"),
    "scatter": ("input", "dim", "index", "src"), **dict.fromkeys(("add", "sub"), ("input", "other", "alpha")),
}  # fmt: skip


_OF_PYTHON = {
    ("max", True): "maximum", ("min", True): "minimum", ("max", False): "amax", ("min", False): "amin",
    ("sorted", False): "msort", ("any", False): "any", ("all", False): "all",
}  # fmt: skip
"""Python's own functions, with several arguments or one, as those of PyTorch."""


@dataclass(frozen=True)
class Closure:
    """A function or a lambda of the code, with the names that it can see."""

    parameters: tuple[str, ...]
    defaults: tuple[Value, ...]
    body: tuple[ast.stmt, ...] | ast.expr
    names: dict[str, Value] = field(hash=False, compare=False)


class ExpressionReader(ABC):
    """Reads expressions in an environment of names.

    `data` are inputs and weights by name, `sizes` the numbers that a loop may count to.
    """

    def __init__(self, words: Vocabulary, data: Mapping[str, Flow], sizes: Mapping[str, int]) -> None:
        self.words = words
        self._data = data
        self._sizes = sizes
        self._depth = 0
        self._states = STATE + 64
        self._inner: tuple[dict[str, Value], tuple[str, ...]] = {}, ()
        """The names of the last function that was applied, at its end, and its parameters."""
        self.met: set[Flow] = set()
        """The flows of the expressions that were read."""

    @abstractmethod
    def _body(self, body: Sequence[ast.stmt], env: dict[str, Value]) -> Value:
        """The value of a function's body."""

    def _bind(self, target: ast.expr, value: Value, env: dict[str, Value]) -> None:
        match target:
            case ast.Name(id=name):
                env[name] = value
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                values = value if isinstance(value, tuple) and len(value) == len(parts) else [value] * len(parts)
                for part, own in zip(parts, values, strict=True):
                    self._bind(part, own, env)
            case ast.Starred(value=inner):
                self._bind(inner, self.words.flow(value), env)
            case ast.Subscript() | ast.Attribute():
                before, index = env.get(base_of(target)), self._places(target, env)
                if self.words.is_mask(index):
                    env[base_of(target)] = self.words.call("where", [index, value, before])
                else:
                    self._change(target, self.words.selected(self.words.flow(value), index), env)

    def _change(self, target: ast.expr, value: Value, env: dict[str, Value]) -> None:
        """Changes a variable, or elements of one, in place."""
        if isinstance(target, ast.Name):
            env[target.id] = value
            return
        name = viewed(target)
        if name in env:
            env[name] = union(self.words.flow(env[name]), self.words.flow(value))

    def _places(self, target: ast.expr, env: dict[str, Value]) -> Flow:
        """What decides which elements are assigned to, positions and counters apart."""
        found: set[Path] = set()
        while isinstance(target, ast.Subscript):
            found |= self._without_positions(self.value(target.slice, env))
            target = target.value
        return frozenset(path for path in found if path.leaf < STATE or path.tags)

    def _without_positions(self, value: Value) -> Flow:
        position = leaves(self.words.position)
        return frozenset(path for path in self.words.flow(value) if not position >> path.leaf & 1)

    def _element(self, items: Value) -> Value:
        """What is known of every element of a sequence."""
        return items.item if isinstance(items, Elements) else self.words.flow(items)

    # --- expressions ---

    def value(self, node: ast.expr, env: dict[str, Value]) -> Value:
        """The value of an expression."""
        if self._depth > _DEEPEST * 8:
            return NOTHING
        self._depth += 1
        try:
            reader = getattr(self, f"_read_{type(node).__name__.lower()}", None)
            value = reader(node, env) if reader is not None else self._parts(node, env)
            if isinstance(value, frozenset) and len(self.met) < _MOST_MET:
                self.met.add(value)
            self.met.update(self.words.within)
            self.words.within.clear()
            return value
        finally:
            self._depth -= 1

    def _parts(self, node: ast.expr, env: dict[str, Value]) -> Flow:
        return union(
            *(
                self.words.flow(self.value(part, env))
                for part in ast.iter_child_nodes(node)
                if isinstance(part, ast.expr)
            ),
            NOTHING,
        )

    def _read_constant(self, node: ast.Constant, env: dict[str, Value]) -> Value:
        return node.value if isinstance(node.value, bool | int | float | str) else None

    def _read_name(self, node: ast.Name, env: dict[str, Value]) -> Value:
        return env.get(node.id, NOTHING)

    def _read_tuple(self, node: ast.Tuple | ast.List, env: dict[str, Value]) -> Value:
        return tuple(self.value(part, env) for part in node.elts)

    _read_list = _read_tuple

    def _read_starred(self, node: ast.Starred, env: dict[str, Value]) -> Value:
        return self.value(node.value, env)

    def _read_joinedstr(self, node: ast.JoinedStr, env: dict[str, Value]) -> Value:
        return "".join(str(self.value(part, env)) for part in node.values)

    def _read_formattedvalue(self, node: ast.FormattedValue, env: dict[str, Value]) -> Value:
        return str(self.value(node.value, env))

    def _read_lambda(self, node: ast.Lambda, env: dict[str, Value]) -> Value:
        return self._closure(node.args, node.body, env)

    def _read_binop(self, node: ast.BinOp, env: dict[str, Value]) -> Value:
        return self._binary(node.op, self.value(node.left, env), self.value(node.right, env))

    def _read_unaryop(self, node: ast.UnaryOp, env: dict[str, Value]) -> Value:
        value = self.value(node.operand, env)
        if isinstance(node.op, ast.USub) and isinstance(value, int | float):
            return -value
        return value if isinstance(node.op, ast.UAdd) else self.words.call("negative", [value])

    def _read_boolop(self, node: ast.BoolOp, env: dict[str, Value]) -> Value:
        flows = [self.words.flow(self.value(part, env)) for part in node.values]
        return self.words.call("mul", [tuple(flows)]) if isinstance(node.op, ast.And) else union(*flows)

    def _read_compare(self, node: ast.Compare, env: dict[str, Value]) -> Value:
        left, right = self.value(node.left, env), self.value(node.comparators[0], env)
        if isinstance(node.ops[0], ast.Is | ast.IsNot):
            same = left is None
            return same if isinstance(node.ops[0], ast.Is) else not same
        if isinstance(node.ops[0], ast.Eq) and not isinstance(left, frozenset) and not isinstance(right, frozenset):
            return left == right
        return self.words.call(_COMPARED.get(type(node.ops[0]), "eq"), [left, right])

    def _read_ifexp(self, node: ast.IfExp, env: dict[str, Value]) -> Value:
        test = self.value(node.test, env)
        if not isinstance(test, frozenset):
            return self.value(node.body if test else node.orelse, env)
        return self.words.call("where", [test, self.value(node.body, env), self.value(node.orelse, env)])

    def _read_listcomp(self, node: ast.ListComp | ast.GeneratorExp, env: dict[str, Value]) -> Value:
        generator = node.generators[0]
        items = self.value(generator.iter, env)
        short = isinstance(items, tuple | range) and len(items) <= _UNROLLED and len(node.generators) == 1
        values = []
        for item in items if short else (self._element(items),):
            inner = dict(env)
            self._bind(generator.target, item, inner)
            for other in node.generators[1:]:
                self._bind(other.target, self.words.flow(self.value(other.iter, inner)), inner)
            tests = [self.value(test, inner) for each in node.generators for test in each.ifs]
            if all(tests) or any(isinstance(test, frozenset) for test in tests):
                value = self.value(node.elt, inner)
                for test in tests:
                    value = self.words.either(self.words.flow(test), value, NOTHING)
                values.append(value)
        return tuple(values) if short else self.words.flow(tuple(values))

    _read_generatorexp = _read_listcomp

    def _binary(self, op: ast.operator, left: Value, right: Value) -> Value:
        if isinstance(left, int | float) and isinstance(right, int | float) and type(op) in _COMPUTED:
            with suppress(ArithmeticError):
                return _COMPUTED[type(op)](left, right)
        if isinstance(op, ast.Add) and isinstance(left, tuple) and isinstance(right, tuple):
            return left + right
        return self.words.call(_BINARY.get(type(op), "other"), [left, right])

    def _read_subscript(self, node: ast.Subscript, env: dict[str, Value]) -> Value:
        if isinstance(node.value, ast.Attribute) and node.value.attr == "shape":
            return NOTHING
        place = self.value(node.slice, env)
        if isinstance(place, str):
            return self._data.get(place, NOTHING)
        whole = self.value(node.value, env)
        if isinstance(whole, tuple) and isinstance(place, int) and -len(whole) <= place < len(whole):
            return whole[place]
        return self.words.selected(self.words.flow(whole), self._without_positions(place))

    def _read_attribute(self, node: ast.Attribute, env: dict[str, Value]) -> Value:
        if node.attr == "inf":
            return float("inf")
        if node.attr in ("shape", "dtype", "device", "ndim"):
            return NOTHING
        if is_module(node.value):
            return node.attr.lower()
        whole = self.value(node.value, env)
        if isinstance(whole, tuple) and len(whole) == 2 and node.attr in ("values", "indices"):
            return whole[node.attr == "indices"]
        return self.words.choice(self.words.flow(whole)) if node.attr == "indices" else self.words.flow(whole)

    # --- calls ---

    def _closure(
        self, arguments: ast.arguments, body: tuple[ast.stmt, ...] | ast.expr, env: dict[str, Value]
    ) -> Closure:
        names = tuple(argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs))
        defaults = tuple(self.value(default, env) for default in arguments.defaults)
        return Closure(names, defaults, body, env)

    def _read_call(self, node: ast.Call, env: dict[str, Value]) -> Value:
        args: list[Value] = []
        for arg in node.args:
            value = self.value(arg, env)
            args += value if isinstance(arg, ast.Starred) and isinstance(value, tuple) else [value]
        named = {keyword.arg: self.value(keyword.value, env) for keyword in node.keywords if keyword.arg}
        given = list(node.args)
        match node.func:
            case ast.Attribute(value=owner, attr=name):
                if not is_module(owner):
                    if name in ("append", "extend", "insert"):
                        env[base_of(owner)] = self._longer(env.get(base_of(owner)), name, args)
                        return None
                    args.insert(0, self.value(owner, env))
                    given.insert(0, owner)
            case ast.Name(id=name):
                called = env.get(name)
                if isinstance(called, Closure):
                    return self._changing(node, given, called.body, self._apply(called, args, named), env)
                name = called if isinstance(called, str) else _OF_PYTHON.get((name, len(args) > 1), name)
            case ast.Call(func=inner, args=settings):
                # An instance of a module: its constructor's arguments follow the call's.
                name = inner.attr if isinstance(inner, ast.Attribute) else ast.unparse(inner)
                args += [self.value(setting, env) for setting in settings]
            case _:
                return union(*map(self.words.flow, args), NOTHING)
        changes = in_place(name) or named.get("inplace") is True
        name = name.lower() if name.startswith("_") else name.lower().rstrip("_")
        value = self._called(name, args, named)
        targets = given[:1] if changes else []
        for target in (*targets, *(keyword.value for keyword in node.keywords if keyword.arg == "out")):
            self._change(target, value, env)
        return self._changing(node, given, _body_of(name), value, env)

    def _longer(self, items: Value, name: str, args: Sequence[Value]) -> Value:
        """A list with one element or several more: each is known for itself where all are."""
        more = args if name == "append" else args[0] if name == "extend" and args else None
        if isinstance(items, tuple) and isinstance(more, tuple | list) and len(items) + len(more) <= _UNROLLED:
            return (*items, *more)
        return union(*map(self.words.flow, (items, *args)))

    def _changing(
        self, node: ast.Call, given: Sequence[ast.expr], body: tuple[ast.stmt, ...] | ast.expr, value: Value,
        env: dict[str, Value],
    ) -> Value:  # fmt: skip
        """The value of a call, after the arguments that the called function changes in place have changed."""
        changed = altered(body) if isinstance(body, tuple) else ()
        if changed:
            inner, parameters = self._inner
            expressions = dict(zip(parameters, given, strict=False))
            expressions |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
            for name in changed:
                target = expressions.get(name)
                if target is not None and name in inner:
                    self._change(target, inner[name], env)
        return value

    def _apply(self, closure: Closure, args: Sequence[Value], named: Mapping[str, Value]) -> Value:
        defaults = dict(zip(closure.parameters[::-1], closure.defaults[::-1], strict=False))
        given = {**dict(zip(closure.parameters, args, strict=False)), **named}
        env = {**closure.names, **defaults, **given}
        if self._depth > _DEEPEST * 4:
            return union(*map(self.words.flow, args), NOTHING)
        self._depth += 4
        try:
            value = (
                self.value(closure.body, env) if isinstance(closure.body, ast.expr) else self._body(closure.body, env)
            )
        finally:
            self._depth -= 4
        if isinstance(closure.body, tuple):
            closure.names.update(
                (name, env[name]) for name in altered(closure.body) if name in closure.names and name not in given
            )
        self._inner = env, closure.parameters
        return value

    def _called(self, name: str, args: Sequence[Value], named: Mapping[str, Value]) -> Value:
        """The value of a call: by its definition where it has one, else by the vocabulary."""
        built_in = self._built_in(name, args)
        if built_in is not None:
            return built_in
        definition = definitions().get(name)
        if definition is not None and not args:
            return name  # A module's instance, such as `nn.GELU()`, is called later.
        if definition is not None and not self.words.knows(name):
            return self._apply(self._closure(definition.args, tuple(definition.body), {}), args, named)
        order = _BY_NAME.get(name, ())
        args = [*args, *(named[key] for key in order[len(args) :] if key in named)]
        return self.words.call(name, args)

    def _built_in(self, name: str, args: Sequence[Value]) -> Value:
        """Python's own functions on sequences; None for others."""
        known = all(isinstance(arg, tuple | range) for arg in args)
        match name:
            case "range":
                if args and all(isinstance(arg, int) for arg in args):
                    return range(*args)
                until = self._without_positions(args[1] if len(args) > 1 else args[0] if args else NOTHING)
                return Elements(
                    self.words.position, self.words.call("lt", [self.words.position, until]) if until else NOTHING
                )
            case "enumerate" if args:
                numbered = isinstance(args[0], tuple | range)
                return (
                    tuple(enumerate(args[0])) if numbered else Elements((self.words.position, self._element(args[0])))
                )
            case "zip":
                return tuple(zip(*args, strict=False)) if known else Elements(tuple(map(self._element, args)))
        return None


def _body_of(name: str) -> tuple[ast.stmt, ...]:
    """What a call is defined by."""
    definition = definitions().get(name)
    return tuple(definition.body) if definition is not None else ()
