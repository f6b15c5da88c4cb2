"""Proofs that a fold's function is associative and that its initial state is the unit.

The function's own code is run on symbols, one number of each tuple component: it must compute elementwise. Sums,
products and quotients stay expressions, which sympy compares; where the code compares two symbols, or a symbol and a
constant, it is run once for each order that they can have. Integers are compared as polynomials, as a format keeps
their low bits; bits and truth values by all their values. Whatever else the code does is not proved.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

import sympy
import torch

from step_runtime.base.errors import TaskCodeError
from step_runtime.base.functions import Fn
from step_runtime.base.shapes import Sizes
from step_runtime.base.types import Multihot, components_of
from step_runtime.execution.invocation import default_dtype, initial
from step_runtime.execution.tracing.captures import Captures
from step_runtime.rewriting.symbolic import Compared, Order, Symbolic, Unproved, number

MOST_COMPARED = 4
"""Symbols and constants that a function may compare; their orders grow fast with their number."""

_REMEMBERS = "its code may keep something between calls"
_LOOKING = frozenset({
    "type", "isinstance", "issubclass", "id", "hash", "hasattr", "getattr", "vars", "dir", "repr", "str", "format",
    "callable", "globals", "locals", "eval", "exec", "compile", "is_tensor", "setattr", "delattr", "inspect", "sys",
})  # fmt: skip
"""Names by which code could tell a symbol from a number."""
_TOO_MANY = "it compares too many values"


class _Code(Fn):
    """What a function runs on an element, without its start."""

    def __init__(self, fn: Fn) -> None:
        super().__init__(fn.name, fn.input, fn.output)
        self._code = tuple(source for source in fn.sources() if source != fn.getInit)

    def sources(self) -> tuple[Callable[..., Any], ...]:
        """The function's, but for its start."""
        return self._code


def _looks(code: CodeType | None) -> bool:
    """Whether code, or code within it, could tell a symbol from a number, or hide a failure."""
    if code is None:
        return False
    names = {*code.co_names, *code.co_varnames}
    within = (each for each in code.co_consts if isinstance(each, CodeType))
    told = any(name in _LOOKING or name.startswith("__") for name in names)
    return told or bool(code.co_exceptiontable) or any(map(_looks, within))


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
    code = _Code(fn)
    captures = Captures(code)
    if captures.opaque:
        return _REMEMBERS
    if any(_looks(getattr(source, "__code__", None)) for source in code.sources()):
        return "its code inspects its values"
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
        except Compared as more:
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
    return number(values.pop())


# --- orders -----------------------------------------------------------------------------------------------------------

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
    except (Unproved, Compared):
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
