"""Proofs that a fold's function is associative and that its initial state is the unit.

The function's own code is run on symbols, one number of each tuple component: it must compute elementwise. Sums,
products and quotients stay expressions, which sympy compares; where the code compares two symbols, or a symbol and a
constant, it is run once for each order that they can have. Integers are compared as polynomials, as a format keeps
their low bits; bits and truth values by all their values. Whatever else the code does is not proved.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import sympy
import torch

from step_runtime.base.errors import TaskCodeError
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Sizes
from step_runtime.base.types import Multihot, components_of
from step_runtime.execution.invocation import default_dtype, initial
from step_runtime.execution.tracing.captures import Captures

MOST_COMPARED = 4
"""Symbols and constants that a function may compare; their orders grow fast with their number."""

_REMEMBERS = "its code may keep something between calls"
_TOO_MANY = "it compares too many values"


class Unproved(Exception):
    """A step of the function's code that a proof does not cover."""


class _Code(Fn):
    """What a function runs on an element, without its start."""

    def __init__(self, fn: Fn) -> None:
        super().__init__(fn.name, fn.input, fn.output)
        self._code = tuple(source for source in fn.sources() if source != fn.getInit)

    def sources(self) -> tuple[Callable[..., Any], ...]:
        """The function's, but for its start."""
        return self._code


class _Compared(Exception):
    """Two values are compared whose order is not given."""

    def __init__(self, *values: sympy.Expr) -> None:
        super().__init__()
        self.values = values


def unproved(fn: Fn, sizes: Sizes) -> str | None:
    """Why it is not proved that folding the folds of parts by `fn` gives the fold of the whole; None if it is proved.

    Numbers are real there, as the verifier's float64 nearly is.
    """
    formats = [element.format for element in components_of(fn.output)]
    if not fn.stateful or fn.input != fn.output:
        return "its state and its elements are of different types"
    if any(each.kind == "float" and not each.wide for each in formats):
        return "its state is rounded after every element"
    if any(isinstance(getattr(part, "elem", part), Multihot) for part in components_of(fn.output)):
        return "its state is a Multihot"
    captures = Captures(_Code(fn))
    if captures.opaque:
        return _REMEMBERS
    kinds = [each.kind for each in formats]
    try:
        with default_dtype(torch.float64):
            found = _refuted(fn, kinds, [_constant(part) for part in initial(fn, sizes, torch.float64)])
            return found if captures.unchanged() else _REMEMBERS
    except (TaskCodeError, Unproved) as error:
        return str(error)


def _refuted(fn: Fn, kinds: Sequence[str], start: Sequence[sympy.Expr]) -> str | None:
    """What does not hold, in some order of what is compared."""
    a, b, c = ([_symbol(f"{name}{at}", kind) for at, kind in enumerate(kinds)] for name in "abc")
    formats = [part.format for part in components_of(fn.output)]
    ranges = {
        symbol: (int(format_.least), int(format_.most))
        for symbols in (a, b, c)
        for symbol, format_ in zip(symbols, formats, strict=True)
        if format_.kind == "int"
    }
    unit = [sympy.false if kind == "bool" and not value else value for kind, value in zip(kinds, start, strict=True)]
    unit = [sympy.true if kind == "bool" and value == 1 else value for kind, value in zip(kinds, unit, strict=True)]

    def laws(call: Callable[..., list[sympy.Basic]]) -> Iterator[tuple[str, list[sympy.Basic], list[sympy.Basic]]]:
        yield "its initial state is not a unit", call(unit, a), list(a)
        yield "it is not associative", call(call(a, b), c), call(a, call(b, c))

    compared: tuple[sympy.Expr, ...] = ()
    while True:
        try:
            for order in _orders(compared, ranges):
                for failure, left, right in laws(
                    lambda state, element, order=order: _called(fn, state, element, order)
                ):
                    if not all(map(_equal, left, right, kinds, itertools.repeat(order))):
                        return failure
            return None
        except _Compared as more:
            compared = tuple(dict.fromkeys((*compared, *more.values)))
            if len(compared) > MOST_COMPARED:
                return _TOO_MANY


def _symbol(name: str, kind: str) -> sympy.Symbol:
    return (
        sympy.Symbol(name) if kind == "bool" else sympy.Symbol(name, real=True, integer=True if kind == "int" else None)
    )


def _constant(part: torch.Tensor) -> sympy.Basic:
    """The one number of a tensor."""
    values = {float(value) if part.is_floating_point() else int(value) for value in part.flatten()}
    if len(values) != 1:
        raise Unproved("its values differ from number to number")
    return _number(values.pop())


def _number(value: float) -> sympy.Basic:
    """A number exactly."""
    if isinstance(value, float) and not math.isfinite(value):
        return sympy.nan if math.isnan(value) else sympy.oo if value > 0 else -sympy.oo
    exact = Fraction(value)
    return sympy.Rational(exact.numerator, exact.denominator)


