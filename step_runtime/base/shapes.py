"""Dims, and the one conversion between stream order and torch order.

A dim is a sympy expression over the task's symbols, kept in one canonical form so that `==` decides
equality (`M*1 == M`, `M*N == N*M`). A symbol never equals an int, even one of its size. Streams list their
dims innermost first; torch lists them outermost first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil, prod
from typing import Any, TypeAlias

import sympy

from step_runtime.base.errors import RuleError

Dim: TypeAlias = sympy.Expr
Sizes: TypeAlias = Mapping[str, int]


SYMBOLS = ("M", "N", "K", "D", "E")
"""The symbols that every task has."""

DEFAULT_SIZES: tuple[dict[str, int], ...] = (
    {"M": 5, "N": 7, "K": 9, "D": 16},
    {"M": 6, "N": 4, "K": 10, "D": 8},
)
"""The default sets of sizes to verify at; E has no default."""


_MAX_TERMS = 64
_MAX_DEGREE = 32
LARGEST_DIM = 2**63 - 1


def as_dim(value: Any) -> Dim:
    """The canonical dim of an int or a sympy expression.

    Raises:
        RuleError: `value` is neither, or is an expression too large to compute with.
    """
    if isinstance(value, sympy.Symbol):
        return value
    if isinstance(value, int | sympy.Integer) and not isinstance(value, bool):
        if abs(value) > LARGEST_DIM:
            raise RuleError("dim-size", "a dim must be less than 2**63")
        return sympy.Integer(value)
    if isinstance(value, sympy.Expr):
        _extent(value)
        return _canonical(value)
    raise RuleError("dim", f"expected a dim (a symbol, an int or an expression of them), found {value!r}")


def _extent(expression: Dim) -> tuple[int, int]:
    """Bounds on the terms and the degree of the expanded expression; raises `RuleError` beyond the limits."""
    terms, degree = 1, 0
    if isinstance(expression, sympy.Symbol):
        degree = 1
    elif isinstance(expression, sympy.Rational):
        as_dim(expression.p if abs(expression.p) > expression.q else expression.q)
    elif isinstance(expression, sympy.Pow):
        power = abs(int(expression.exp)) if expression.exp.is_Integer else _MAX_DEGREE + 1
        terms, degree = _extent(expression.base)
        terms, degree = terms ** min(power, _MAX_DEGREE), degree * power
    else:
        extents = [_extent(arg) for arg in expression.args]
        if isinstance(expression, sympy.Mul):
            terms, degree = prod(t for t, _ in extents), sum(d for _, d in extents)
        else:
            terms, degree = sum(t for t, _ in extents), max(d for _, d in extents)
    if terms > _MAX_TERMS or degree > _MAX_DEGREE:
        limits = f"the limits are {_MAX_TERMS} terms and degree {_MAX_DEGREE}"
        raise RuleError("dim-size", f"the dim is too large an expression; {limits}")
    return terms, degree


@lru_cache(maxsize=4096)
def _canonical(expression: Dim) -> Dim:
    # Python's own `M // 2` on symbols gives a floor; here division is exact, as checked at every set of sizes.
    exact = expression.replace(sympy.floor, lambda quotient: quotient)
    return sympy.cancel(sympy.expand(exact))


def as_shape(dims: Iterable[Any]) -> tuple[Dim, ...]:
    """The canonical dims of a list, in its order."""
    return tuple(as_dim(dim) for dim in dims)


@lru_cache(maxsize=4096)
def format_dim(dim: Dim) -> str:
    """A dim as a program writes it, such as `M*N` or `D//2`."""
    if isinstance(dim, sympy.Symbol | sympy.Integer):
        return str(dim)
    numerator, denominator = sympy.fraction(sympy.together(dim))
    if denominator == 1:
        return _format_polynomial(numerator)
    return f"{_format_factor(numerator)}//{_format_factor(denominator)}"


def _format_factor(dim: Dim) -> str:
    text = _format_polynomial(dim)
    return text if isinstance(dim, sympy.Symbol | sympy.Integer) else f"({text})"


def _format_polynomial(dim: Dim) -> str:
    """A sum of products, powers written out and negative terms last, as programs have neither `**` nor `-M`."""
    terms = sympy.expand(dim).as_ordered_terms()
    first, *rest = sorted(terms, key=lambda term: term.could_extract_minus_sign())
    text = str(first) + "".join(f" - {-term}" if term.could_extract_minus_sign() else f" + {term}" for term in rest)
    return re.sub(r"(\w+)\*\*(\d+)", lambda power: "*".join([power[1]] * int(power[2])), text)


def format_shape(dims: Sequence[Dim]) -> str:
    """Dims in stream order, such as `[K, N, M]`."""
    return f"[{', '.join(format_dim(dim) for dim in dims)}]"


INNERMOST_FIRST = "dims are innermost first; the reversed order would fit"
"""A hint for dims that were written as torch writes a shape."""


def is_reversed(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two different sequences of dims or sizes are each other's reverse."""
    return tuple(one) != tuple(other) and tuple(one) == tuple(reversed(other))


