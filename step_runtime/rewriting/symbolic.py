"""Numbers as symbols, on which an author's elementwise function runs as it does on tensors.

Values are sympy's; an order says which of those that are compared are less than others, so that choices are made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import sympy
import torch

Order = Mapping[sympy.Expr, int]
"""The rank of each value that is compared; equal values have one rank."""


class Unproved(Exception):
    """A step of the function's code that a proof does not cover."""


class Compared(Exception):
    """Two values are compared whose order is not given."""

    def __init__(self, *values: sympy.Expr) -> None:
        super().__init__()
        self.values = values


def number(value: float) -> sympy.Basic:
    """A number exactly."""
    if isinstance(value, float) and not math.isfinite(value):
        return sympy.nan if math.isnan(value) else sympy.oo if value > 0 else -sympy.oo
    exact = Fraction(value)
    return sympy.Rational(exact.numerator, exact.denominator)


class Symbolic:
    """A number of a state or an element, as an author's function sees it in place of a tensor.

    Attributes:
        kind: Of its format: `float`, `int` or `bool`.
    """

    def __init__(self, value: sympy.Basic, kind: str, order: Order) -> None:
        self.value, self.kind, self._order = value, kind, order

    @classmethod
    def of(cls, value: object, order: Order) -> Symbolic | None:
        """A number, or a tensor of one number, as a constant; None for anything else."""
        if isinstance(value, Symbolic):
            return value
        if isinstance(value, torch.Tensor) and value.numel() == 1:
            value = value.item()
        if isinstance(value, bool):
            return cls(sympy.true if value else sympy.false, "bool", order)
        if isinstance(value, int | float):
            return cls(number(value), "int" if isinstance(value, int) else "float", order)
        return None

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Symbolic:
        """The result of a torch function on symbols."""
        name = func.__name__.strip("_")
        if kwargs or name not in _FUNCTIONS:
            raise Unproved(f"its code calls {name}")
        order = next(arg._order for arg in args if isinstance(arg, Symbolic))
        operands = [cls.of(arg, order) for arg in args]
        known = [operand for operand in operands if operand is not None]
        if len(known) < len(operands):
            raise Unproved(f"its code calls {name} with a value that is not a number")
        return _FUNCTIONS[name](*known)

    def __getattr__(self, name: str) -> Callable[..., Symbolic]:
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self.__torch_function__(_Named(name), (), (self, *args), kwargs)

    def __bool__(self) -> bool:
        if self.value in (sympy.true, sympy.false):
            return bool(self.value)
        raise Unproved("its code branches on data")

    def less(self, other: Symbolic) -> bool | None:
        """Whether it is less than another; None if they are equal."""
        one, two = self.value, other.value
        if one == two:
            return None
        for value in (one, two):
            if not isinstance(value, sympy.Symbol | sympy.Number) or self.kind == "bool":
                raise Unproved("its code compares computed values")
        if not one.free_symbols and not two.free_symbols:
            return bool(one < two)
        for value, opposite in ((one, False), (two, True)):
            if value in (sympy.oo, -sympy.oo):
                return bool(value == -sympy.oo) != opposite
        missing = [value for value in (one, two) if value not in self._order]
        if missing:
            raise Compared(*missing)
        return None if self._order[one] == self._order[two] else self._order[one] < self._order[two]

    def truth(self, value: bool) -> Symbolic:
        """A known truth value."""
        return Symbolic(sympy.true if value else sympy.false, "bool", self._order)

    def made(self, value: sympy.Basic, *others: Symbolic, kind: str | None = None) -> Symbolic:
        """The result of arithmetic."""
        kinds = {self.kind, *(other.kind for other in others)}
        if "bool" in kinds:
            raise Unproved("its code computes with truth values")
        if value.has(sympy.nan, sympy.zoo):
            raise Unproved("its code computes a value that is not a number")
        return Symbolic(value, kind or ("float" if "float" in kinds else "int"), self._order)


class _Named:
    """A method's name in the place of torch's function."""

    def __init__(self, name: str) -> None:
        self.__name__ = name


def _arithmetic(compute: Callable[..., Any], kind: str | None = None) -> Callable[..., Symbolic]:
    return lambda first, *others: first.made(compute(first.value, *(each.value for each in others)), *others, kind=kind)