# --- orders -----------------------------------------------------------------------------------------------------------

Order = Mapping[sympy.Expr, int]
"""The rank of each value that is compared; equal values have one rank."""


Ranges = Mapping[sympy.Expr, tuple[int, int]]
"""The least and the most that a symbol of integers stands for."""


def _orders(compared: Sequence[sympy.Expr], ranges: Ranges) -> Iterator[Order]:
    """Every weak order of values that constants, and the ranges of integers, allow."""
    for ranks in itertools.product(range(len(compared)), repeat=len(compared)):
        if {*ranks} == {*range(len({*ranks}))}:
            order = dict(zip(compared, ranks, strict=True))
            if all(_is_possible(one, other, order, ranges) for one, other in itertools.permutations(compared, 2)):
                yield order


def _is_possible(one: sympy.Expr, other: sympy.Expr, order: Order, ranges: Ranges) -> bool:
    """Whether the one value can have the rank that it has beside the other, a constant."""
    if other.free_symbols:
        return True
    if not one.free_symbols:
        return bool(one < other) == (order[one] < order[other])
    least, most = ranges.get(one, (-sympy.oo, sympy.oo))
    if order[one] == order[other]:
        return bool(least <= other) and bool(other <= most)
    return bool(least < other) if order[one] < order[other] else bool(other < most)


def _equal(one: sympy.Basic, other: sympy.Basic, kind: str, order: Order) -> bool:
    if one == other:
        return True
    if kind == "bool":
        return _same_truth(one, other)
    first: dict[int, sympy.Expr] = {}
    for value in sorted(order, key=lambda value: bool(value.free_symbols)):  # constants first
        first.setdefault(order[value], value)
    same = {value: first[rank] for value, rank in order.items() if first[rank] != value}
    difference = sympy.expand((one - other).subs(same))
    return bool(difference == 0 or sympy.cancel(sympy.together(difference)) == 0)


def _same_truth(one: sympy.Basic, other: sympy.Basic) -> bool:
    symbols = sorted(one.free_symbols | other.free_symbols, key=str)
    cases = (
        dict(zip(symbols, values, strict=True)) for values in itertools.product((True, False), repeat=len(symbols))
    )
    return all(one.subs(case) == other.subs(case) for case in cases)


# --- running the code on symbols --------------------------------------------------------------------------------------


def _called(fn: Fn, state: Sequence[sympy.Basic], element: Sequence[sympy.Basic], order: Order) -> list[sympy.Basic]:
    kinds = [part.format.kind for part in components_of(fn.output)]
    operands = (
        [Symbolic(value, kind, order) for value, kind in zip(each, kinds, strict=True)] for each in (state, element)
    )
    apply: Callable[..., Any] = fn.apply  # it is declared to take tensors
    try:
        found = list(apply(*operands))
    except (Unproved, _Compared):
        raise
    except Exception as error:
        raise Unproved(f"its code is not elementwise arithmetic ({type(error).__name__})") from None
    if len(found) != len(kinds):
        raise Unproved("it returns another number of components")
    return [_result(value, kind, order) for value, kind in zip(found, kinds, strict=True)]


def _result(value: object, kind: str, order: Order) -> sympy.Basic:
    given = Symbolic.of(value, order)
    if given is None or (given.kind == "bool") != (kind == "bool") or (kind == "int" and given.kind != "int"):
        raise Unproved("it returns another kind of number")
    return given.value


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
            return cls(_number(value), "int" if isinstance(value, int) else "float", order)
        return None

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None) -> Symbolic:
        """What a function of torch gives of symbols."""
        name = func.__name__.strip("_")
        if kwargs or name not in _FUNCTIONS:
            raise Unproved(f"its code calls {name}")
        order = next(arg._order for arg in args if isinstance(arg, Symbolic))
        operands = [cls.of(arg, order) for arg in args]
        known = [operand for operand in operands if operand is not None]
        if len(known) < len(operands):
            raise Unproved(f"its code calls {name} of what is no number")
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
                raise Unproved("its code compares what it has computed")
        if not one.free_symbols and not two.free_symbols:
            return bool(one < two)
        for value, opposite in ((one, False), (two, True)):
            if value in (sympy.oo, -sympy.oo):
                return bool(value == -sympy.oo) != opposite
        missing = [value for value in (one, two) if value not in self._order]
        if missing:
            raise _Compared(*missing)
        return None if self._order[one] == self._order[two] else self._order[one] < self._order[two]

    def truth(self, value: bool) -> Symbolic:
        """A known truth value."""
        return Symbolic(sympy.true if value else sympy.false, "bool", self._order)

    def made(self, value: sympy.Basic, *others: Symbolic, kind: str | None = None) -> Symbolic:
        """What arithmetic gives."""
        kinds = {self.kind, *(other.kind for other in others)}
        if "bool" in kinds:
            raise Unproved("its code computes with truth values")
        if value.has(sympy.nan, sympy.zoo):
            raise Unproved("its code computes what is no number")
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
