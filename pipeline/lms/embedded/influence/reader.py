"""Reads PyTorch code for sources: a walk of the syntax tree at fixed sizes, which knows positions but no data.

Loops are unrolled, as their bounds are sizes. Where data decide, both branches are read, and loops until nothing
changes. What is not understood is unread: an assignment of it leaves its names unread, and what uses them.
"""

from __future__ import annotations

import ast
from collections import ChainMap
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from pipeline.lms.embedded.dependence.recurrences import (
    CHANGED,
    STATISTICS,
    VIEWS,
    assigned,
    base_of,
    statements_of,
)
from pipeline.lms.embedded.influence.arrays import Array, Unread, Word, as_array, constant, plus, times
from pipeline.lms.embedded.influence.branches import (
    MISSING,
    Names,
    either_of,
    scope_with,
    scopes_of,
)
from pipeline.lms.embedded.influence.dim_calls import variance
from pipeline.lms.embedded.influence.expressions import is_module
from pipeline.lms.embedded.influence.flow import FlowReader, Left, Returned
from pipeline.lms.embedded.influence.indexing import replaced
from pipeline.lms.embedded.influence.language import binary, decision, items_of, reading
from pipeline.lms.embedded.influence.reductions import reduced
from pipeline.lms.embedded.influence.sequences import CHANGING, set_item


