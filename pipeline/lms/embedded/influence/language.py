"""What operators, attributes, indices and functions of Python do to arrays of sources, numbers and sequences."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from pipeline.lms.embedded.influence.arrays import (
    Array,
    Unread,
    Word,
    as_array,
    both,
    constant,
    either,
    minus,
    over,
    plus,
    pointwise,
    times,
)
from pipeline.lms.embedded.influence.branches import any_of
from pipeline.lms.embedded.influence.calls import CALLS, called
from pipeline.lms.embedded.influence.indexing import selected
from pipeline.lms.embedded.influence.reductions import product
from pipeline.lms.embedded.influence.sequences import called_on, item_of, of_data, plain
from pipeline.lms.embedded.influence.shape_calls import turned, turned_matrices
from pipeline.lms.embedded.influence.value_calls import power

_ERRORS = (TypeError, ValueError, IndexError, KeyError, AttributeError, ArithmeticError, RecursionError, StopIteration,
           AssertionError, NotImplementedError)  # fmt: skip
"""What misread code raises: shapes that do not fit, arguments that a call does not have."""
_NUMBERS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.BitXor: operator.xor, ast.RShift: operator.rshift,
}  # fmt: skip
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: plus, ast.Sub: minus, ast.Mult: times, ast.Div: over, ast.MatMult: product, ast.Pow: power,
    ast.BitAnd: both, ast.BitOr: either, ast.BitXor: CALLS["bitwise_xor"], ast.FloorDiv: CALLS["floor_divide"],
    ast.Mod: CALLS["remainder"], ast.LShift: CALLS["bitwise_left_shift"], ast.RShift: CALLS["bitwise_right_shift"],
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


def decision(value: Any) -> bool | Array:
    """Whether a value is true; a value of no dims that depends on data is returned as it is."""
    if isinstance(value, Array) and value.values.size == 1 and np.isnan(value.values).any():
        return value.through(lambda part: part.reshape(()))
    return bool(value.known()) if isinstance(value, Array) else bool(value)


def decided(value: Any) -> bool:
    """Whether a value that does not depend on data is true.

    Raises:
        Unread: It depends on data.
    """
    answer = decision(value)
    if isinstance(answer, Array):
        raise Unread("a decision that depends on data")
    return answer


def whole(value: Any) -> Any:
    """A constant of no dims as a number; other values as they are."""
    return int(value.known()) if isinstance(value, Array) else value


def items_of(value: Any) -> list[Any]:
    """The elements of a sequence.

    Raises:
        Unread: It is none, or too long.
    """
    if isinstance(value, Array):
        _shape(value)
        return [value.through(lambda part: part[place]) for place in range(len(value.values))]  # noqa: B023
    if isinstance(value, list | tuple | range | dict | set | str) and len(value) <= _LONGEST:
        return list(value)
    raise Unread("a sequence that is not known")


def binary(op: ast.operator, left: Any, right: Any) -> Any:
    """An operator on two values."""
    if isinstance(left, Array) or isinstance(right, Array):
        return _BINARY[type(op)](left, right)
    if max(_extent(left), _extent(right)) > _LONGEST:
        raise Unread("a number or a sequence that is too large")
    if isinstance(op, ast.Pow) and (abs(right) <= _LARGEST_POWER or isinstance(left, float) or right < 0):
        return left**right
    if isinstance(op, ast.LShift) and 0 <= right <= _LARGEST_POWER:
        return left << right
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
        case ast.Invert():
            return CALLS["bitwise_not"](value) if isinstance(value, Array) else ~value
        case ast.Not():
            answer = decision(value)
            return CALLS["logical_not"](answer) if isinstance(answer, Array) else not answer
    raise Unread("an operation of an unknown kind")


def compared(op: ast.cmpop, left: Any, right: Any) -> Any:
    """A comparison of two values."""
    if isinstance(op, ast.Is | ast.IsNot):
        return (left is right) == isinstance(op, ast.Is)
    if isinstance(op, ast.In | ast.NotIn):
        if of_data(left) or of_data(right):
            return any_of([0.0], left, right)
        return (plain(left) in list(map(plain, items_of(right)))) == isinstance(op, ast.In)
    compute, name = _COMPARED[type(op)]
    return CALLS[name](left, right) if isinstance(left, Array) or isinstance(right, Array) else compute(left, right)


def element(value: Any, index: Any) -> Any:
    """A part of a tensor or a sequence."""
    return selected(value, index) if isinstance(value, Array) else item_of(value, index)


def _shape(value: Array) -> tuple[int, ...]:
    if value.ragged:
        raise Unread("a size that depends on data")
    return value.shape


_ATTRIBUTES: dict[str, Callable[[Array], Any]] = {
    "shape": _shape, "ndim": lambda value: value.ndim, "T": turned, "mT": turned_matrices, "mH": turned_matrices,
    "real": lambda value: value, "imag": lambda value: value, "data": lambda value: value,
    "dtype": lambda value: Word("bool") if value.truth else None, "device": lambda value: None,
    "H": turned, "itemsize": lambda value: 4, "is_cuda": lambda value: False,
}  # fmt: skip
_LIMITS = frozenset(("max", "min", "eps", "tiny", "smallest_normal", "bits"))
_PAIRS: dict[str, tuple[str, ...]] = {
    "values": ("values", "indices"), "indices": ("values", "indices"), "min": ("min", "max"), "max": ("min", "max"),
    "Q": ("Q", "R"), "R": ("Q", "R"), "U": ("U", "S", "Vh"), "S": ("U", "S", "Vh"), "Vh": ("U", "S", "Vh"),
    "eigenvalues": ("eigenvalues", "eigenvectors"), "eigenvectors": ("eigenvalues", "eigenvectors"),
    "solution": ("solution", "residuals", "rank", "singular_values"), "L": ("L", "info"), "inverse": ("inverse",
    "info"),
    "sign": ("sign", "logabsdet"), "logabsdet": ("sign", "logabsdet"), "hist": ("hist", "bin_edges"),
    "bin_edges": ("hist", "bin_edges"),
}  # fmt: skip
"""The components of named tuples, by the name of one of them."""


def attribute(value: Any, name: str) -> Any:
    """An attribute of a tensor, of a named tuple, or of the limits of a type."""
    if isinstance(value, tuple) and name in _PAIRS and len(value) == len(_PAIRS[name]):
        return value[_PAIRS[name].index(name)]
    if isinstance(value, np.finfo | np.iinfo) and name in _LIMITS:
        return getattr(value, name) if name == "bits" else float(getattr(value, name))
    if not isinstance(value, Array) or name not in _ATTRIBUTES:
        raise Unread("an attribute that is not known")
    return _ATTRIBUTES[name](value)


def method(owner: Any, name: str, args: list[Any], named: dict[str, Any]) -> Any:
    """The result of a method."""
    if isinstance(owner, int | float) and not isinstance(owner, bool) and name in CALLS:
        owner = as_array(owner)
    if not isinstance(owner, Array):
        return called_on(owner, name, args, named)
    match name:
        case "size":
            return _shape(owner)[args[0]] if args else _shape(owner)
        case "dim" | "ndimension":
            return owner.ndim
        case "numel" | "nelement":
            return prod(_shape(owner))
        case "element_size" | "get_device" | "is_contiguous" | "is_floating_point" | "is_complex" | "stride":
            raise Unread(f"the method {name}")
        case "view_as" | "reshape_as":
            return CALLS["view"](owner, args[0].shape)
        case "tolist":
            return items_of(owner)
    return called(name, [owner, *args], named)


@dataclass(frozen=True)
class UnsureRange:
    """Numbers, of which data decide how many there are; `number` is any of them."""

    number: Array


def _range(*bounds: Any) -> range | UnsureRange:
    if any(map(of_data, bounds)):
        return UnsureRange(any_of([0.0], *bounds))
    return range(*map(whole, bounds))


def _length(sized: Any) -> int:
    return _shape(sized)[0] if isinstance(sized, Array) else len(sized)


def _sum(items: Any, start: Any = 0) -> Any:
    for item in items_of(items):
        start = binary(ast.Add(), start, item)
    return start


def _extreme(compute: Callable[..., Any], name: str) -> Callable[..., Any]:
    def extreme(*args: Any, key: Any = None, default: Any = None) -> Any:
        items = items_of(args[0]) if len(args) == 1 else list(args)
        if key is not None or not items:
            raise Unread("an extreme by a function")
        if not any(isinstance(item, Array) for item in items):
            return compute(items)
        return reduce(CALLS[name], items)

    return extreme


def _sorted(items: Any, key: Any = None, reverse: bool = False) -> list[Any]:
    values = items_of(items)
    if key is not None:
        raise Unread("an order by a function")
    if any(map(of_data, values)):
        return [any_of(values)] * len(values)
    return sorted(map(plain, values), reverse=reverse)


def _number(compute: Callable[..., Any], name: str) -> Callable[..., Any]:
    def number(*args: Any) -> Any:
        return CALLS[name](*args) if any(isinstance(arg, Array) for arg in args) else compute(*args)

    return number


BUILT_IN: dict[str, Callable[..., Any]] = {
    "range": _range, "len": _length, "sum": _sum, "list": lambda items=(): items_of(items),
    "reversed": lambda items: items_of(items)[::-1],
    "enumerate": lambda items, start=0: list(enumerate(items_of(items), start)),
    "tuple": lambda items=(): tuple(items_of(items)),
    "zip": lambda *several: list(zip(*map(items_of, several), strict=False)),
    "min": _extreme(min, "minimum"), "max": _extreme(max, "maximum"), "abs": _number(abs, "abs"),
    "int": _number(int, "int"), "float": _number(float, "float"), "bool": _number(bool, "bool"),
    "round": _number(round, "round"), "pow": lambda one, other: binary(ast.Pow(), one, other),
    "divmod": lambda one, other: (binary(ast.FloorDiv(), one, other), binary(ast.Mod(), one, other)),
    "sorted": _sorted, "dict": lambda items=(), **named: {**dict(items), **named},
    "str": lambda value: str(plain(value)),
    "set": lambda items=(): set(map(plain, items_of(items))), "slice": slice, "complex": _number(complex, "complex"),
    "any": lambda items: reduce(either, items_of(items), constant(False)), "print": lambda *_, **__: None,
    "all": lambda items: reduce(both, items_of(items), constant(True)),
}  # fmt: skip
"""Python's own functions."""
