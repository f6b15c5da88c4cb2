"""Walks a program's statements and returns the dataflow graph; with `expressions`, this defines the whole language."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from contextlib import suppress
from operator import add
from typing import Any

import sympy

from step_runtime.base.errors import Diagnostic, Span, quantity
from step_runtime.base.functions import Fn
from step_runtime.base.sized import Form, Sized, names_in, unfollowed
from step_runtime.language import hints
from step_runtime.language.collector import DiagnosticCollector, InvalidCode, WalkEnded
from step_runtime.language.expressions import Expressions, is_text
from step_runtime.language.static_values import UNKNOWN, Items, StreamRef, carries, is_sized, kind, length
from step_runtime.program.graph import Program, StreamId
from step_runtime.program.limits import Limits
from step_runtime.tasks.scope import Scope


class Evaluator(Expressions):
    """One walk over one program in one scope."""

    def __init__(self, scope: Scope, limits: Limits, collector: DiagnosticCollector) -> None:
        super().__init__(scope, limits, collector)
        self.turns: Form = 0
        self._results: tuple[StreamId, ...] = ()
        self._result_span: Span | None = None

    def run(
        self, statements: Sequence[ast.stmt], parameters: Sequence[ast.arg] | None
    ) -> tuple[Program, list[Diagnostic]]:
        """The graph and every diagnostic; `parameters` are those of a `def body` around the statements."""
        names = (node for statement in statements for node in ast.walk(statement) if isinstance(node, ast.Name))
        self.bound = frozenset(name.id for name in names if isinstance(name.ctx, ast.Store))
        try:
            if parameters is not None:
                self._bind_parameters(parameters)
            self._block(statements)
            if not self.collector.diagnostics:
                self._missing_return(statements)
        except WalkEnded:
            pass
        with suppress(WalkEnded):
            self._check_end(statements)
        self._name_unnamed_streams()
        program = Program(
            tuple(self.inputs), tuple(self.nodes), self._results, self.names, self._result_span, tuple(self.conditions)
        )
        return program, self.collector.diagnostics

    def _bind_parameters(self, parameters: Sequence[ast.arg]) -> None:
        count = len(self.inputs)
        if len({parameter.arg for parameter in parameters}) != count or len(parameters) != count:
            found, wanted = quantity(len(parameters), "parameter"), quantity(count, "input")
            message = f"`def body` has {found}; the task has {wanted}"
            if len(parameters) == count:
                message = "`def body` has one parameter twice"
            where = parameters[0] if parameters else None
            self.collector.report("body", message, where, f"write def body({', '.join(self.inputs)}):")
            raise WalkEnded
        for name in self.inputs:
            del self.env[name]
        for parameter, stream in zip(parameters, self.inputs.values(), strict=True):
            self.env[parameter.arg] = stream
            self.names[stream.id] = parameter.arg

    def _check_end(self, statements: Sequence[ast.stmt]) -> None:
        """Reports what follows the first `return`: it is never walked, so it could be anything."""
        blocks = [statements]
        while blocks:
            block = [statement for statement in blocks.pop() if not is_text(statement)]
            for index, statement in enumerate(block):
                if block[index + 1 :] and _returns(statement):
                    message = "the program continues after its `return`"
                    hint = "end with one `return`, and leave out what follows it"
                    self.collector.report("after-return", message, block[index + 1], hint)
                    return
                if isinstance(statement, ast.For):
                    blocks.append(statement.body)

    def _missing_return(self, statements: Sequence[ast.stmt]) -> None:
        last = max(self.names, default=0)
        wanted = self.names.get(last) or next(iter(self.inputs))
        hint = f"end with the outputs, e.g. `return {wanted}`"
        self.collector.report("return", "the program returns nothing", statements[-1] if statements else None, hint)

    def _name_unnamed_streams(self) -> None:
        """Names unnamed streams after the primitive that made them."""
        for node in self.nodes:
            for stream in node.outputs:
                line = f" of line {node.span.line}" if node.span else ""
                self.names.setdefault(stream, f"the {node.op.name}{line}")

    def _block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self.spend(statement)
            try:
                self._statement(statement)
            except InvalidCode:
                self._poison(statement)

    def _poison(self, statement: ast.stmt) -> None:
        """Marks what a wrong statement would have bound, or appended to, as unknown from here on."""
        for node in ast.walk(statement):
            self.spend(statement)
            match node:
                case ast.Name(id=name, ctx=ast.Store()):
                    self.env[name] = UNKNOWN
                case ast.Attribute(value=ast.Name(id=name), attr="append"):
                    self.env[name] = UNKNOWN
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    self.env[name] = UNKNOWN

    def _statement(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Assign(targets=targets, value=value):
                result = self.value(value)
                for target in targets:
                    self.assign(target, result)
            case _ if is_text(statement):
                pass
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name() as target, attr="append")) as call):
                self._append(target, call)
            case ast.For(target=target, iter=iterable, body=body, orelse=[]):
                items = self.sequence(iterable)
                if not items:
                    self.unread(target, target, *body)
                self._repeat(target, items, body)
            case ast.Return(value=ast.expr() as value):
                self._return(value)
            case _:
                message, hint = hints.statement(statement)
                raise self.collector.invalid("statement", message, statement, hint)

    def _repeat(self, target: ast.expr, items: Sequence[Any], body: Sequence[ast.stmt]) -> None:
        """A loop. If sizes decide on its turns, only streams that each become themselves are followed through it."""
        sized, before, outer = is_sized(items), dict(self.env), self.turns
        self.turns = length(items) if sized else outer
        for item in items:
            self.assign(target, item)
            self._block(body)
        lost, self.turns = unfollowed(self.turns), outer
        if not sized:
            return
        kept = all(self.env[name] is value for name, value in before.items() if isinstance(value, Fn | sympy.Expr))
        if carries(body) or not kept:
            self.counted(lost, 0)
        for name, value in self.env.items():
            if isinstance(value, int) and value is not before.get(name):
                self.env[name] = Sized.of(value, lost)

    def _append(self, target: ast.Name, call: ast.Call) -> None:
        known = self.value(target)
        if known is UNKNOWN:
            raise InvalidCode
        if not isinstance(known, list):
            hint = f"start with {target.id} = [] to build a list"
            raise self.collector.invalid("append", f"{target.id} is {kind(known)}; append needs a list", call, hint)
        if len(call.args) != 1 or call.keywords or isinstance(call.args[0], ast.Starred):
            raise self.collector.invalid("append", "append takes one value", call, f"write {target.id}.append(E0)")
        known.append(self.value(call.args[0]))
        if isinstance(known, Items):
            grown = (add, known.extent, 1) if is_sized(known) else len(known)
            known.extent = unfollowed(self.turns) if names_in(self.turns) else grown

    def _return(self, value: ast.expr) -> None:
        result: Any = self.value(value)
        parts = result if isinstance(result, list | tuple) else [result]
        self._result_span = self.collector.span(value)
        streams = [part for part in parts if isinstance(part, StreamRef)]
        if not self.is_unknown(result, value):
            if not parts or len(streams) < len(parts):
                found = kind(next((part for part in parts if not isinstance(part, StreamRef)), result))
                message = f"a program returns streams, found {found}"
                self.collector.report("return", message, value, hints.RETURN)
            else:
                self._results = tuple(part.id for part in streams)
        raise WalkEnded


def _returns(statement: ast.stmt) -> bool:
    """Whether a statement is a `return`, or a loop that holds one."""
    if isinstance(statement, ast.For):
        return any(isinstance(node, ast.Return) for node in ast.walk(statement))
    return isinstance(statement, ast.Return)
