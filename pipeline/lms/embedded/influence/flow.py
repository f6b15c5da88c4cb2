"""Decisions and loops of PyTorch code: unrolled where sizes decide, and read both ways where data do.

What holds where data end a function, a loop or a round is kept, and may hold after it.
"""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from pipeline.lms.embedded.influence.arrays import Array, Unread, like, unknown
from pipeline.lms.embedded.influence.branches import Names, copied, same_names, scopes_of, settle
from pipeline.lms.embedded.influence.expressions import ExpressionReader
from pipeline.lms.embedded.influence.language import UnsureRange, decision, items_of

_MOST_ROUNDS = 24
"""Rounds of a loop that data end, in which counts stay known; afterwards its names are read until nothing changes."""


class Returned(Exception):
    """A function returns."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Left(Exception):
    """A loop is left, or its round."""

    def __init__(self, kind: Literal["break", "continue"]) -> None:
        self.kind = kind


class FlowReader(ExpressionReader):
    """Reads decisions and loops."""

    def __init__(self, data: Mapping[str, Array], sizes: Mapping[str, int]) -> None:
        super().__init__(data, sizes)
        self._tests: list[Array] = []
        """The decisions of data that the statement that is read depends on."""
        self._results: list[list[tuple[Array, Any]]] = []
        """Results of the functions that are read, each by the decision that gives it."""
        self._exits: list[dict[str, list[tuple[Array, Names]]]] = []
        """The names where data may leave the loops that are read, or a round of these."""

    @abstractmethod
    def _statements(self, body: Sequence[ast.stmt], env: Names) -> None:
        """Reads statements one after the other."""

    def _copied(self, env: Names) -> Names:
        """A copy of an environment, which counts as work: it is compared and merged as well."""
        copy, count = copied(env)
        self._spend(3 * count)
        return copy

    def _controlled(self, statement: ast.For | ast.While | ast.If, env: Names) -> None:
        match statement:
            case ast.If(test=test, body=body, orelse=others):
                answer = decision(self.value(test, env))
                if isinstance(answer, bool):
                    self._statements(body if answer else others, env)
                else:
                    self._both(answer, lambda own: self._statements(body, own),
                               lambda own: self._statements(others, own), env)  # fmt: skip
            case ast.For(target=target, iter=items, body=body, orelse=others):
                several = self.value(items, env)
                if isinstance(several, UnsureRange):
                    self._until_stable(several.number, lambda own: self._round(target, several.number, body, own), env)
                elif self._repeated([(target, item) for item in items_of(several)], body, env):
                    self._statements(others, env)
            case ast.While(test=test, body=body, orelse=others):
                if self._while(test, body, env):
                    self._statements(others, env)

    def _both(self, test: Array, one: Callable[[Names], None], other: Callable[[Names], None], env: Names) -> None:
        """Reads two branches of which data decide one."""
        self._tests.append(test)
        deciding = unknown(np.bitwise_or.reduce([own.sources for own in self._tests]))
        ends: list[tuple[Names, Exception | None]] = []
        for branch in (one, other):
            own = self._copied(env)
            try:
                branch(own)
                ends.append((own, None))
            except (Returned, Left) as left:
                ends.append((own, left))
        self._tests.pop()
        (first, one_end), (second, other_end) = ends
        if one_end is not None and other_end is not None:
            self._postpone(deciding, one_end, first)
            raise other_end
        if one_end is None and other_end is None:
            settle(env, like(deciding, test), first, second)
            return
        if one_end is not None:
            self._postpone(deciding, one_end, first)
        elif other_end is not None:
            self._postpone(deciding, other_end, second)
        for scope, own in zip(scopes_of(env), scopes_of(first if one_end is None else second), strict=True):
            scope.update(own)

    def _postpone(self, test: Array, end: Exception, env: Names) -> None:
        """Keeps what holds where data end a function, a loop or a round."""
        if isinstance(end, Returned):
            self._results[-1].append((test, end.value))
        elif isinstance(end, Left) and self._exits:
            self._exits[-1][end.kind].append((test, env))
        else:
            raise Unread("a loop that is left from outside")

    def _round(self, target: ast.expr | None, item: Any, body: Sequence[ast.stmt], env: Names) -> None:
        """One round of a loop."""
        if target is not None:
            self._bind(target, item, env)
        exits = self._exits[-1]
        before, exits["continue"] = exits["continue"], []
        end: Left | None = None
        try:
            self._statements(body, env)
        except Left as left:
            end = left
        finally:
            ends, exits["continue"] = exits["continue"], before
        for test, names in reversed(ends):
            settle(env, test, names, self._copied(env))
        if end is not None and end.kind == "break":
            if ends:
                raise Unread("a loop that may be left")
            raise end

    @contextmanager
    def _loop(self, env: Names) -> Iterator[None]:
        """A loop, after which what holds where data leave it may hold."""
        self._exits.append({"break": [], "continue": []})
        try:
            yield
        finally:
            exits = self._exits.pop()
        for test, names in reversed(exits["break"]):
            settle(env, test, names, self._copied(env))

    def _repeated(self, rounds: Sequence[tuple[ast.expr, Any]], body: Sequence[ast.stmt], env: Names) -> bool:
        """The rounds of a loop; whether it may end without a break."""
        with self._loop(env):
            try:
                for target, item in rounds:
                    self._round(target, item, body, env)
            except Left:
                return False
        return True

    def _while(self, test: ast.expr, body: Sequence[ast.stmt], env: Names) -> bool:
        """A loop by a test; whether it may end without a break."""
        with self._loop(env):
            try:
                self._turns(test, body, env)
            except Left:
                return False
        return True

    def _turns(self, test: ast.expr, body: Sequence[ast.stmt], env: Names) -> None:
        """The rounds of a loop by a test."""
        for turn in range(_MOST_ROUNDS**2):
            answer = decision(self.value(test, env))
            if answer is False:
                return
            if not isinstance(answer, Array):
                self._round(None, None, body, env)
                continue
            if turn >= _MOST_ROUNDS:
                self._until_stable(answer, lambda own: self._tested(test, body, own), env)
                return
            self._exits[-1]["break"].append((answer, self._copied(env)))
            before = self._copied(env)
            self._round(None, None, body, env)
            if same_names(before, env):
                return
        raise Unread("a loop without end")

    def _tested(self, test: ast.expr, body: Sequence[ast.stmt], env: Names) -> None:
        answer = decision(self.value(test, env))
        if isinstance(answer, Array):
            self._both(answer, lambda own: self._round(None, None, body, own), lambda own: None, env)
        elif answer:
            self._round(None, None, body, env)

    def _until_stable(self, test: Array, turn: Callable[[Names], None], env: Names) -> None:
        """Rounds of which data decide how many there are, until another one changes nothing."""
        with self._loop(env):
            for _ in range(_MOST_ROUNDS**2):
                before = self._copied(env)
                self._both(test, turn, lambda own: None, env)
                if same_names(before, env):
                    return
            raise Unread("a loop without end")
