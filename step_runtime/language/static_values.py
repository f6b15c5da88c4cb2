"""The values of a program's names: streams, dims, ints, functions, and lists and tuples of them."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import sympy

from step_runtime.base.errors import quantity
from step_runtime.base.functions import Fn
from step_runtime.base.sized import Sized, form_of
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


class _Unknown:
    """The value of a wrong expression: its uses are not reported again."""


UNKNOWN = _Unknown()


def kind(value: Any) -> str:
    """A description of the kind of a value."""
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {quantity(len(value), 'value')}"
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


def integer(op: ast.operator, left: int, right: int) -> int:
    """`left op right` on ints, with its form where one of them is sized; `right` is not 0 in a division."""
    operation = _OPERATIONS[type(op)]
    value = operation(int(left), int(right))
    if not isinstance(left, Sized) and not isinstance(right, Sized):
        return value
    return Sized.of(value, (operation, form_of(left), form_of(right)))