def _power(base: Symbolic, exponent: Symbolic) -> Symbolic:
    if not isinstance(exponent.value, sympy.Integer) or exponent.value < 0:
        raise Unproved("its code raises to another power than a whole number")
    return base.made(base.value**exponent.value)


def _chosen(condition: Symbolic, one: Symbolic, other: Symbolic) -> Symbolic:
    return one if condition else other


def _absolute(value: Symbolic) -> Symbolic:
    return value.made(-value.value) if value.less(Symbolic(sympy.Integer(0), value.kind, value._order)) else value


def _comparison(holds: Callable[[bool | None], bool]) -> Callable[..., Symbolic]:
    return lambda one, other: one.truth(holds(one.less(other)))


def _logic(compute: Callable[..., Any]) -> Callable[..., Symbolic]:
    def found(first: Symbolic, *others: Symbolic) -> Symbolic:
        if {first.kind, *(each.kind for each in others)} != {"bool"}:
            raise Unproved("its code computes with bits of numbers")
        return Symbolic(compute(first.value, *(each.value for each in others)), "bool", first._order)

    return found


def _log_add_exp(one: Symbolic, other: Symbolic) -> Symbolic:
    return one.made(sympy.log(sympy.exp(one.value) + sympy.exp(other.value)), other, kind="float")


def _wide(value: Symbolic) -> Symbolic:
    return value.made(value.value, kind="float")


_FUNCTIONS: Mapping[str, Callable[..., Symbolic]] = {
    **dict.fromkeys(("add", "radd", "iadd"), _arithmetic(lambda a, b: a + b)),
    **dict.fromkeys(("sub", "subtract", "isub"), _arithmetic(lambda a, b: a - b)),
    "rsub": _arithmetic(lambda a, b: b - a),
    **dict.fromkeys(("mul", "multiply", "rmul", "imul"), _arithmetic(lambda a, b: a * b)),
    **dict.fromkeys(("div", "divide", "true_divide", "truediv", "itruediv"), _arithmetic(lambda a, b: a / b, "float")),
    "rtruediv": _arithmetic(lambda a, b: b / a, "float"),
    **dict.fromkeys(("neg", "negative"), _arithmetic(lambda a: -a)),
    "square": _arithmetic(lambda a: a * a),
    "exp": _arithmetic(sympy.exp, "float"),
    "log": _arithmetic(sympy.log, "float"),
    "logaddexp": _log_add_exp,
    "pow": _power,
    **dict.fromkeys(("abs", "absolute"), _absolute),
    **dict.fromkeys(("maximum", "max", "fmax"), lambda a, b: b if a.less(b) else a),
    **dict.fromkeys(("minimum", "min", "fmin"), lambda a, b: a if a.less(b) else b),
    "where": _chosen,
    **dict.fromkeys(("lt", "less"), _comparison(lambda less: less is True)),
    **dict.fromkeys(("gt", "greater"), _comparison(lambda less: less is False)),
    **dict.fromkeys(("le", "less_equal"), _comparison(lambda less: less is not False)),
    **dict.fromkeys(("ge", "greater_equal"), _comparison(lambda less: less is not True)),
    **dict.fromkeys(("eq",), _comparison(lambda less: less is None)),
    **dict.fromkeys(("ne", "not_equal"), _comparison(lambda less: less is not None)),
    **dict.fromkeys(("or", "ror", "logical_or", "bitwise_or"), _logic(sympy.Or)),
    **dict.fromkeys(("and", "rand", "logical_and", "bitwise_and"), _logic(sympy.And)),
    **dict.fromkeys(("xor", "rxor", "logical_xor", "bitwise_xor"), _logic(sympy.Xor)),
    **dict.fromkeys(("invert", "logical_not", "bitwise_not"), _logic(sympy.Not)),
    **dict.fromkeys(("float", "double"), _wide),
    "clone": lambda value: value,
}
"""What a proof knows of torch, by the names of its functions, methods and operators."""

_OPERATORS = (
    "add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "neg", "pow", "abs", "lt", "gt", "le", "ge",
    "eq", "ne", "or", "ror", "and", "rand", "xor", "rxor", "invert",
)  # fmt: skip


def _operator(name: str) -> Callable[..., Symbolic]:
    return lambda self, *args: self.__torch_function__(_Named(name), (), (self, *args))


for _name in _OPERATORS:
    setattr(Symbolic, f"__{_name}__", _operator(_name))
