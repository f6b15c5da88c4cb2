"""The values of a program's names: streams, dims, ints, functions, and lists and tuples of them."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeGuard

import sympy

from step_runtime.base.errors import quantity
from step_runtime.base.functions import Fn
from step_runtime.base.sized import Form, Sized, form_of, names_in
from step_runtime.program.graph import StreamId

LARGEST_INT = 2**63 - 1

SEQUENCE_BUILTINS: dict[str, Callable[[list[Any]], Any]] = {
    "enumerate": lambda items: list(enumerate(items)),
    "reversed": lambda items: items[::-1],
    "len": len,
    "list": list,
    "tuple": tuple,
}
"""The builtins that take one sequence."""


def too_large(number: int) -> str:
    """The message for an int beyond `LARGEST_INT`; the digits are never printed, as that may take long or fail."""
    return f"an int of {number.bit_length()} bits; the limit is {LARGEST_INT.bit_length()}"


class StreamRef:
    """A stream as a value of the program."""

    __slots__ = ("id",)

    def __init__(self, stream: StreamId) -> None:
        self.id = stream


class Items(list[Any]):
    """A list of the program; `extent` is the form of its length."""

    def __init__(self, items: Iterable[Any] = (), extent: Form | None = None) -> None:
        super().__init__(items)
        self.extent: Form = len(self) if extent is None else extent


def length(items: Sequence[Any]) -> Form:
    """The form of a sequence's length."""
    return items.extent if isinstance(items, Items) else len(items)


def is_sized(items: Sequence[Any]) -> bool:
    """Whether a sequence's length follows from sizes."""
    return bool(names_in(length(items)))


UNKNOWN = object()
"""The value of a wrong expression: its uses are not reported again."""


def kind(value: Any) -> str:
    """A description of the kind of a value."""
    if isinstance(value, list | tuple):
        return f"a {'tuple' if isinstance(value, tuple) else 'list'} of {quantity(len(value), 'value')}"
    if isinstance(value, Fn):
        return f"the function {value.label}"
    if isinstance(value, int | sympy.Integer):
        return f"the int {value}"
    return f"the dim {value}" if isinstance(value, sympy.Expr) else "a stream"


def is_unknown(value: Any, spend: Callable[[int], None]) -> bool:
    """Whether a value is unknown, or a sequence that holds something unknown at any depth.

    `spend` is called with the length of each sequence before its items are visited.
    """
    # A list may hold itself, or one list many times: each is visited once.
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if value is UNKNOWN:
            return True
        if isinstance(value, list | tuple) and id(value) not in seen:
            seen.add(id(value))
            spend(len(value))
            waiting += value
    return False


def are_streams(value: Any) -> bool:
    """Whether a value is a list or tuple of streams, and not empty."""
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(part, StreamRef) for part in value)


_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
"""The operators of the language on ints."""


def carries(body: Sequence[ast.stmt]) -> bool:
    """Whether a loop's body hands on what it binds from one name to another, so that turns differ."""
    bound = {node.id for statement in body for node in ast.walk(statement) if _stores(node)}
    sources: dict[str, set[str]] = {}
    carried: set[str] = set()
    for statement in body:
        for part in [statement, *(node for node in ast.walk(statement) if isinstance(node, ast.stmt))][1:]:
            own = list(ast.iter_child_nodes(part)) if isinstance(part, ast.For) else [part]
            nodes = [node for each in own if not isinstance(each, ast.stmt) or each is part for node in ast.walk(each)]
            read = {node.id for node in nodes if isinstance(node, ast.Name) and not _stores(node)} & bound
            carried |= read - sources.keys()
            taken = set[str]().union(*(sources.get(name, {name}) for name in read))
            sources |= {node.id: taken for node in nodes if _stores(node)}
    return any(sources.get(name, set()) - {name} for name in carried)


def _stores(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def integer(op: ast.operator, left: int, right: int) -> int:
    """`left op right` on ints, with its form where one of them is sized; `right` is not 0 in a division."""
    operation = _OPERATIONS[type(op)]
    value = operation(int(left), int(right))
    if not isinstance(left, Sized) and not isinstance(right, Sized):
        return value
    return Sized.of(value, (operation, form_of(left), form_of(right)))
