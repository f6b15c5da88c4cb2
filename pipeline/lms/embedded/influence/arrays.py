"""Arrays of which it is known what each element depends on, and which elements are constants.

An element's sources are a set of bits: positions along the dims of the inputs, or elements of a function's arguments.
Positions, masks and sizes are constants, so that a causal mask, a shift or a window leaves the exact set of sources.
Values that depend on data are never computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Sources: TypeAlias = NDArray[Any]
"""Bits: 64-bit integers where these suffice, else integers of Python."""
Values: TypeAlias = NDArray[np.float64]

MOST_ELEMENTS = 60_000
ANY = ("any",)
"""What selects elements of which the places are not known."""


class Unread(Exception):
    """The meaning of a piece of code is not known here."""


@dataclass(frozen=True)
class Word:
    """A name of PyTorch: a call that is not made yet, or a type of elements."""

    name: str


@dataclass(frozen=True, eq=False)
class Array:
    """What is known of the elements of a tensor.

    Attributes:
        sources: What each element depends on; no bits for a constant.
        values: The value of each constant that is known, else NaN; of the same shape.
        truth: Whether the elements are truth values, so that an index of them is a mask.
        ragged: If data decide how many elements the first dim has, what selects them, else empty. There are as many as
            there could be then, at the places that they are selected from.
    """

    sources: Sources
    values: Values
    truth: bool = False
    ragged: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        """NumPy gives numbers where it has no dims left."""
        if np.ndim(self.values) == 0:
            kind = getattr(self.sources, "dtype", object)
            object.__setattr__(self, "sources", np.asarray(self.sources, kind))
            object.__setattr__(self, "values", np.asarray(self.values, np.float64))
        bounded(self.values.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """The tensor's shape."""
        return self.values.shape

    @property
    def ndim(self) -> int:
        """The number of its dims."""
        return self.values.ndim

    def known(self) -> Values:
        """The values, if all are constants that are known.

        Raises:
            Unread: An element depends on something, or is not known.
        """
        if np.isnan(self.values).any():
            raise Unread("a value that depends on data, where a constant is needed")
        return self.values

    def through(self, move: Callable[[NDArray[Any]], NDArray[Any]]) -> Array:
        """The same elements at other places."""
        if self.ragged:
            return widened(self)._moved(move)
        return self._moved(move)

    def _moved(self, move: Callable[[NDArray[Any]], NDArray[Any]]) -> Array:
        return Array(move(self.sources), move(self.values), self.truth, self.ragged)


def constant(values: Any) -> Array:
    """Constants."""
    given = np.asarray(values)
    bounded(given.shape)
    return Array(np.zeros(given.shape, np.uint64), given.astype(np.float64), given.dtype == np.bool_)


def truths(array: Array) -> Array:
    """The same elements, as truth values."""
    return Array(array.sources, array.values, truth=True, ragged=array.ragged)


def unknown(sources: Sources, *, ragged: tuple[Any, ...] = ()) -> Array:
    """Elements that are no known constants."""
    bounded(np.shape(sources))
    return Array(sources, np.full(np.shape(sources), np.nan), ragged=ragged)


def widened(array: Array) -> Array:
    """A tensor of which data decide the number of elements, where each may be any of them."""
    every = np.bitwise_or.reduce(array.sources, axis=0, keepdims=True)
    wide = np.broadcast_to(every, array.shape)
    return Array(wide, np.full(array.shape, np.nan), array.truth, ANY if array.ragged else ())


def _aligned(arrays: Sequence[Array]) -> tuple[list[Array], tuple[Any, ...]]:
    """Operands whose elements belong together, and by which mask data select them."""
    masks = {array.ragged for array in arrays if array.ragged}
    if len(masks) < 2:
        return list(arrays), next(iter(masks), ())
    return [widened(array) if array.ragged else array for array in arrays], ANY


def as_array(value: Any) -> Array:
    """An array, a number, or nested lists of these, as an array.

    Raises:
        Unread: It is something else.
    """
    if isinstance(value, Array):
        return value
    if isinstance(value, bool | int | float | np.generic):
        return constant(value if isinstance(value, bool | np.bool_) else float(value))
    if isinstance(value, complex):
        return constant(np.nan)
    if isinstance(value, list | tuple | range):
        bounded((len(value),))
        parts = [as_array(part) for part in value]
        if not parts:
            return constant([])
        return joined_by(np.stack, parts, 0)
    raise Unread("not a tensor")


def joined_by(join: Callable[..., NDArray[Any]], parts: Sequence[Array], axis: int) -> Array:
    """Several arrays as one, by `np.stack` or `np.concatenate`."""
    truth, ragged = all(part.truth for part in parts), any(part.ragged for part in parts)
    if ragged:
        parts = [widened(part) if part.ragged else part for part in parts]
    sources, values = [part.sources for part in parts], [part.values for part in parts]
    return Array(join(sources, axis=axis), join(values, axis=axis), truth, ANY if ragged else ())


def bounded(shape: Sequence[int]) -> None:
    """Checks that a shape is small enough to be read.

    Raises:
        Unread: It has too many elements.
    """
    count = 1
    for size in shape:
        count *= size
    if count > MOST_ELEMENTS:
        raise Unread("too many elements")


# --- element by element ---


