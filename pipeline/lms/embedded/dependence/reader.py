"""Reads the statements of PyTorch code for flows: a walk of the syntax tree that runs nothing.

What data decide is multiplied by the decision, as the functions that have no branches write it. Loops are read once,
with a leaf for each variable that they change, and solved for the smallest flows that fit.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from typing import NamedTuple

from pipeline.lms.embedded.dependence.expressions import ExpressionReader
from pipeline.lms.embedded.dependence.paths import NOTHING, leaf, leaves, replaced, union
from pipeline.lms.embedded.dependence.recurrences import assigned, base_of, solved, statements_of
from pipeline.lms.embedded.dependence.vocabulary import Elements, Value

_UNROLLED = 16
"""Longer sequences are read as a loop."""
_COUNTED = " counted"
"""The name of the condition under which data let a loop run on."""


class Left(NamedTuple):
    """A block that ends before its last statement, and what it returns if it does."""

    value: Value = None
    returns: bool = False


class FlowReader(ExpressionReader):
    """Reads one snippet at a time in an environment of names."""

    def run(self, code: str, env: dict[str, Value]) -> Value:
        """The value of a snippet: what it returns, or its last line; `env` receives the names that it assigns."""
        return self._body(statements_of(code), env)

    def _body(self, body: Sequence[ast.stmt], env: dict[str, Value]) -> Value:
        self._last: Value = None
        left = self._block(body, env)
        return left.value if left is not None else self._last

    def _block(self, body: Sequence[ast.stmt], env: dict[str, Value]) -> Left | None:
        """Some statements; None if they are read to their end."""
        for place, statement in enumerate(body):
            self._last = None
            match statement:
                case ast.Return(value=expression):
                    return Left(None if expression is None else self.value(expression, env), returns=True)
                case ast.Break() | ast.Continue() | ast.Raise():
                    return Left()
                case ast.Expr(value=expression):
                    self._last = self.value(expression, env)
                case ast.If():
                    return self._if(statement, body[place + 1 :], env)
                case ast.For() | ast.While():
                    found = self._repeat(statement, env)
                    if found is not None and found.returns:
                        return self._joined(found, self._block(body[place + 1 :], env))
                case ast.With(body=inner):
                    return self._block([*inner, *body[place + 1 :]], env)
                case _:
                    self._assign(statement, env)
        return None

    def _joined(self, one: Left, other: Left | None) -> Left:
        """What a block returns in a loop or behind it."""
        flows = [self.words.flow(way.value if way is not None else self._last) for way in (one, other)]
        return Left(union(*flows), returns=True)

    def _assign(self, statement: ast.stmt, env: dict[str, Value]) -> None:
        match statement:
            case ast.Assign(targets=targets, value=expression):
                value = self.value(expression, env)
                for target in targets:
                    self._bind(target, value, env)
            case ast.AnnAssign(target=target, value=ast.expr() as expression):
                self._bind(target, self.value(expression, env), env)
            case ast.AugAssign(target=target, op=op, value=expression):
                before, index = env.get(base_of(target), NOTHING), self._places(target, env)
                value = self.value(expression, env)
                value = self._binary(op, before, self.words.selected(self.words.flow(value), index) if index else value)
                if isinstance(op, ast.Add | ast.Sub) or isinstance(target, ast.Name):
                    env[base_of(target)] = value
                else:
                    self._change(target, value, env)
            case ast.FunctionDef(name=name, args=arguments, body=body):
                env[name] = self._closure(arguments, tuple(body), env)

    # --- decisions ---

    def _if(self, statement: ast.If, rest: Sequence[ast.stmt], env: dict[str, Value]) -> Left | None:
        """A decision and what follows it: a constant selects a branch, and data select what the branches change."""
        test = self.value(statement.test, env)
        if isinstance(test, bool | int | float | str) or test is None:
            return self._block([*(statement.body if test else statement.orelse), *rest], env)
        ways: list[Sequence[ast.stmt]] = [statement.body, statement.orelse]
        if any(map(_leaves, ways)):
            ways, rest = [way if _leaves(way) else [*way, *rest] for way in ways], ()
        lefts: list[Left | None] = []
        values, envs = [], (dict(env), dict(env))
        for way, own in zip(ways, envs, strict=True):
            left = self._block(way, own)
            lefts.append(left)
            values.append(self._last if left is None else left.value)
        for name in envs[0].keys() | envs[1].keys():
            one, other = (own.get(name, envs[not place].get(name)) for place, own in enumerate(envs))
            env[name] = one if one is other else self.words.either(test, one, other)
        if any(left is not None and left.returns for left in lefts):
            found = Left(self.words.either(test, *values), returns=True)
            return self._joined(found, self._block(rest, env)) if rest else found
        return self._block(rest, env) if None in lefts else Left()

    # --- loops ---

    def _repeat(self, statement: ast.For | ast.While, env: dict[str, Value]) -> Left | None:
        if isinstance(statement, ast.While):
            return self._loop([ast.If(statement.test, statement.body, [])], env)
        items, target, body = self.value(statement.iter, env), statement.target, statement.body
        if isinstance(items, tuple | range) and len(items) <= _UNROLLED:
            for item in items:
                self._bind(target, item, env)
                left = self._block(body, env)
                if left is not None and (left.returns or not _continues(body)):
                    return left
            return None
        self._bind(target, self._element(items), env)
        if isinstance(items, Elements) and items.when:
            env[_COUNTED] = items.when
            body = [ast.If(ast.Name(_COUNTED, ast.Load()), body, [])]
        return self._loop(body, env, bound={part.id for part in ast.walk(target) if isinstance(part, ast.Name)})

    def _loop(self, body: Sequence[ast.stmt], env: dict[str, Value], bound: Collection[str] = ()) -> Left | None:
        """Any number of turns of a body, each of which begins with these names bound anew."""
        changed = [name for name in assigned(body) if name in env and name not in bound]
        number = {name: self._states + place for place, name in enumerate(changed)}
        self._states += len(changed)
        before = {number[name]: self.words.flow(env[name]) for name in changed}
        env |= {name: leaf(number[name]) for name in changed}
        outside, self.met = self.met, set()
        left = self._block(body, env)
        after = solved({number[name]: self.words.flow(env[name]) for name in changed}, before, self.words.position)
        self.met = outside.union(replaced(flow, after) for flow in self.met)
        for name, value in env.items():
            if isinstance(value, frozenset) and any(leaves(value) >> state & 1 for state in after):
                env[name] = replaced(value, after)
        env |= {name: after[number[name]] for name in changed}
        return left._replace(value=replaced(self.words.flow(left.value), after)) if left is not None else None


def _leaves(body: Sequence[ast.stmt]) -> bool:
    """Whether a branch ends what is around it."""
    return bool(body) and isinstance(body[-1], ast.Return | ast.Break | ast.Continue | ast.Raise)


def _continues(body: Sequence[ast.stmt]) -> bool:
    """Whether a loop's body is left for its next turn only."""
    parts = [part for statement in body for part in ast.walk(statement)]
    return not any(isinstance(part, ast.Break) for part in parts)
