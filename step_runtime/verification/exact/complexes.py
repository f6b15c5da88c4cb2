"""Operators on complex numbers: pairs of exact values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from step_runtime.verification.exact import arithmetic
from step_runtime.verification.exact.along import product_rule
from step_runtime.verification.exact.angles import cosine_and_sine, turn_constant
from step_runtime.verification.exact.moves import MOVES, moved
from step_runtime.verification.exact.operands import Complex, Operand, Result, Rule, value_of
from step_runtime.verification.exact.reductions import summed
from step_runtime.verification.exact.value import Unknown, Value, fixed, joined, number, spread

_FLOAT = torch.float64
_CONVERSIONS = ("_to_copy", "to")
_CREATED = frozenset(("full", "full_like", "zeros", "zeros_like", "new_zeros", "ones", "ones_like", "scalar_tensor"))
"""Operators whose results take from tensors no more than a shape."""
_LARGEST_POWER = 8
_LINEAR = frozenset(("sum", "mean", "cumsum", "neg", "where", "masked_fill"))
"""Operators that are made on real and imaginary parts apart."""
_PRODUCTS = frozenset(("mm", "bmm", "mv", "dot"))


def of_complex(
    name: str, target: Any, args: Sequence[Operand], kwargs: dict[str, Any], result: Result, table: Mapping[str, Rule]
) -> Any:
    """The result of an operator on complex numbers, by the table for their parts.

    Raises:
        Unknown: It is not followed.
    """
    if torch.complex32 in result.dtypes:
        raise Unknown("complex numbers of 32 bits")
    own = Result((_FLOAT,) * len(result.dtypes), result.shapes)
    if name in MOVES or name in _LINEAR:
        real, imaginary = (
            moved(target, each, kwargs, own) if name in MOVES else table[name](each, kwargs, own)
            for each in ([_part(one, name, real=real) for one in args] for real in (True, False))
        )
        if isinstance(real, list):
            return [Complex(a, b) for a, b in zip(real, imaginary, strict=True)]
        return Complex(real, imaginary)
    if name in _CREATED:
        return of_operand(table[name](args, kwargs, own))
    if name == "pow" and args[1] in range(1, _LARGEST_POWER + 1):
        return functools.reduce(_times, [of_operand(args[0])] * int(args[1]))
    one, *rest = (of_operand(operand) for operand in args[: 2 if name in _BINARY or name in _PRODUCTS else 1])
    if name in _UNARY:
        return _UNARY[name](one, result)
    if name in _BINARY and kwargs.get("alpha", 1) == 1 and "rounding_mode" not in kwargs:
        return _BINARY[name](one, rest[0])
    if name in _PRODUCTS:
        a, b, c, d = one.real, one.imaginary, rest[0].real, rest[0].imaginary
        pairs = ((a, c), (b, d), (a, d), (b, c))
        ac, bd, ad, bc = (product_rule(pair, {}, own) for pair in pairs)
        return Complex(arithmetic.subtract(ac, bd, _FLOAT), arithmetic.add(ad, bc, _FLOAT))
    raise Unknown(f"the operator {name} on complex numbers")


def gives_complex(name: str, args: Sequence[Operand], result: Result) -> bool:
    """Whether an operator takes complex numbers, or makes them of others."""
    return is_complex(args) or (result.dtype.is_complex and name in _CREATED.union(_CONVERSIONS))


def is_complex(operand: Operand) -> bool:
    """Whether an operand is a complex number, or has some."""
    if isinstance(operand, list | tuple):
        return any(map(is_complex, operand))
    return isinstance(operand, Complex | complex)


def of_operand(operand: Operand) -> Complex:
    """An operand as a complex number.

    Raises:
        Unknown: It is no number.
    """
    if isinstance(operand, Complex):
        return operand
    if isinstance(operand, complex):
        return Complex(number(operand.real), number(operand.imag))
    value = value_of(operand)
    return Complex(value, fixed(torch.zeros(value.shape, dtype=_FLOAT)))


def _times(one: Complex, other: Complex) -> Complex:
    a, b, c, d = one.real, one.imaginary, other.real, other.imaginary
    ac, bd, ad, bc = (arithmetic.multiply(*pair, _FLOAT) for pair in ((a, c), (b, d), (a, d), (b, c)))
    return Complex(arithmetic.subtract(ac, bd, _FLOAT), arithmetic.add(ad, bc, _FLOAT))


def _squared_size(one: Complex) -> Value:
    real, imaginary = (arithmetic.multiply(part, part, _FLOAT) for part in (one.real.plain(), one.imaginary.plain()))
    return arithmetic.add(real, imaginary, _FLOAT)


def _inverse(one: Complex) -> Complex:
    floats = one.imaginary.constant()
    if floats is not None and not bool(floats.any()):
        return Complex(arithmetic.reciprocal(one.real, _FLOAT), one.imaginary)
    below = arithmetic.reciprocal(_squared_size(one), _FLOAT)
    real = arithmetic.multiply(one.real, below, _FLOAT)
    return Complex(real, arithmetic.negative(arithmetic.multiply(one.imaginary, below, _FLOAT)))


def _each(operation: Callable[[Value, Value, torch.dtype], Value]) -> Callable[[Complex, Complex], Complex]:
    return lambda one, other: Complex(
        operation(one.real, other.real, _FLOAT), operation(one.imaginary, other.imaginary, _FLOAT)
    )


def _exponential(one: Complex, result: Result) -> Complex:
    return _turned(arithmetic.exponential(one.real, _FLOAT), one.imaginary, result)


def _turned(size: Value, angle: Value, result: Result) -> Complex:
    cosine, sine = cosine_and_sine(angle, result)
    return Complex(arithmetic.multiply(size, cosine, _FLOAT), arithmetic.multiply(size, sine, _FLOAT))


def _converted(one: Complex, result: Result) -> Complex:
    if not result.dtype.is_complex:
        raise Unknown("complex numbers that are converted to real ones")
    return one


_UNARY: dict[str, Callable[[Complex, Result], Any]] = {
    "view_as_real": lambda one, result: joined([one.real, one.imaginary], len(one.real.shape), torch.stack),
    "real": lambda one, result: one.real,
    "imag": lambda one, result: one.imaginary,
    **dict.fromkeys(
        ("conj", "_conj", "conj_physical", "_conj_physical"),
        lambda one, result: Complex(one.real, arithmetic.negative(one.imaginary)),
    ),
    **dict.fromkeys(("resolve_conj", *_CONVERSIONS), _converted),
    "abs": lambda one, result: arithmetic.root(_squared_size(one), result.dtype),
    "exp": _exponential,
    "reciprocal": lambda one, result: _inverse(one),
}
_BINARY: dict[str, Callable[[Complex, Complex], Complex]] = {
    "add": _each(arithmetic.add),
    "sub": _each(arithmetic.subtract),
    "rsub": _each(lambda one, other, dtype: arithmetic.subtract(other, one, dtype)),
    "mul": _times,
    **dict.fromkeys(("div", "true_divide"), lambda one, other: _times(one, _inverse(other))),
}


def _part(operand: Operand, name: str, *, real: bool) -> Operand:
    """The real or imaginary part of an operand of an operator that is made on the parts apart."""
    if isinstance(operand, list | tuple):
        return [_part(one, name, real=real) for one in operand]
    if isinstance(operand, Complex):
        return operand.real if real else operand.imaginary
    if isinstance(operand, complex):
        return operand.real if real else operand.imag
    chosen = name in ("where", "masked_fill")
    if isinstance(operand, Value):
        if (chosen and operand.dtype == torch.bool) or (name == "index_select" and not operand.dtype.is_floating_point):
            return operand
        return operand if real else of_operand(operand).imaginary
    if isinstance(operand, float) and operand and name == "constant_pad_nd":
        raise Unknown("a padding of complex numbers that is not 0")
    return 0.0 if chosen and not real else operand


def complex_rule(args: Sequence[Operand], kwargs: dict[str, Any], result: Result) -> Complex:
    """The rule of `complex`."""
    parts = (value_of(one) for one in args[:2])
    return Complex(*(spread(part, part.batch, result.shape) for part in parts))


def polar(args: Sequence[Operand], kwargs: dict[str, Any], result: Result) -> Complex:
    """The rule of `polar`."""
    return _turned(value_of(args[0]), value_of(args[1]), result)


def complex_view(args: Sequence[Operand], kwargs: dict[str, Any], result: Result) -> Complex:
    """The rule of `complex_view`."""
    value = value_of(args[0])
    return Complex(*(value.parts(lambda part, n=n: part.select(-1, n)) for n in range(2)))  # type: ignore[misc]


def real_fft(args: Sequence[Operand], kwargs: dict[str, Any], result: Result) -> Complex | None:
    """The discrete Fourier transform of real numbers along one dim, as products with sines and cosines."""
    value, dims, scale, one_sided = value_of(args[0]), *args[1:4]
    if len(dims) != 1 or scale != 0:
        return None
    size = value.shape[dims[0]]
    rows = value.parts(lambda part: part.movedim(dims[0] % len(value.shape) + 2, -1).unsqueeze(-2))
    places = torch.arange(size // 2 + 1 if one_sided else size)
    parts = []
    for name, sign in (("cos", 1), ("sin", -1)):
        turns = [
            [sign * turn_constant(name, 2 * k * n % (2 * size), size) for n in range(size)] for k in places.tolist()
        ]
        product = arithmetic.multiply(rows, fixed(torch.tensor(turns, dtype=_FLOAT)), _FLOAT)
        total = summed(product, [len(product.shape) - 1], _FLOAT)
        parts.append(total.parts(lambda part: part.movedim(-1, dims[0] % len(value.shape) + 2)))
    return Complex(*parts)