def format_sizes(sizes: Sizes) -> str:
    """Sizes as `M=5, N=7`."""
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def evaluate(dim: Dim, sizes: Sizes) -> int:
    """The dim's size in elements.

    Raises:
        KeyError: A symbol of `dim` has no size.
        RuleError: The value is not a positive int (a division with a remainder, a difference below one).
    """
    value = exact_value(dim, sizes)
    if type(value) is int and value > 0:
        return value
    # A routed dim may be empty: that an expert gets no token is not the program's mistake.
    least = 0 if any(is_routed(symbol) for symbol in dim.free_symbols) else 1
    if value.denominator != 1 or value < least:
        where = ", ".join(f"{s.name}={sizes[s.name]}" for s in sorted(dim.free_symbols, key=str))
        raise RuleError(
            "dim-value",
            f"dim {format_dim(dim)} must be a positive int at every set of sizes",
            [f"it is {value} where {where}" if where else f"it is {value}"],
            hint="sizes start at 1, and // must divide evenly",
        )
    return int(value)


def exact_value(dim: Dim, sizes: Sizes) -> int | Fraction:
    """The dim's value at these sizes, whether or not it is a positive int.

    Raises:
        KeyError: A symbol of `dim` has no size.
    """
    if isinstance(dim, sympy.Symbol):
        return sizes[dim.name]
    if isinstance(dim, sympy.Integer):
        return int(dim.p)
    if isinstance(dim, sympy.Rational):
        return Fraction(int(dim.p), int(dim.q))
    parts = [exact_value(arg, sizes) for arg in dim.args]
    if isinstance(dim, sympy.Add):
        return sum(parts)
    if isinstance(dim, sympy.Pow):
        return Fraction(Fraction(parts[0]) ** parts[1])
    return prod(parts)


def upper_bound(dim: Dim, bounds: Sizes) -> int:
    """The upper bound of a dim; `bounds` has the upper bound of every symbol.

    Raises:
        KeyError: A symbol of `dim` has no bound.
    """
    return bounds[dim.name] if isinstance(dim, sympy.Symbol) else ceil(exact_value(dim, bounds))


def routed_dim(number: int) -> Dim:
    """A dim that depends on the data. The dot keeps it apart from every symbol a task can declare."""
    return sympy.Symbol(f"routed.{number}")


def is_routed(symbol: sympy.Symbol) -> bool:
    """Whether a symbol came from `routed_dim`."""
    return "." in symbol.name


def try_evaluate(dim: Dim, sizes: Sizes) -> int | None:
    """As `evaluate`, or None where a symbol has no size (yet), such as a routed dim before the run."""
    if any(symbol.name not in sizes for symbol in dim.free_symbols):
        return None
    return evaluate(dim, sizes)


def check_positive(dim: Dim, what: str, sizes: Sizes) -> None:
    """Rejects a configured dim that is not a positive int at the known sizes.

    Raises:
        RuleError: It is not a positive int.
    """
    value = try_evaluate(dim, sizes)
    if value is not None and value < 1:
        raise RuleError(
            "dim-value", f"{what} must be 1 or more, found {format_dim(dim)} = {value}", hint="sizes start at 1"
        )


def torch_shape(shape: Sequence[Dim], sizes: Sizes) -> tuple[int, ...]:
    """Sizes of stream dims in torch order: outermost first."""
    return tuple(evaluate(dim, sizes) for dim in reversed(shape))