class ArrayReader(FlowReader):
    """Reads snippets in an environment of names; `data` are inputs and weights, `sizes` those of the dims."""

    def run(self, code: str, env: dict[str, Any]) -> Any:
        """The value of a snippet: what it returns, or its last line; `env` receives the names that it assigns.

        Raises:
            Unread: It could not be read.
        """
        self._work, self._depth = 0, 0
        self._tests, self._results, self._exits = [], [], []
        try:
            with reading():
                return self._body(statements_of(code), env)
        except Left:
            raise Unread("a loop that is left from outside") from None

    def _body(self, body: Sequence[ast.stmt], env: Names) -> Any:
        exits, self._exits = self._exits, []
        self._results.append([])
        depth = len(self._results)
        try:
            try:
                value = self._run(body, env)
            except Returned as result:
                value = result.value
            for test, other in reversed(self._results[depth - 1]):
                value = either_of(test, other, value)
            if value is MISSING:
                raise Unread("the last line has no value that can be read")
            return value
        finally:
            del self._results[depth - 1 :]
            self._exits = exits

    def _run(self, body: Sequence[ast.stmt], env: Names) -> Any:
        value: Any = None
        for statement in body:
            value = MISSING
            match statement:
                case ast.Expr(value=expression):
                    with suppress(Unread):
                        value = self._expression(expression, env)
                case _:
                    if not isinstance(statement, ast.Return):
                        value = None if isinstance(statement, ast.Pass) else MISSING
                    self._checked(statement, env)
        return value

    def _checked(self, statement: ast.stmt, env: Names) -> None:
        """A statement; the names that it changes are unread if it is."""
        depth = len(self._tests)
        try:
            self._statement(statement, env)
        except Unread:
            del self._tests[depth:]
            if isinstance(statement, ast.Return) or any(isinstance(part, ast.Return) for part in ast.walk(statement)):
                raise  # Whether the rest is read at all is not known.
            for name in _touched(statement):
                scope_with(env, name)[name] = MISSING

    def _expression(self, node: ast.expr, env: Names) -> Any:
        """An expression as a statement, which may change what it is called on."""
        try:
            return self.value(node, env)
        except Unread:
            for name in _touched(node):
                scope_with(env, name)[name] = MISSING
            raise

    def _statements(self, body: Sequence[ast.stmt], env: Names) -> None:
        for statement in body:
            if isinstance(statement, ast.Expr):
                with suppress(Unread):
                    self._expression(statement.value, env)
            else:
                self._statement(statement, env)

    def _statement(self, statement: ast.stmt, env: Names) -> None:
        match statement:
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
                self._assign(statement, env)
            case ast.For() | ast.While() | ast.If():
                self._controlled(statement, env)
            case ast.Return(value=expression):
                raise Returned(None if expression is None else self.value(expression, env))
            case ast.Break() | ast.Continue():
                raise Left("break" if isinstance(statement, ast.Break) else "continue")
            case ast.FunctionDef(name=name, args=arguments, body=body):
                env[name] = self._closure(arguments, tuple(body), env)
            case ast.With(body=body):
                self._statements(body, env)
            case ast.Expr(value=expression):
                self._expression(expression, env)
            case ast.Import(names=modules) | ast.ImportFrom(names=modules):
                names = {one.asname or one.name: Word(one.name.rpartition(".")[2]) for one in modules}
                env.update(names if isinstance(statement, ast.ImportFrom) else
                           {one.asname: names[one.asname] for one in modules if one.asname})  # fmt: skip
            case _:
                self._declared(statement, env)

    def _declared(self, statement: ast.stmt, env: Names) -> None:
        """Names that belong to an outer scope, or to none any more."""
        match statement:
            case ast.Delete(targets=targets):
                for target in targets:
                    match target:
                        case ast.Name(id=name):
                            env.pop(name, None)
                        case ast.Subscript(value=owner, slice=place):
                            del self.value(owner, env)[self.value(place, env)]
            case ast.Nonlocal(names=names) | ast.Global(names=names):
                if isinstance(env, ChainMap):
                    env.maps[0].setdefault("nonlocal", set()).update(names)
            case ast.Pass() | ast.Assert():
                pass
            case _:
                raise Unread("a statement of an unknown kind")

    # --- assignments ---

    def _assign(self, statement: ast.Assign | ast.AnnAssign | ast.AugAssign, env: Names) -> None:
        if statement.value is None:
            return
        value = self.value(statement.value, env)
        match statement:
            case ast.Assign(targets=targets):
                for target in targets:
                    self._bind(target, value, env)
            case ast.AugAssign(target=ast.Subscript(value=owner, slice=place) as part, op=op):
                inner = ChainMap({"the place": self.value(place, env)}, *scopes_of(env))
                target = ast.Subscript(owner, ast.Name("the place", ast.Load()), part.ctx)
                with reading():
                    value = binary(op, self.value(target, inner), value)
                self._bind(target, value, inner)
            case ast.AugAssign(target=target, op=op):
                before = self.value(target, env)
                with reading():
                    value = binary(op, before, value)
                    if isinstance(before, list) and isinstance(value, list):
                        before[:] = value
                        value = before
                self._bind(target, value, env)
            case ast.AnnAssign(target=target):
                self._bind(target, value, env)

    def _bind(self, target: ast.expr, value: Any, env: Names) -> None:
        match target:
            case ast.Name(id=name):
                outer = isinstance(env, ChainMap) and name in env.maps[0].get("nonlocal", ())
                (scope_with(ChainMap(*env.maps[1:]), name) if outer and isinstance(env, ChainMap) else env)[name] = (
                    value
                )
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part, own in _paired(parts, items_of(value)):
                    self._bind(part, own, env)
            case ast.Subscript(value=owner, slice=place):
                before, index = self.value(owner, env), self.value(place, env)
                with reading():
                    if isinstance(before, Array):
                        self._store(owner, replaced(before, index, value), env)
                    else:
                        set_item(before, index, value)
            case ast.Attribute(attr=name) if name in VIEWS:
                self._store(target, as_array(value), env)
            case _:
                raise Unread("a target of an unknown kind")

    def _store(self, target: ast.expr, value: Any, env: Names) -> None:
        """Changes the tensor that an expression is a part of, in place."""
        match target:
            case ast.Name(id=name):
                scope_with(env, name)[name] = value
            case ast.Subscript(value=ast.Name(id="input_data")):
                raise Unread("an input that is changed")
            case ast.Subscript():
                self._bind(target, value, env)
            case ast.Attribute(value=owner, attr=name) | ast.Call(func=ast.Attribute(value=owner, attr=name)):
                if name in VIEWS and not is_module(owner, env):
                    self._store_view(target, owner, value, env)

    def _store_view(self, view: ast.expr, owner: ast.expr, value: Array, env: Names) -> None:
        """Changes what a view shows of a tensor: found by the numbers of the tensor's elements."""
        whole = self.value(owner, env)
        if not isinstance(whole, Array):
            raise Unread("a view of something that is not known")
        numbers = constant(np.arange(whole.values.size).reshape(whole.shape))
        inner = ChainMap({"the viewed": numbers}, *scopes_of(env))
        places = as_array(self.value(_on(view, ast.Name("the viewed", ast.Load())), inner)).known()
        flat = whole.through(lambda part: part.reshape(-1))
        new = replaced(
            flat, constant(places.reshape(-1)), _spread(value, places.shape).through(lambda part: part.reshape(-1))
        )
        self._store(owner, new.through(lambda part: part.reshape(whole.shape)), env)

    def _call(self, node: ast.Call, env: Names) -> Any:
        match node.func:
            case ast.Attribute(value=owner, attr=name) if name[-1:] == "_" and name[-2:-1] not in ("", "_"):
                changed = node.args[0] if is_module(owner, env) and node.args else owner
                attribute = ast.Attribute(owner, name[:-1], ast.Load())
                value = super()._call(ast.Call(attribute, node.args, node.keywords), env)
                before = self.value(changed, env)
                if isinstance(before, Array) and isinstance(value, Array) and before.shape != value.shape:
                    value = _spread(value, before.shape)
                self._store(changed, value, env)
                return value
        kept = [keyword for keyword in node.keywords if keyword.arg not in ("out", "inplace")]
        if len(kept) == len(node.keywords):
            value = super()._call(node, env)
            if isinstance(node.func, ast.Attribute) and node.func.attr in CHANGED and is_module(node.func.value, env):
                self._track(node, env)
            return value
        value = super()._call(ast.Call(node.func, node.args, kept), env)
        for keyword in node.keywords:
            if keyword.arg == "out":
                self._store(keyword.value, value, env)
            elif keyword.arg == "inplace" and node.args and decision(self.value(keyword.value, env)):
                self._store(node.args[0], value, env)
        return value

    def _track(self, node: ast.Call, env: Names) -> None:
        """Brings the running statistics of a normalization forward, unless they are what it normalizes by."""
        given = dict(zip(("input", *STATISTICS, "weight", "bias", "training", "momentum"), node.args, strict=False))
        given |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
        own = given.get("training", given.get("use_input_stats"))
        data = self.value(given["input"], env)
        targets = [given[name] for name in STATISTICS if name in given]
        if not isinstance(data, Array) or (own is not None and decision(self.value(own, env)) is False):
            return
        if own is None and isinstance(node.func, ast.Attribute) and node.func.attr == "batch_norm":
            return
        axes = tuple(axis for axis in range(data.ndim) if axis != 1)
        share = self.value(given["momentum"], env) if "momentum" in given else 0.1
        met = reduced(data, axes, False, np.mean), variance(data, axes, False, biased=False)
        for target, gained in zip(targets, met, strict=False):
            before = self.value(target, env)
            if isinstance(before, Array):
                self._store(target, plus(times(before, 1.0 - share), times(gained, share)), env)


