"""Operators on complex numbers, in torch, by those on their real and imaginary parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from step_runtime.verification.exact.operators import MOVES
from step_runtime.verification.exact.value import Unknown


class Pair(NamedTuple):
    """Real and imaginary parts: tensors or numbers."""

    re: Any
    im: Any


_APART = MOVES | {"sum", "mean", "cumsum", "neg", "where", "masked_fill"}
"""Operators that are made on the parts apart."""


def of_complex(func: Any, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The result of an operator on pairs: a pair, a list of pairs, or a real tensor.

    Raises:
        Unknown: It is not followed.
    """
    kwargs = {key: one for key, one in kwargs.items() if key not in ("dtype", "layout", "device", "pin_memory")}
    if name in _APART:
        parts = [func(*_parts(args, name, place), **kwargs) for place in (0, 1)]
        return (
            [Pair(*both) for both in zip(*parts, strict=True)] if isinstance(parts[0], list | tuple) else Pair(*parts)
        )
    if name not in _RULES:
        raise Unknown(f"the operator {name} on complex numbers")
    return _RULES[name](*args, **kwargs)


def _parts(operands: Any, name: str, place: int) -> Any:
    """The real or imaginary parts of operands."""

    def part(one: Any) -> Any:
        if isinstance(one, Pair):
            return one[place]
        if isinstance(one, list | tuple):
            return [part(each) for each in one]
        if isinstance(one, Tensor) and one.is_floating_point():
            return torch.zeros_like(one) if place else one
        if isinstance(one, float) and one and name == "constant_pad_nd":
            raise Unknown("a padding of complex numbers that is not 0")
        return 0.0 if place and isinstance(one, float) else one

    return part(list(operands))


def _pair(one: Any) -> Pair:
    if isinstance(one, Pair):
        return one
    if isinstance(one, complex):
        return Pair(one.real, one.imag)
    return Pair(one, torch.zeros_like(one) if isinstance(one, Tensor) else 0.0)


def _on_pairs(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: rule(*map(_pair, args), **kwargs)


def _plus(one: Pair, other: Pair, *, alpha: float = 1) -> Pair:
    return Pair(one.re + other.re * alpha, one.im + other.im * alpha)


def _times(one: Pair, other: Pair, product: Callable[[Any, Any], Any] = lambda a, b: a * b) -> Pair:
    (a, b), (c, d) = one, other
    return Pair(product(a, c) - product(b, d), product(a, d) + product(b, c))


def _squared(one: Pair) -> Any:
    return one.re * one.re + one.im * one.im


def _turned(size: Any, angle: Any) -> Pair:
    return Pair(size * angle.cos(), size * angle.sin())


def _fourier(x: Tensor, dims: Sequence[int], normalization: int, onesided: bool) -> Pair:
    """The discrete Fourier transform of real numbers along one dim."""
    if len(dims) != 1 or normalization:
        raise Unknown("a Fourier transform of another form")
    size = x.shape[dims[0]]
    turns = torch.outer(torch.arange(size // 2 + 1 if onesided else size), torch.arange(size))
    rows, angles = x.movedim(dims[0], -1).unsqueeze(-2), turns * (2 * math.pi / size)
    return Pair(*((rows * part).sum(-1).movedim(-1, dims[0]) for part in (angles.cos(), -angles.sin())))


_RULES: dict[str, Callable[..., Any]] = {
    "add": _on_pairs(_plus),
    "sub": _on_pairs(lambda one, other, *, alpha=1: _plus(one, other, alpha=-alpha)),
    "rsub": _on_pairs(lambda one, other: _plus(other, one, alpha=-1)),
    "mul": _on_pairs(_times),
    **{
        name: _on_pairs(lambda one, other, n=name: _times(one, other, getattr(torch, n)))
        for name in ("mm", "bmm", "mv", "dot")
    },
    "view_as_real": _on_pairs(lambda one: torch.stack(one, -1)),
    "real": _on_pairs(lambda one: one.re),
    "imag": _on_pairs(lambda one: one.im),
    **dict.fromkeys(("conj", "_conj", "conj_physical", "_conj_physical"), _on_pairs(lambda one: Pair(one.re, -one.im))),
    "resolve_conj": _pair,
    "abs": _on_pairs(lambda one: _squared(one).sqrt()),
    "exp": _on_pairs(lambda one: _turned(one.re.exp(), one.im)),
    "complex": lambda one, other: Pair(one + 0 * other, other + 0 * one),
    "polar": _turned,
    "view_as_complex": lambda one: Pair(one.select(-1, 0), one.select(-1, 1)),
    "_fft_r2c": _fourier,
}
