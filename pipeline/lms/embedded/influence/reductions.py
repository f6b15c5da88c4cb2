"""Reductions and products of arrays of sources: what happens along dims."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from pipeline.lms.embedded.formulas.spelling import spelled_along
from pipeline.lms.embedded.influence.arrays import (
    Array,
    Unread,
    as_array,
    bounded,
    on_tape,
    settled,
    times,
    unknown,
    with_nodes,
)

_ALONG: dict[Any, str] = {np.sum: "sum", np.prod: "prod", np.max: "largest", np.min: "smallest", np.all: "prod",
                          np.mean: "mean", np.any: "any"}  # fmt: skip
_RUNNING: dict[Any, str] = {np.cumsum: "add", np.cumprod: "multiply"}


def axes_of(dim: Any, rank: int) -> tuple[int, ...]:
    """Dims as axes that are not negative; all of them for None.

    Raises:
        Unread: They are not known numbers of dims.
    """
    if dim is None:
        return tuple(range(rank))
    dims = dim if isinstance(dim, list | tuple) else (dim,)
    if not all(isinstance(one, int) and -rank <= one < max(rank, 1) for one in dims):
        raise Unread("a dim that is not known")
    return tuple(one % rank for one in dims) if rank else ()


def along(result: Array, op: str, array: Array, axes: tuple[int, ...]) -> Array:
    """A result that an operation gives along some dims."""
    own = on_tape(array)
    if own is None:
        return result
    tape, nodes = own
    kept = [axis for axis in range(array.ndim) if axis not in axes]
    shape = [array.shape[axis] for axis in kept]
    rows: Any = nodes.transpose([*kept, *axes]).reshape(*shape, -1)
    if not rows.shape[-1]:
        return result
    found = spelled_along(tape, op, rows)
    if found is None:
        return result
    return with_nodes(result, tape, found.reshape(result.shape))


def reduced(array: Array, dim: Any = None, keepdim: bool = False, compute: Any = None, idle: float = 0.0) -> Array:
    """A reduction; elements that are `idle` constants leave no trace."""
    axes = axes_of(dim, array.ndim)
    result = _reduced(array, axes, keepdim, compute, idle)
    return along(result, _ALONG[compute], array, axes) if compute in _ALONG else result


def _reduced(array: Array, axes: tuple[int, ...], keepdim: bool, compute: Any, idle: float) -> Array:
    sources: Any = np.bitwise_or.reduce(array.sources, axis=axes, keepdims=bool(keepdim))  # type: ignore[call-overload]
    unsure = np.isnan(array.values)
    ragged = () if 0 in axes else array.ragged
    if unsure.all() or compute is None:
        return unknown(sources, ragged=ragged)
    with np.errstate(all="ignore"):
        values = compute(np.where(unsure, idle, array.values), axis=axes, keepdims=keepdim)
    mixed = unsure.any(axis=axes, keepdims=keepdim)
    return Array(sources, np.where(mixed, np.nan, values), ragged=ragged)


def total(array: Array, dim: Any = None, keepdim: bool = False) -> Array:
    """A sum along dims."""
    return reduced(array, dim, keepdim, np.sum)


def accumulated(array: Array, dim: int, compute: Any = None) -> Array:
    """A running sum, product or largest element along a dim."""
    (axis,) = axes_of(dim, array.ndim)
    sources = np.bitwise_or.accumulate(array.sources, axis=axis)
    values = np.full(array.shape, np.nan) if compute is None else compute(array.values, axis=axis)
    result = Array(sources, values, ragged=array.ragged)
    return running(result, _RUNNING[compute], array, axis) if compute in _RUNNING else result


def running(result: Array, op: str, array: Array, axis: int) -> Array:
    """A result that an operation gives of all elements along a dim up to each."""
    own = on_tape(array)
    if own is None or not array.shape[axis]:
        return replace(result, formulas=None)
    tape, nodes = own
    rows = np.moveaxis(nodes, axis, 0)
    found = [rows[0]]
    for row in rows[1:]:
        after = tape.apply(op, found[-1], row)
        if after is None:
            return replace(result, formulas=None)
        found.append(after)
    return with_nodes(result, tape, np.stack(found, axis))


def shared(array: Array, dim: Any) -> Array:
    """Each element by all of those along some dims, as in a softmax; negative infinities count for nothing."""
    gone = array.values == -np.inf
    everything = reduced(array, dim, keepdim=True)
    result = unknown(np.broadcast_to(everything.sources, array.shape), ragged=array.ragged)
    return settled(result, gone, 0.0)


def contracted(subscripts: str, *operands: Any) -> Array:
    """A sum of products by index letters, as `torch.einsum` writes them, with no ellipsis and no repeated letter."""
    terms, result = subscripts.split("->")
    sizes: dict[str, int] = {}
    arrays = [as_array(operand) for operand in operands]
    for term, array in zip(terms.split(","), arrays, strict=True):
        if len(term) != array.ndim or len(set(term)) < len(term):
            raise Unread("subscripts that do not fit")
        for letter, size in zip(term, array.shape, strict=True):
            if sizes.setdefault(letter, size) == 1:
                sizes[letter] = size
    order = result + "".join(letter for letter in sizes if letter not in result)
    bounded([sizes[letter] for letter in order])
    product: Array | None = None
    for term, array in zip(terms.split(","), arrays, strict=True):
        places = sorted(range(len(term)), key=lambda place: order.index(term[place]))
        index = tuple(slice(None) if letter in term else None for letter in order)
        spread = array.through(lambda part: part.transpose(places)[index])  # noqa: B023 (called at once)
        product = spread if product is None else times(product, spread)
    if product is None:
        raise Unread("no operands")
    shape = tuple(sizes[letter] for letter in order)
    whole = product.through(lambda part: np.broadcast_to(part, shape))
    return total(whole, tuple(range(len(result), len(order)))) if len(order) > len(result) else whole


def product(one: Any, other: Any) -> Array:
    """A matrix product, as `torch.matmul` defines it."""
    a, b = as_array(one), as_array(other)
    if not a.ndim or not b.ndim:
        raise Unread("a matrix product of a number")
    left, right = a.ndim == 1, b.ndim == 1
    a = a.through(lambda part: part[None]) if left else a
    b = b.through(lambda part: part[:, None]) if right else b
    wide, tall = a.through(lambda part: part[..., None]), b.through(lambda part: part[..., None, :, :])
    result = total(times(wide, tall), -2)
    if left:
        result = result.through(lambda part: part[..., 0, :])
    return result.through(lambda part: part[..., 0]) if right else result
