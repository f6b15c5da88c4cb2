"""Operators on complex numbers: pairs of exact values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from step_runtime.verification.exact import arithmetic
from step_runtime.verification.exact.moves import MOVES, moved
from step_runtime.verification.exact.operands import Complex, Operand, Result, value_of
from step_runtime.verification.exact.pointwise import turn_constant
from step_runtime.verification.exact.reductions import summed
from step_runtime.verification.exact.value import Unknown, fixed, joined

_FLOAT = torch.float64


def of_complex(name: str, target: Any, args: Sequence[Operand], kwargs: dict[str, Any], result: Result) -> Any:
    """The result of an operator on complex numbers."""
    parts = [one if isinstance(one, Complex) else None for one in args]
    first = next(one for one in parts if one is not None)
    if name == "view_as_real":
        return joined([first.real, first.imaginary], len(first.real.shape), torch.stack)
    if name in ("real", "imag"):
        return first.real if name == "real" else first.imaginary
    if name in ("conj", "_conj", "conj_physical", "_conj_physical"):
        return Complex(first.real, arithmetic.negative(first.imaginary))
    if name in ("resolve_conj",):
        return first
    if name == "abs":
        real, imaginary = (
            arithmetic.multiply(one, one, _FLOAT) for one in (first.real.plain(), first.imaginary.plain())
        )
        return arithmetic.root(arithmetic.add(real, imaginary, _FLOAT), result.dtype)
    own = Result((_FLOAT,) * len(result.dtypes), result.shapes)
    if name in MOVES:
        real, imaginary = (
            moved(target, [_part(one, which) for one in args], kwargs, own) for which in ("real", "imaginary")
        )
        if isinstance(real, list):
            return [Complex(a, b) for a, b in zip(real, imaginary, strict=True)]
        return Complex(real, imaginary)
    if name in ("add", "sub", "mul"):
        pairs = [
            one if isinstance(one, Complex) else Complex(value_of(one), arithmetic.number(0.0)) for one in args[:2]
        ]
        a, b, c, d = pairs[0].real, pairs[0].imaginary, pairs[1].real, pairs[1].imaginary
        if name == "mul":
            real = arithmetic.subtract(arithmetic.multiply(a, c, _FLOAT), arithmetic.multiply(b, d, _FLOAT), _FLOAT)
            return Complex(
                real, arithmetic.add(arithmetic.multiply(a, d, _FLOAT), arithmetic.multiply(b, c, _FLOAT), _FLOAT)
            )
        operation = arithmetic.add if name == "add" else arithmetic.subtract
        return Complex(operation(a, c, _FLOAT), operation(b, d, _FLOAT))
    raise Unknown(f"the operator {name} on complex numbers")


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


def _part(operand: Operand, which: str) -> Operand:
    if isinstance(operand, list | tuple):
        return [_part(one, which) for one in operand]
    return getattr(operand, which) if isinstance(operand, Complex) else operand