def _on(view: ast.expr, owner: ast.expr) -> ast.expr:
    """A view of something else."""
    match view:
        case ast.Call(func=ast.Attribute(attr=name), args=args, keywords=keywords):
            return ast.Call(ast.Attribute(owner, name, ast.Load()), args, keywords)
        case ast.Attribute(attr=name):
            return ast.Attribute(owner, name, ast.Load())
    return view


def _spread(value: Array, shape: tuple[int, ...]) -> Array:
    return value.through(lambda part: np.broadcast_to(part, shape))


def _paired(parts: Sequence[ast.expr], values: list[Any]) -> list[tuple[ast.expr, Any]]:
    """Names with the values that they get."""
    for place, part in enumerate(parts):
        if isinstance(part, ast.Starred):
            rest = len(values) - (len(parts) - place - 1)
            values = [*values[:place], values[place:rest], *values[rest:]]
            parts = [*parts[:place], part.value, *parts[place + 1 :]]
    if len(values) != len(parts):
        raise Unread("values that do not fit their names")
    return list(zip(parts, values, strict=True))


def _touched(code: ast.AST) -> list[str]:
    """The names that a piece of code may change, also in place."""
    found = assigned([code]) if isinstance(code, ast.stmt) else []
    for node in ast.walk(code):
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in CHANGING or name.endswith("_"):
                found.append(base_of(_root(owner)))
            case ast.keyword(arg="out", value=owner):
                found.append(base_of(_root(owner)))
    return [name for name in found if name]


def _root(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node
