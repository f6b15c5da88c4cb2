"""Recurrences `s = f(s, x)` over many steps, solved for all steps at once.

    s + x, s - x      sum, or cumulative sum      max(s, x), min(s, x)     maximum, minimum, or cumulative
    s * x, s / x      product, or cumulative      (s * a + b) / c, ...     linear recurrence, where |a| <= 1

Tensors of all steps have shape `(folds, steps, *layout)`, or one that broadcasts to it; states have
`(folds, *layout)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, overload

import torch
from torch import Tensor
from torch._ops import OpOverload

_ATEN = torch.ops.aten
ADD, SUB, MUL, _DIV = _ATEN.add.Tensor, _ATEN.sub.Tensor, _ATEN.mul.Tensor, _ATEN.div.Tensor
_EXTREMA: dict[OpOverload, tuple[Callable[..., Tensor], Callable[..., Tensor], Callable[..., Any]]] = {
    _ATEN.maximum.default: (torch.maximum, torch.amax, torch.cummax),
    _ATEN.minimum.default: (torch.minimum, torch.amin, torch.cummin),
}


class Scaled:
    """`scale * tensor`, with one number of `scale` to a step: sums of it are computed without forming the product.

    Both have shape `(folds, steps, *layout)`, where `scale` has a layout of ones.
    """

    def __init__(self, scale: Any, tensor: Any) -> None:
        self.scale = scale
        self.tensor = tensor

    @property
    def formed(self) -> Tensor:
        """The product."""
        product: Tensor = self.scale * self.tensor
        return product

    def summed(self) -> Tensor:
        """Over the steps: `(folds, *layout)`."""
        folds, steps, *layout = self.tensor.shape
        tensor = self.tensor.reshape(folds, steps, -1)
        return torch.bmm(self.scale.reshape(folds, 1, steps), tensor).reshape(folds, *layout)

    def __neg__(self) -> Scaled:
        return Scaled(-self.scale, self.tensor)

    def __mul__(self, factor: Value) -> Scaled | Tensor:
        return Scaled(self.scale * factor, self.tensor) if self._scales(factor) else self.formed * factor

    def __truediv__(self, factor: Value) -> Scaled | Tensor:
        return Scaled(self.scale / factor, self.tensor) if self._scales(factor) else self.formed / factor

    def _scales(self, factor: Value) -> bool:
        """Whether a factor is one number, or one number per step."""
        return not isinstance(factor, Tensor) or factor.numel() == 1 or _is_single(factor, self.tensor.dim())


Value: TypeAlias = Tensor | float


class Unstable(Exception):
    """A linear recurrence has factors beyond 1: solved at once it might overflow where step by step it does not."""


class Link(NamedTuple):
    """A part of a step: `op(s, operand)`, or `op(operand, s)` where the state is not `first`."""

    op: OpOverload
    operand: Any
    first: bool


def solvable(links: Sequence[Link]) -> bool:
    """Whether `solve` accepts a step of these parts, one after the other."""
    operators = {link.op for link in links}
    if operators <= {ADD, SUB, MUL, _DIV}:
        return all(link.first or link.op is not _DIV for link in links)
    return len(operators) == 1 and operators <= _EXTREMA.keys()


def linear(links: Sequence[Link]) -> bool:
    """Whether a solvable step is a linear recurrence, which takes many torch calls instead of one."""
    operators = {link.op for link in links}
    return bool(operators & {ADD, SUB}) and bool(operators & {MUL, _DIV})


def solve(links: Sequence[Link], initial: Tensor, steps: int, *, every: bool) -> Tensor:
    """The last state, `(folds, *layout)`, or every state, `(folds, steps, *layout)`.

    The links' operands are numbers, or tensors that broadcast to `(folds, steps, *layout)`; what is added or subtracted
    may be `Scaled`.

    Raises:
        Unstable: The steps must run one by one.
    """
    shape = (initial.shape[0], steps, *initial.shape[1:])
    if links and links[0].op in _EXTREMA:
        return _extremum(links, initial, shape, every)
    factor, term = _combined(links)
    if factor is None and term is None:
        return initial.unsqueeze(1).expand(shape) if every else initial
    if isinstance(term, Scaled) and (every or term.tensor.shape != shape):
        term = term.formed
    if factor is None:
        if isinstance(term, Scaled):
            return term.summed().add_(initial)
        terms = _full(term, initial, shape)
        return terms.cumsum(1).add_(initial.unsqueeze(1)) if every else terms.sum(1).add_(initial)
    if term is None:
        factors = _full(factor, initial, shape)
        return factors.cumprod(1).mul_(initial.unsqueeze(1)) if every else factors.prod(1).mul_(initial)
    factors = _factors(factor, initial, shape)
    if isinstance(term, Scaled):
        return _linear_last(factors, term, initial)
    terms = _full(term, initial, shape)
    return _linear_scan(factors, terms, initial) if every else _linear_last(factors, terms, initial)


def _full(value: Value | None, initial: Tensor, shape: tuple[int, ...]) -> Tensor:
    return torch.as_tensor(value, dtype=initial.dtype).expand(shape)


def _extremum(links: Sequence[Link], initial: Tensor, shape: tuple[int, ...], every: bool) -> Tensor:
    of_two, of_dim, cumulative = _EXTREMA[links[0].op]
    values = _full(links[0].operand, initial, shape)
    for link in links[1:]:
        values = of_two(values, _full(link.operand, initial, shape))
    if every:
        return of_two(cumulative(values, 1).values, initial.unsqueeze(1))
    return of_two(of_dim(values, 1), initial)


def _formed(value: Value | Scaled) -> Value:
    return value.formed if isinstance(value, Scaled) else value


def _combined(links: Sequence[Link]) -> tuple[Value | None, Value | Scaled | None]:
    """The step as `s * factor + term`; None for a factor of 1 and for a term of 0."""
    factor: Value | None = None
    term: Any = None
    for op, taken, first in links:
        operand: Any = taken
        if term is not None and op in (ADD, SUB):
            term, operand = _formed(term), _formed(operand)
        if op is ADD:
            term = operand if term is None else term + operand
        elif op is MUL:
            factor = operand if factor is None else factor * operand
            term = None if term is None else term * operand
        elif op is _DIV:
            factor = 1 / operand if factor is None else factor / operand
            term = None if term is None else term / operand
        elif first:
            term = -operand if term is None else term - operand
        else:
            factor = -1.0 if factor is None else -factor
            term = operand if term is None else operand - term
    return factor, term


def _factors(factor: Value, initial: Tensor, shape: Sequence[int]) -> Tensor:
    """The factor of a linear recurrence at every step, its layout the state's or of ones; `Unstable` if beyond 1."""
    factors = torch.as_tensor(factor, dtype=initial.dtype)
    factors = factors.expand(*shape[:2], *(factors.shape[2:] or [1] * (len(shape) - 2)))
    if not bool((factors.abs() <= 1).all()):
        raise Unstable
    return factors


