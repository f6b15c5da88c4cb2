"""What operators, attributes, indices and functions of Python do to arrays of sources, numbers and sequences."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

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
from pipeline.lms.embedded.influence.calls import CALLS, called
from pipeline.lms.embedded.influence.shape_calls import turned, turned_matrices
from pipeline.lms.embedded.influence.value_calls import power

_ERRORS = (TypeError, ValueError, IndexError, KeyError, AttributeError, ArithmeticError, RecursionError)
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
_LARGEST_POWER = 64
_LONGEST = 4000


class reading:
    """Turns what misread code raises into `Unread`."""

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        """Replaces the error.

        Raises:
            Unread: The code was misread.
        """
        if isinstance(error, _ERRORS):
            raise Unread(str(error)) from error


def decided(value: Any) -> bool:
    """Whether a value that does not depend on data is true."""
    return bool(value.known()) if isinstance(value, Array) else bool(value)


def whole(value: Any) -> Any:
    """A constant of no dims as a number; other values as they are."""
    return int(value.known()) if isinstance(value, Array) else value


def items_of(value: Any) -> list[Any]:
    """The elements of a sequence.

    Raises:
        Unread: It is none, or too long.
    """
    if isinstance(value, Array):
        return [value.through(lambda part: part[place]) for place in range(len(value.values))]  # noqa: B023
    if isinstance(value, list | tuple | range) and len(value) <= _LONGEST:
        return list(value)
    raise Unread("a sequence that is not known")


def binary(op: ast.operator, left: Any, right: Any) -> Any:
    """An operator on two values."""
    if isinstance(left, Array) or isinstance(right, Array):
        return _BINARY[type(op)](left, right)
    if max(_extent(left), _extent(right)) > _LONGEST:
        raise Unread("a number or a sequence that is too large")
    if isinstance(op, ast.Pow) and abs(right) <= _LARGEST_POWER:
        return left**right
    if isinstance(op, ast.Mult) and not (isinstance(left, int | float) and isinstance(right, int | float)):
        count = right if isinstance(right, int) else left
        if not isinstance(count, int) or count > _LONGEST:
            raise Unread("a sequence that is too long")
    return _NUMBERS[type(op)](left, right)


def _extent(value: Any) -> int:
    """The length of a sequence or a text, or the number of an integer's bits."""
    if isinstance(value, int):
        return value.bit_length()
    return len(value) if isinstance(value, list | tuple | str | bytes) else 0


def unary(op: ast.unaryop, value: Any) -> Any:
    """An operator on one value."""
    match op:
        case ast.USub():
            return pointwise(np.negative, value) if isinstance(value, Array) else -value
        case ast.UAdd():
            return value
        case ast.Invert() if isinstance(value, Array):
            return CALLS["logical_not"](value)
        case ast.Not():
            return not decided(value)
    raise Unread("an operation of an unknown kind")


def compared(op: ast.cmpop, left: Any, right: Any) -> Any:
    """A comparison of two values."""
    if isinstance(op, ast.Is | ast.IsNot):
        return (left is right) == isinstance(op, ast.Is)
    if isinstance(op, ast.In | ast.NotIn):
        return (left in right) == isinstance(op, ast.In)
    plain, name = _COMPARED[type(op)]
    return CALLS[name](left, right) if isinstance(left, Array) or isinstance(right, Array) else plain(left, right)


def index_of(index: Any) -> Any:
    """An index for NumPy; None if it depends on data."""
    parts: list[Any] = []
    for part in index if isinstance(index, tuple) else (index,):
        if isinstance(part, Array):
            if np.isnan(part.values).any():
                return None
            parts.append(part.values.astype(np.int64))
        elif part is None or part is Ellipsis or isinstance(part, int | slice | list):
            parts.append(part)
        else:
            raise Unread("an index of an unknown kind")
    return tuple(parts)


def element(value: Any, index: Any) -> Any:
    """A part of a tensor or a sequence."""
    if not isinstance(value, Array):
        return value[whole(index)]
    places = index_of(index)
    if places is not None:
        return value.through(lambda part: np.asarray(part[places]))
    if isinstance(index, Array):  # Rows that data choose.
        every = reduced(value, 0).sources
        return unknown(index.sources.reshape(*index.shape, *[1] * (value.ndim - 1)) | every)
    raise Unread("an index that depends on data")


def changed(value: Any, index: Any, part: Any) -> Any:
    """A tensor or a list with a part replaced."""
    if isinstance(value, list):
        value[index] = part
        return value
    new, places = as_array(part), index_of(index)
    if not isinstance(value, Array) or places is None:
        raise Unread("a part that data choose")
    kind = np.result_type(value.sources, new.sources)
    sources, values = value.sources.astype(kind), value.values.copy()
    sources[places], values[places] = new.sources, new.values
    return Array(sources, values)


def _shape(value: Any) -> Any:
    return value.shape


_ATTRIBUTES: dict[str, Callable[[Array], Any]] = {
    "shape": _shape, "ndim": lambda value: value.ndim, "T": turned, "mT": turned_matrices, "mH": turned_matrices,
    "real": lambda value: value, "imag": lambda value: value, "data": lambda value: value,
    "dtype": lambda value: None, "device": lambda value: None,
}  # fmt: skip


def attribute(value: Any, name: str) -> Any:
    """An attribute of a tensor, or of a pair of values and indices."""
    if isinstance(value, tuple) and len(value) == 2 and name in ("values", "indices"):
        return value[name == "indices"]
    if not isinstance(value, Array) or name not in _ATTRIBUTES:
        raise Unread("an attribute that is not known")
    return _ATTRIBUTES[name](value)


def method(owner: Any, name: str, args: list[Any], named: dict[str, Any]) -> Any:
    """The result of a method."""
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
        case "view_as" | "reshape_as":
            return CALLS["view"](owner, args[0].shape)
        case "tolist":
            return items_of(owner)
    return called(name, [owner, *args], named)


def _range(*bounds: Any) -> range:
    return range(*map(whole, bounds))


def _length(sized: Any) -> int:
    return sized.shape[0] if isinstance(sized, Array) else len(sized)


def _sum(items: Any, start: Any = 0) -> Any:
    for item in items_of(items):
        start = binary(ast.Add(), start, item)
    return start


def _number(compute: Callable[..., Any], name: str) -> Callable[..., Any]:
    def number(*args: Any) -> Any:
        return CALLS[name](*args) if any(isinstance(arg, Array) for arg in args) else compute(*args)

    return number


BUILT_IN: dict[str, Callable[..., Any]] = {
    "range": _range, "len": _length, "sum": _sum, "list": items_of, "reversed": lambda items: items_of(items)[::-1],
    "enumerate": lambda items, start=0: list(enumerate(items_of(items), start)),
    "tuple": lambda items: tuple(items_of(items)),
    "zip": lambda *several: list(zip(*map(items_of, several), strict=False)),
    "min": _number(min, "minimum"), "max": _number(max, "maximum"), "abs": _number(abs, "abs"),
    "int": _number(int, "int"), "float": _number(float, "float"),
}  # fmt: skip
"""Python's own functions."""
