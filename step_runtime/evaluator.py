"""Walks a program's syntax tree and builds the dataflow graph.

This is the whole language: a form that has no method here is a diagnostic. Every loop runs over a sequence
of known length, so every program ends; the number of steps is bounded all the same.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

import sympy

from step_runtime import forms
from step_runtime.errors import Diagnostic, RuleError, Span, Stage
from step_runtime.limits import Limits
from step_runtime.primitives import PRIMITIVES, Primitive
from step_runtime.program import Node, Program, StreamId
from step_runtime.scope import Scope
from step_runtime.shapes import try_evaluate
from step_runtime.types import combine


class StreamRef:
    """A stream as a value of the program."""

    __slots__ = ("id",)

    def __init__(self, stream: StreamId) -> None:
        self.id = stream


class _Unknown:
    """What a wrong expression gives: everything built on it is passed over, as one report is enough."""


UNKNOWN = _Unknown()
_STEP = object()


class _Stop(Exception):
    """Ends the walk: the program returned, or a limit was reached."""


class _Wrong(Exception):
    """An expression that is no program; the diagnostic is recorded already."""


class Evaluator:
    """One walk over one program in one scope."""

    def __init__(self, scope: Scope, limits: Limits, lines: Sequence[str], indent: int) -> None:
        self._scope = scope
        self._limits = limits
        self._lines = lines
        self._indent = indent
        self._steps = 0
        self._nodes: list[Node] = []
        self._names: dict[StreamId, str] = {}
        self._streams = len(scope.inputs)
        self._results: tuple[StreamId, ...] = ()
        self._result_span: Span | None = None
        self._returned = False
        self._diagnostics: list[Diagnostic] = []
        self._env: dict[str, Any] = self._globals()

    def _globals(self) -> dict[str, Any]:
        scope = self._scope
        env: dict[str, Any] = {"step": _STEP, **scope.lists, **scope.fns, **scope.dims}
        env |= {f"{name}_value": size for name, size in scope.sizes.items()}
        return env | {name: StreamRef(index) for index, name in enumerate(scope.inputs)}

    def run(
        self, statements: Sequence[ast.stmt], parameters: Sequence[ast.arg] | None
    ) -> tuple[Program, list[Diagnostic]]:
        """The graph and everything found wrong."""
        try:
            if parameters is not None:
                self._bind_parameters(parameters)
            self._block(statements)
            if not self._diagnostics:
                self._missing_return(statements)
        except _Stop:
            pass
        program = Program(
            tuple(self._scope.inputs), tuple(self._nodes), self._results, self._names, self._result_span
        )
        return program, self._diagnostics

    def _bind_parameters(self, parameters: Sequence[ast.arg]) -> None:
        inputs = list(self._scope.inputs)
        if len(parameters) != len(inputs):
            where = parameters[0] if parameters else None
            self._report(
                "body",
                f"`def body` has {len(parameters)} parameters; the task has {len(inputs)} inputs",
                where,
                f"write def body({', '.join(inputs)}):",
            )
            raise _Stop
        for index, parameter in enumerate(parameters):
            self._env[parameter.arg] = StreamRef(index)

    def _missing_return(self, statements: Sequence[ast.stmt]) -> None:
        last = next((name for stream, name in sorted(self._names.items(), reverse=True)), None)
        wanted = last or next(iter(self._scope.inputs))
        where = statements[-1] if statements else None
        self._report("return", "the program returns nothing", where, f"end with the outputs, e.g. `return {wanted}`")

    # --- reporting ---

    def _span(self, node: ast.AST) -> Span:
        return Span(
            node.lineno,  # type: ignore[attr-defined]
            self._column(node.lineno, node.col_offset),  # type: ignore[attr-defined]
            node.end_lineno,  # type: ignore[attr-defined]
            self._column(node.end_lineno, node.end_col_offset),  # type: ignore[attr-defined]
        )

    def _column(self, line: int, offset: int) -> int:
        """The 1-based column in characters; the tree counts bytes from the common indentation."""
        text = self._lines[line - 1][self._indent :] if line <= len(self._lines) else ""
        if not text.isascii():
            offset = len(text.encode()[:offset].decode(errors="ignore"))
        return offset + self._indent + 1

    def _report(
        self, code: str, message: str, where: ast.AST | None, hint: str | None = None, stage: Stage = "parse"
    ) -> None:
        finding = Diagnostic(stage, code, message, self._span(where) if where is not None else None, hint=hint)
        # A loop may come to one mistake many times.
        if finding not in self._diagnostics:
            self._diagnostics.append(finding)

    def _wrong(self, code: str, message: str, where: ast.AST, hint: str | None = None) -> _Wrong:
        self._report(code, message, where, hint)
        return _Wrong()

    def _broken(self, error: RuleError, where: ast.AST) -> None:
        finding = Diagnostic.of("type", error, self._span(where))
        if finding not in self._diagnostics:
            self._diagnostics.append(finding)

    def _tick(self, where: ast.AST) -> None:
        self._steps += 1
        if self._steps > self._limits.steps:
            self._report("steps", f"the program takes more than {self._limits.steps:,} steps to unroll", where, stage="limits")
            raise _Stop

    # --- statements ---

    def _block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self._tick(statement)
            try:
                self._statement(statement)
            except _Wrong:
                self._poison(statement)

    def _poison(self, statement: ast.stmt) -> None:
        """What a wrong statement would have bound is unknown from here on."""
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                self._env[node.id] = UNKNOWN

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=targets, value=value):
                result = self._expression(value)
                for target in targets:
                    self._assign(target, result)
            case ast.Expr(value=ast.Constant(value=str())):
                pass
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append")) as call):
                self._append(name, call)
            case ast.For(target=target, iter=iterable, body=body, orelse=[]):
                for item in self._sequence(iterable):
                    self._assign(target, item)
                    self._block(body)
            case ast.Return(value=value):
                self._return(statement, value)
            case _:
                message, hint = forms.statement(statement)
                raise self._wrong("statement", message, statement, hint)

    def _return(self, statement: ast.Return, value: ast.expr | None) -> None:
        if value is None:
            raise self._wrong("return", "`return` gives no stream", statement, "return the output streams")
        result = self._expression(value)
        parts = result if isinstance(result, list | tuple) else [result]
        self._result_span = self._span(value)
        if any(part is UNKNOWN for part in parts):
            raise _Stop
        if not parts or not all(isinstance(part, StreamRef) for part in parts):
            found = forms.kind(next((part for part in parts if not isinstance(part, StreamRef)), result))
            hint = "return a stream, or a tuple or list of streams"
            self._report("return", f"a program returns streams, found {found}", value, hint)
            raise _Stop
        self._results = tuple(part.id for part in parts)
        raise _Stop

    def _append(self, name: str, call: ast.Call) -> None:
        target = self._name(call.func.value) if isinstance(call.func, ast.Attribute) else UNKNOWN
        if target is UNKNOWN:
            raise _Wrong
        if not isinstance(target, list):
            raise self._wrong("append", f"{name} is {forms.kind(target)}; append needs a list of the program", call)
        if len(call.args) != 1 or call.keywords:
            raise self._wrong("append", "append takes one value", call)
        target.append(self._expression(call.args[0]))

    def _assign(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name(id=name):
                self._env[name] = value
                self._remember(name, value)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                self._unpack(target, parts, value)
            case _:
                hint = "bind a new name, or build the list with [] and append"
                raise self._wrong("assign", "assignments bind names only", target, hint)

    def _remember(self, name: str, value: Any) -> None:
        """The first name that a stream gets is what reports call it."""
        if isinstance(value, StreamRef) and value.id >= len(self._scope.inputs):
            self._names.setdefault(value.id, name)
        elif isinstance(value, list | tuple):
            for index, part in enumerate(value):
                if isinstance(part, StreamRef):
                    self._remember(f"{name}[{index}]", part)

    def _unpack(self, target: ast.expr, parts: Sequence[ast.expr], value: Any) -> None:
        if value is UNKNOWN:
            for part in parts:
                self._assign(part.value if isinstance(part, ast.Starred) else part, UNKNOWN)
            return
        if not isinstance(value, list | tuple):
            hint = "step.Copy().apply(E0) gives two streams, step.Partition a list; other primitives give one"
            raise self._wrong("unpack", f"{forms.kind(value)} cannot be unpacked into {len(parts)} names", target, hint)
        starred = [index for index, part in enumerate(parts) if isinstance(part, ast.Starred)]
        if len(value) < len(parts) - len(starred) or (not starred and len(value) != len(parts)):
            raise self._wrong("unpack", f"{len(parts)} names for {len(value)} values", target)
        if starred:
            first = starred[0]
            rest = len(value) - (len(parts) - 1)
            middle = list(value[first : first + rest])
            value = [*value[:first], middle, *value[first + rest :]]
        for part, item in zip(parts, value, strict=True):
            self._assign(part.value if isinstance(part, ast.Starred) else part, item)

    # --- expressions ---

    def _expression(self, node: ast.expr) -> Any:
        self._tick(node)
        match node:
            case ast.Name():
                return self._name(node)
            case ast.Constant(value=int(number)) if not isinstance(number, bool):
                return number
            case ast.Tuple(elts=parts):
                return tuple(self._elements(parts))
            case ast.List(elts=parts):
                return self._elements(parts)
            case ast.ListComp(elt=element, generators=generators):
                return self._comprehension(element, generators)
            case ast.Subscript():
                return self._subscript(node)
            case ast.BinOp():
                return self._arithmetic(node)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                value = self._expression(operand)
                if isinstance(value, int):
                    return -value
                raise self._wrong("arithmetic", f"- takes an int, found {forms.kind(value)}", node)
            case ast.Call():
                return self._call(node)
        message, hint = forms.expression(node)
        raise self._wrong("expression", message, node, hint)

    def _name(self, node: ast.expr) -> Any:
        name = node.id if isinstance(node, ast.Name) else ""
        if name in self._env:
            value = self._env[name]
            if value is not _STEP:
                return value
            raise self._wrong("name", "step is no value", node, "write step.NAME(config).apply(stream)")
        message, hint = forms.unknown_name(name, self._env)
        raise self._wrong("name", message, node, hint)

    def _elements(self, parts: Sequence[ast.expr]) -> list[Any]:
        values: list[Any] = []
        for part in parts:
            if isinstance(part, ast.Starred):
                values += self._sequence(part.value)
            else:
                values.append(self._expression(part))
        return values

    def _sequence(self, node: ast.expr) -> list[Any]:
        value = self._expression(node)
        if value is UNKNOWN:
            raise _Wrong
        if not isinstance(value, list | tuple | range):
            hint = "loops run over lists, tuples, zip, enumerate and range"
            raise self._wrong("sequence", f"expected a sequence, found {forms.kind(value)}", node, hint)
        return list(value)

    def _comprehension(self, element: ast.expr, generators: Sequence[ast.comprehension]) -> list[Any]:
        outer = dict(self._env)
        try:
            return self._generate(element, generators)
        finally:
            self._env = outer

    def _generate(self, element: ast.expr, generators: Sequence[ast.comprehension]) -> list[Any]:
        if not generators:
            return [self._expression(element)]
        first, *rest = generators
        if first.ifs or first.is_async:
            where = first.ifs[0] if first.ifs else first.target
            raise self._wrong("comprehension", "comprehensions have no conditions", where, "list the elements you want")
        values: list[Any] = []
        for item in self._sequence(first.iter):
            self._assign(first.target, item)
            values += self._generate(element, rest)
        return values

    def _subscript(self, node: ast.Subscript) -> Any:
        value = self._expression(node.value)
        if value is UNKNOWN:
            return UNKNOWN
        if not isinstance(value, list | tuple):
            hint = None
            if isinstance(value, StreamRef):
                hint = "a tuple's component is taken by one of the task's functions; Copy and Partition give lists"
            raise self._wrong("subscript", f"{forms.kind(value)} cannot be indexed", node, hint)
        if isinstance(node.slice, ast.Slice):
            bounds = [self._index(part) for part in (node.slice.lower, node.slice.upper, node.slice.step)]
            if bounds[2] == 0:
                raise self._wrong("subscript", "a slice's step cannot be 0", node)
            return value[slice(*bounds)]
        index = self._index(node.slice)
        if index is None or not -len(value) <= index < len(value):
            raise self._wrong("subscript", f"index {index} is outside of a sequence of {len(value)}", node)
        return value[index]

    def _index(self, node: ast.expr | None) -> int | None:
        if node is None:
            return None
        value = self._expression(node)
        if isinstance(value, int):
            return value
        hint = f"use {value}_value" if isinstance(value, sympy.Symbol) else None
        raise self._wrong("subscript", f"an index is an int, found {forms.kind(value)}", node, hint)

    def _arithmetic(self, node: ast.BinOp) -> Any:
        left, right = self._expression(node.left), self._expression(node.right)
        if left is UNKNOWN or right is UNKNOWN:
            return UNKNOWN
        numbers = all(isinstance(value, int | sympy.Expr) for value in (left, right))
        if not numbers or not isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.FloorDiv):
            message, hint = forms.arithmetic(node.op, left, right)
            raise self._wrong("arithmetic", message, node, hint)
        if isinstance(node.op, ast.FloorDiv) and right == 0:
            raise self._wrong("arithmetic", "division by zero", node)
        if isinstance(left, int) and isinstance(right, int):
            return forms.integer(node.op, left, right)
        result = combine(sympy.sympify(left), node.op, sympy.sympify(right), "")
        if isinstance(node.op, ast.FloorDiv):
            self._check_exact(result, node)
        return result

    def _check_exact(self, dim: sympy.Expr, node: ast.expr) -> None:
        try:
            try_evaluate(dim, self._scope.sizes)
        except RuleError as error:
            self._broken(error, node)
            raise _Wrong from None

    # --- calls ---

    def _call(self, node: ast.Call) -> Any:
        match node.func:
            case ast.Attribute(value=ast.Call() as made, attr="apply"):
                return self._apply(node, made)
            case ast.Name(id=name) if name in forms.BUILTINS and name not in self._env:
                return self._builtin(node, name)
        message, hint = forms.call(node, self._env)
        raise self._wrong("call", message, node, hint)

    def _builtin(self, node: ast.Call, name: str) -> Any:
        if node.keywords:
            raise self._wrong("call", f"{name} takes no keywords here", node)
        if name == "range":
            numbers = [self._index(arg) or 0 for arg in node.args]
            if not 1 <= len(numbers) <= 3 or numbers[2:] == [0]:
                raise self._wrong("call", "range takes one to three ints, and no step of 0", node)
            return self._bounded(range(*numbers), node)
        sequences = [self._sequence(arg) for arg in self._flat(node)]
        if name == "zip":
            return list(zip(*sequences, strict=False))
        if len(sequences) > 1 or (not sequences and name not in ("list", "tuple")):
            raise self._wrong("call", f"{name} takes one sequence", node)
        known: dict[str, Callable[[list[Any]], Any]] = {
            "enumerate": lambda s: list(enumerate(s)), "reversed": lambda s: s[::-1],
            "len": len, "list": list, "tuple": tuple,
        }  # fmt: skip
        return known[name](sequences[0] if sequences else [])

    def _flat(self, node: ast.Call) -> list[ast.expr]:
        for arg in node.args:
            if isinstance(arg, ast.Starred):
                raise self._wrong("call", "a star in a call is not part of the language", arg)
        return node.args

    def _bounded(self, value: range, node: ast.expr) -> list[int]:
        if len(value) > self._limits.steps:
            self._report("steps", f"a range of {len(value):,} is more than {self._limits.steps:,} steps", node, stage="limits")
            raise _Stop
        return list(value)

    def _apply(self, node: ast.Call, made: ast.Call) -> Any:
        op = self._primitive(made)
        if len(node.args) != 1 or node.keywords or isinstance(node.args[0], ast.Starred):
            hint = "two streams go as a tuple: .apply((E0, E1))" if len(node.args) > 1 else None
            raise self._wrong("apply-argument", "apply takes one stream or one tuple", node, hint)
        argument = self._expression(node.args[0])
        if op is None or forms.holds(argument, UNKNOWN):
            return UNKNOWN
        try:
            operands = op.operands(argument, lambda value: isinstance(value, StreamRef))
            count = op.output_count(self._scope.sizes)
        except RuleError as error:
            found = RuleError(error.code, error.message, [f"found {forms.kind(argument)}"], error.hint)
            self._broken(found if error.code == "apply-argument" else error, node)
            raise _Wrong from None
        return self._add(op, operands, count, node)

    def _add(self, op: Primitive, operands: Sequence[StreamRef], count: int | None, node: ast.Call) -> Any:
        first, total = self._streams, 1 if count is None else count
        if len(self._nodes) >= self._limits.primitives or total > self._limits.primitives:
            message = f"the program has more than {self._limits.primitives:,} primitives or streams of one"
            self._report("primitives", message, node, stage="limits")
            raise _Stop
        self._streams += total
        outputs = tuple(range(first, first + total))
        self._nodes.append(Node(op, tuple(operand.id for operand in operands), outputs, self._span(node)))
        refs = [StreamRef(stream) for stream in outputs]
        return refs[0] if count is None else refs

    def _primitive(self, made: ast.Call) -> Primitive | None:
        """The configured primitive, or None where its configuration is wrong or unknown (and was reported)."""
        func = made.func
        if not (isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and self._is_step(func.value.id)):
            message, hint = forms.call(made, self._env)
            raise self._wrong("call", message, made, hint)
        if func.attr not in PRIMITIVES:
            message, hint = forms.unknown_primitive(func.attr, PRIMITIVES)
            raise self._wrong("primitive", message, func, hint)
        kind = PRIMITIVES[func.attr]
        config = self._config(made, func.attr, kind.config_names())
        if any(forms.holds(value, UNKNOWN) for value in config.values()):
            return None
        try:
            return kind(**config)
        except RuleError as error:
            self._broken(error, made)
            return None

    def _is_step(self, name: str) -> bool:
        return name == "step" and self._env.get("step") is _STEP

    def _config(self, made: ast.Call, name: str, names: Sequence[str]) -> dict[str, Any]:
        config: dict[str, Any] = {}
        usage = f"step.{name}({', '.join(f'{key}=…' for key in names)})"
        if len(made.args) > len(names):
            raise self._wrong("config", f"{name} takes {len(names)} values, found {len(made.args)}", made, f"write {usage}")
        for key, arg in [*zip(names, self._flat(made), strict=False), *((k.arg, k.value) for k in made.keywords)]:
            if key not in names:
                raise self._wrong("config", f"{name} has no {key}", made, f"write {usage}")
            if key in config:
                raise self._wrong("config", f"{name}: {key} is given twice", made, f"write {usage}")
            config[key] = self._expression(arg)
        missing = [key for key in names if key not in config]
        if missing:
            raise self._wrong("config", f"{name} needs {' and '.join(missing)}", made, f"write {usage}")
        return config


