"""Sorted rows by their unsorted numbers.

A sorted row of distinct numbers is held in the places from before the sort: of each item, the number at its rank.
Operations on single numbers of such rows, and reductions, are those of the unsorted ones. A running sum is, of each
item, its own number and those of the items before it, by the truth values of the comparisons of their keys; a rank
counts these. Scattered to the places that the sort gave, the row is in the old places again. Everything else takes the
row as it is otherwise known: as symbols of its ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from step_runtime.verification.exact import arithmetic, truth
from step_runtime.verification.exact.decisions import current
from step_runtime.verification.exact.dependence import EACH
from step_runtime.verification.exact.operands import Operand, Result
from step_runtime.verification.exact.reductions import dims_of, summed
from step_runtime.verification.exact.residues import fingerprint, moduli
from step_runtime.verification.exact.value import Value, fixed, same

_FLOAT = torch.float64
_SYMMETRIC = frozenset(("sum", "mean", "prod", "amax", "amin", "logsumexp", "var", "std", "any", "all"))
"""Reductions that do not depend on an order."""
_ALONG = frozenset(("flip", "gather", "scatter", "cumsum", "softmax", "_softmax"))
"""Further operators that are followed along the dim that is sorted."""
Apply = Callable[[Sequence[Operand], dict[str, Any]], Any]


@dataclass(frozen=True)
class Order:
    """By which keys a dim is sorted, and whether the largest comes first; `words` are the keys' fingerprints."""

    keys: Value = field(compare=False)
    dim: int
    descending: bool
    words: bytes

    def before(self) -> Value:
        """Whether the last dim's items come before those of `dim`, which is moved to the last but one."""
        keys = self.keys.parts(lambda part: part.movedim(self.dim + 2, -1))
        own, others = (keys.parts(lambda part, at=at: part.unsqueeze(at)) for at in (-1, -2))  # type: ignore[misc]
        return truth.above(others, own) if self.descending else truth.above(own, others)

    def total(self, value: Value, dtype: torch.dtype) -> Value:
        """Of each item the sum of the numbers of the items before it."""
        rows = value.parts(lambda part: part.movedim(self.dim + 2, -1).unsqueeze(-2))
        terms = arithmetic.multiply(self.before(), rows, dtype)
        found = summed(terms, [len(value.shape)], dtype)
        return found.parts(lambda part: part.movedim(-1, self.dim + 2))

    def ranks(self) -> Value:
        """The rank of each item, from 0."""
        return self.total(fixed(torch.ones(self.keys.shape)), torch.int64)

    def places(self) -> Value:
        """The places along the dim."""
        size = self.keys.shape[self.dim]
        shape = [size if dim == self.dim else 1 for dim in range(len(self.keys.shape))]
        return fixed(torch.arange(size).reshape(shape).expand(self.keys.shape))


@dataclass(frozen=True)
class Ordered:
    """A tensor that is sorted along a dim: its numbers in the items' places, and as they are known otherwise."""

    value: Value
    order: Order
    plain: Callable[[], Value]


def unordered(operand: Any) -> Any:
    """Operands with ordered rows as they are known otherwise."""
    if isinstance(operand, list | tuple):
        return [unordered(one) for one in operand]
    if isinstance(operand, dict):
        return {name: unordered(one) for name, one in operand.items()}
    return operand.plain() if isinstance(operand, Ordered) else operand


def order_of(value: Value, dim: int, *, descending: bool) -> Order | None:
    """The order of rows of numbers that are distinct almost everywhere; None of others, and where ranks are decided."""
    decisions = current()
    if decisions is None or not decisions.orders or value.masks is not None or not value.dtype.is_floating_point:
        return None
    if value.bits or not value.smooth or not bool(value.known.isnan().all()):
        return None
    words = fingerprint(value.data)
    row = words[0].movedim(dim + 1, -1).sort(-1).values
    if bool((row[..., 1:] == row[..., :-1]).any()):
        return None
    return Order(value, dim, descending, repr(value.shape).encode() + words.numpy().tobytes())


def of_ordered(
    name: str, args: Sequence[Operand], kwargs: dict[str, Any], result: Result, apply: Apply, plain: Callable[[], Any]
) -> Any:
    """The result of an operator some of whose operands are ordered, by the items; None where it is not followed.

    `apply` gives the operator's result of other operands, `plain` that of the rows as they are known otherwise.
    """
    given = [*args, *kwargs.values(), *(args[1] if name == "index" else ())]
    own = next((one for one in given if isinstance(one, Ordered)), None)
    if own is None:
        return None
    order = own.order
    if name in EACH:
        return _of_each(args, kwargs, order, result, apply, plain)
    if name == "index":
        return _gathered(args[0], args[1][0], order, plain) if len(order.keys.shape) == len(args[1]) == 1 else None
    dims = args[1] if len(args) > 1 else kwargs.get("dim")
    if name in _SYMMETRIC and not isinstance(dims, bool):
        return apply([own.value, *args[1:]], kwargs) if order.dim in dims_of(own.value, dims) else None
    if name == "sort":
        return [order.places(), order.ranks()] if _are_places(own, order) and _ascends(args, kwargs, order) else None
    if name not in _ALONG or dims_of(own.value, dims) != [order.dim]:
        return None
    if name == "flip":
        return Ordered(own.value, replace(order, descending=not order.descending), plain)
    return _along(name, args, kwargs, own, result, apply, plain)