def pointwise(compute: Callable[..., Any], *operands: Any) -> Array:
    """An operation on each element; constants of constants are computed."""
    arrays, ragged = _aligned([as_array(operand) for operand in operands])
    sources, values = arrays[0].sources, [array.values for array in arrays]
    if len(arrays) > 1:
        bounded(np.broadcast_shapes(*(array.shape for array in arrays)))
        for other in arrays[1:]:
            sources = sources | other.sources
    known = ~np.isnan(values[0])
    for value in values[1:]:
        known = known & ~np.isnan(value)
    if not known.any():
        return unknown(sources, ragged=ragged)
    with np.errstate(all="ignore"):
        computed = np.asarray(compute(*values), dtype=np.float64)
    return Array(np.where(known, np.zeros((), np.uint64), sources), np.where(known, computed, np.nan), ragged=ragged)


def _settled(result: Array, decided: NDArray[np.bool_], values: Any) -> Array:
    """A result whose elements at some places are constants after all."""
    if not decided.any():
        return result
    nothing = np.zeros((), np.uint64)
    return Array(
        np.where(decided, nothing, result.sources),
        np.where(decided, values, result.values),
        result.truth,
        result.ragged,
    )


def times(one: Any, other: Any) -> Array:
    """A product: nothing is left of what is multiplied by zero."""
    a, b = as_array(one), as_array(other)
    return _settled(pointwise(np.multiply, a, b), (a.values == 0) | (b.values == 0), 0.0)


def over(one: Any, other: Any) -> Array:
    """A quotient."""
    a, b = as_array(one), as_array(other)
    return _settled(pointwise(np.divide, a, b), (a.values == 0) & ~(b.values == 0), 0.0)


def plus(one: Any, other: Any) -> Array:
    """A sum: nothing is left of what is added to an infinity."""
    a, b = as_array(one), as_array(other)
    infinite = np.isinf(a.values) | np.isinf(b.values)
    result = pointwise(np.add, a, b)
    return _settled(result, infinite, np.where(np.isinf(a.values), a.values, b.values)) if infinite.any() else result


def minus(one: Any, other: Any) -> Array:
    """A difference."""
    return plus(one, pointwise(np.negative, other))


def larger(one: Any, other: Any) -> Array:
    """The larger one of two; nothing is left of a negative infinity."""
    return _extreme(np.maximum, -np.inf, one, other)


def smaller(one: Any, other: Any) -> Array:
    """The smaller one of two; nothing is left of an infinity."""
    return _extreme(np.minimum, np.inf, one, other)


def _extreme(compute: Callable[..., Any], idle: float, one: Any, other: Any) -> Array:
    a, b = as_array(one), as_array(other)
    if not ((a.values == idle).any() or (b.values == idle).any()):
        return pointwise(compute, a, b)
    return where(a.values == idle, b, where(b.values == idle, a, pointwise(compute, a, b)))


def both(one: Any, other: Any) -> Array:
    """The conjunction of two truth values or of bits; nothing is left of one with what is false or zero."""
    a, b = as_array(one), as_array(other)
    result = pointwise(_bits(np.bitwise_and), a, b)
    return _alike(_settled(result, (a.values == 0) | (b.values == 0), 0.0), a, b)


def either(one: Any, other: Any) -> Array:
    """The disjunction of two truth values, of which nothing is left with what is true, or of bits."""
    a, b = as_array(one), as_array(other)
    result = pointwise(_bits(np.bitwise_or), a, b)
    if not (a.truth and b.truth):
        return result
    true = ((a.values != 0) & ~np.isnan(a.values)) | ((b.values != 0) & ~np.isnan(b.values))
    return _alike(_settled(result, true, 1.0), a, b)


def differing(one: Any, other: Any) -> Array:
    """The bits in which two values differ."""
    a, b = as_array(one), as_array(other)
    return _alike(pointwise(_bits(np.bitwise_xor), a, b), a, b)


def _alike(result: Array, one: Array, other: Array) -> Array:
    return truths(result) if one.truth and other.truth else result


def _bits(compute: Callable[..., Any]) -> Callable[..., Any]:
    """An operation on bits, of integers that are given as floating-point numbers."""
    return lambda *values: compute(*(np.nan_to_num(value).astype(np.int64) for value in values))


def where(condition: Any, one: Any, other: Any) -> Array:
    """One of two values by a condition; a constant condition leaves nothing of the other one."""
    if isinstance(condition, np.ndarray):
        condition = constant(condition)
    (test, a, b), ragged = _aligned([as_array(part) for part in (condition, one, other)])
    bounded(np.broadcast_shapes(test.shape, a.shape, b.shape))
    unsure = np.isnan(test.values)
    first = (test.values != 0) & ~unsure
    same = unsure & (a.values == b.values)
    sources = np.where(unsure, test.sources | a.sources | b.sources, np.where(first, a.sources, b.sources))
    values = np.where(unsure, np.nan, np.where(first, a.values, b.values))
    return _settled(Array(sources, values, a.truth and b.truth, ragged), same, a.values)


# --- along dims ---


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


def reduced(array: Array, dim: Any = None, keepdim: bool = False, compute: Any = None, idle: float = 0.0) -> Array:
    """A reduction; elements that are `idle` constants leave no trace."""
    axes = axes_of(dim, array.ndim)
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
    return Array(sources, values, ragged=array.ragged)


def shared(array: Array, dim: Any) -> Array:
    """Each element by all of those along some dims, as in a softmax; negative infinities count for nothing."""
    gone = array.values == -np.inf
    everything = reduced(array, dim, keepdim=True)
    result = unknown(np.broadcast_to(everything.sources, array.shape), ragged=array.ragged)
    return _settled(result, gone, 0.0)


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