def _linear_last(factors: Tensor, terms: Tensor | Scaled, initial: Tensor) -> Tensor:
    """Each term times all later factors, summed."""
    later = factors.flip(1).cumprod(1).flip(1)
    weights = torch.cat([later[:, 1:], torch.ones_like(later[:, :1])], 1)
    if isinstance(terms, Tensor):
        terms = Scaled(1.0, terms)
    if _is_single(weights, weights.dim()):
        total = Scaled(weights * terms.scale, terms.tensor).summed()
    else:
        total = (weights * terms.formed).sum(1)
    return total + later[:, 0] * initial


def _is_single(values: Tensor, dims: int) -> bool:
    """Whether a tensor of this many dims, `(folds, steps, *layout)`, has one number to a step."""
    return values.dim() == dims and values.shape[2:].numel() == 1


def _linear_scan(factors: Tensor, terms: Tensor, initial: Tensor) -> Tensor:
    """Every state by doubling: steps are joined to steps of 2, 4, 8, ... (Hillis and Steele, 1986)."""
    terms = torch.cat([terms[:, :1] + factors[:, :1] * initial.unsqueeze(1), terms[:, 1:]], 1)
    span, steps = 1, terms.shape[1]
    while span < steps:
        terms = torch.cat([terms[:, :span], terms[:, span:] + factors[:, span:] * terms[:, :-span]], 1)
        factors = torch.cat([factors[:, :span], factors[:, span:] * factors[:, :-span]], 1)
        span *= 2
    return terms


class Product(Sequence[Tensor]):
    """The data of a stream of one component: `left * right`, two tensors that broadcast to `shape`."""

    def __init__(self, left: Tensor, right: Tensor, shape: torch.Size) -> None:
        self.shape = shape
        self._factors = left.expand(self.shape), right.expand(self.shape)

    @cached_property
    def formed(self) -> Tensor:
        """The product itself."""
        return self._factors[0] * self._factors[1]

    @property
    def worthwhile(self) -> bool:
        """Whether both factors hold fewer than half as many numbers as their product."""
        return all(2 * _numbers(factor) <= self.shape.numel() for factor in self._factors)

    def sum(self, summed: Sequence[int]) -> Tensor:
        """The product, summed over these dims."""
        every = range(len(self.shape))
        own = [[dim for dim in every if factor.stride(dim) or self.shape[dim] == 1] for factor in self._factors]
        used = {*own[0], *own[1]}
        if "formed" in vars(self) or not self.worthwhile or not used.issuperset(summed):
            return self.formed.sum(tuple(summed))
        kept = [dim for dim in every if dim not in summed]
        one, other = (
            factor[tuple(slice(None) if dim in dims else 0 for dim in every)]
            for factor, dims in zip(self._factors, own, strict=True)
        )
        result = torch.einsum(one, own[0], other, own[1], [dim for dim in kept if dim in used])
        repeated = tuple(slice(None) if dim in used else None for dim in kept)
        return result[repeated].expand([self.shape[dim] for dim in kept])

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Tensor, ...]: ...
    def __getitem__(self, index: int | slice) -> Tensor | tuple[Tensor, ...]:
        return (self.formed,)[index]

    def __len__(self) -> int:
        return 1


def _numbers(tensor: Tensor) -> int:
    """The number of distinct numbers in memory; repeated ones count once."""
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= size if stride else 1
    return count