def _along(
    name: str,
    args: Sequence[Operand],
    kwargs: dict[str, Any],
    own: Ordered,
    result: Result,
    apply: Apply,
    plain: Callable[[], Any],
) -> Any:
    """The result of an operator along the dim that is sorted."""
    order = own.order
    if name == "gather":
        return _gathered(args[0], args[2], order, plain)
    if name == "scatter":
        return _scattered(args, kwargs, order, result)
    if name == "cumsum":
        total = arithmetic.add(own.value, order.total(own.value, result.dtype), result.dtype)
        return _ordered(total, order, plain)
    return _ordered(apply([own.value, *args[1:]], kwargs), order, plain)


def _of_each(
    args: Sequence[Operand],
    kwargs: dict[str, Any],
    order: Order,
    result: Result,
    apply: Apply,
    plain: Callable[[], Any],
) -> Ordered | None:
    items = [_item(one, order, result.shape) for one in args]
    options = {key: _item(one, order, result.shape) for key, one in kwargs.items()}
    never = any(one is _NEVER for one in (*items, *options.values()))
    return None if never else _ordered(apply(items, options), order, plain)


def _ascends(args: Sequence[Operand], kwargs: dict[str, Any], order: Order) -> bool:
    """Whether a sort is along the dim, from the least number on."""
    numbers = [one for one in args[1:] if not isinstance(one, bool)]
    flags = [one for one in args[1:] if isinstance(one, bool)]
    dim = numbers[0] if numbers else kwargs.get("dim", -1)
    down = flags[-1] if flags else kwargs.get("descending", False)
    return not down and dims_of(order.keys, dim) == [order.dim]


_NEVER = object()


def _item(one: Operand, order: Order, shape: Sequence[int]) -> Operand:
    """An operand of an operation on single numbers, by the items; `_NEVER` where that is not known.

    A constant that grows evenly along the dim is a multiple of the rank, and a constant.
    """
    if isinstance(one, Ordered):
        return one.value if one.order == order and one.value.shape == tuple(shape) else _NEVER
    if not isinstance(one, Value):
        return one
    dim = order.dim - len(shape) + len(one.shape)
    if len(one.shape) > len(shape):
        return _NEVER
    if dim < 0 or one.shape[dim] == 1:
        return one
    first, second = (one.parts(lambda part, at=at: part.narrow(dim + 2, at, 1)) for at in (0, 1))  # type: ignore[misc]
    steps = one.data.diff(dim=dim + 2) % moduli(one.data)
    if one.constant() is None or not bool((steps == steps.narrow(dim + 2, 0, 1)).all()):
        return _NEVER
    slope = arithmetic.subtract(second, first, _FLOAT)
    return arithmetic.add(first, arithmetic.multiply(slope, order.ranks(), _FLOAT), one.dtype)


def _ordered(found: Any, order: Order, plain: Callable[[], Any]) -> Ordered | None:
    return Ordered(found, order, plain) if isinstance(found, Value) and found.shape == order.keys.shape else None


def _scattered(args: Sequence[Operand], kwargs: dict[str, Any], order: Order, result: Result) -> Value | None:
    """What is scattered to all the places that the sort gave."""
    if len(args) < 4 or kwargs or result.shape != order.keys.shape or not _are_places(args[2], order):
        return None
    found = _item(args[3], order, result.shape)
    return found.plain(dtype=result.dtype) if isinstance(found, Value) and found.shape == result.shape else None


def _gathered(value: Operand, index: Operand, order: Order, plain: Callable[[], Any]) -> Any:
    """Numbers at the sorted places, which are ordered; those of an ordered row at the items' ranks, which are not."""
    if isinstance(value, Value) and value.shape == order.keys.shape and _are_places(index, order):
        return _ordered(value, order, plain)
    if isinstance(value, Ordered) and isinstance(index, Value) and index.shape == value.value.shape:
        return value.value if bool(same(index.data, order.ranks().data).all()) else None
    return None


def _are_places(index: Operand, order: Order) -> bool:
    """Whether numbers are the places that the sort by this order gave."""
    return (
        isinstance(index, Ordered) and index.order == order and bool((index.value.known == order.places().known).all())
    )
