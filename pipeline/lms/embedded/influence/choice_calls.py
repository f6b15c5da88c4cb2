"""What calls of PyTorch that select, replace or count elements by an index or a mask do to arrays of sources.

Arguments are named as PyTorch names them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations as chosen
from itertools import combinations_with_replacement, product
from math import comb
from typing import Any

import numpy as np

from pipeline.lms.embedded.influence.arrays import (
    ANY,
    Array,
    Unread,
    as_array,
    bounded,
    constant,
    like,
    pointwise,
    unknown,
    where,
)
from pipeline.lms.embedded.influence.indexing import along, replaced, selected
from pipeline.lms.embedded.influence.reductions import reduced
from pipeline.lms.embedded.influence.shape_calls import axis_of, cat, ints, stack


def _at(axis: int, index: Any) -> tuple[Any, ...]:
    return (*[slice(None)] * axis, index)


# --- selecting ---


def gather(data: Array, dim: int, index: Any, **_: Any) -> Array:
    """As `torch.gather`."""
    return selected(data, along(data.shape, axis_of(dim, data.ndim), as_array(index)))


def take_along_dim(data: Array, indices: Any, dim: Any = None) -> Array:
    """As `torch.take_along_dim`, which broadcasts the other dims."""
    index = as_array(indices)
    if dim is None:
        return take(data, index.through(lambda part: part.reshape(-1)))
    axis = axis_of(dim, data.ndim)
    shape = np.broadcast_shapes(
        *(tuple(1 if place == axis else size for place, size in enumerate(one.shape)) for one in (data, index))
    )

    def spread(one: Array) -> Array:
        wide = tuple(one.shape[axis] if place == axis else size for place, size in enumerate(shape))
        return one.through(lambda part: np.broadcast_to(part, wide))

    return gather(spread(data), axis, spread(index))


def index_select(data: Array, dim: int, index: Any) -> Array:
    """As `torch.index_select`."""
    given = as_array(index)
    return selected(data, _at(axis_of(dim, data.ndim), given.through(lambda part: part.reshape(-1))))


def take(data: Array, index: Any) -> Array:
    """As `torch.take`."""
    return selected(data.through(lambda part: part.reshape(-1)), as_array(index))


def embedding(data: Any, weight: Any, *_: Any, **__: Any) -> Array:
    """As `torch.nn.functional.embedding`."""
    return selected(as_array(weight), as_array(data))


def embedding_bag(data: Any, weight: Any, offsets: Any = None, *_: Any, per_sample_weights: Any = None,
                  **__: Any) -> Array:  # fmt: skip
    """As `torch.nn.functional.embedding_bag` for bags of one size."""
    if offsets is not None:
        raise Unread("bags of several sizes")
    rows = embedding(data, weight)
    if per_sample_weights is not None:
        rows = unknown(rows.sources | as_array(per_sample_weights).sources[..., None])
    return reduced(rows, -2)


def masked_select(data: Any, mask: Any) -> Array:
    """As `torch.masked_select`."""
    one, test = as_array(data), as_array(mask)
    shape = np.broadcast_shapes(one.shape, test.shape)
    one, test = (each.through(lambda part: np.broadcast_to(part, shape)) for each in (one, test))
    return selected(one, test)


def nonzero(data: Any, as_tuple: bool = False) -> Any:
    """As `torch.nonzero`; of data, places of which as many are listed as there could be."""
    test = as_array(data)
    found = np.nonzero(test.values)
    columns = [constant(places) for places in found]
    if np.isnan(test.values).any():
        every = np.bitwise_or.reduce(test.sources, axis=None)
        columns = [unknown(np.broadcast_to(every, places.shape), ragged=ANY) for places in found]
    return tuple(columns) if as_tuple else stack(columns, 1)


def unique(data: Any, *_: Any, return_inverse: bool = False, return_counts: bool = False, **__: Any) -> Any:
    """As `torch.unique`; of data, as many values as there could be."""
    array = as_array(data)
    if not np.isnan(array.values).any() and not (return_inverse or return_counts):
        return constant(np.unique(array.values))
    every = reduced(array).sources
    found = unknown(np.broadcast_to(every, (array.values.size,)), ragged=ANY)
    more = [unknown(np.broadcast_to(every, array.shape))] if return_inverse else []
    more += [found] if return_counts else []
    return (found, *more) if more else found


# --- replacing ---


def scatter(
    data: Array, dim: int, index: Any, src: Any = None, value: Any = 0.0, reduce: Any = None, **_: Any
) -> Array:
    """As `torch.scatter`."""
    return _scattered(data, dim, index, value if src is None else src, added=reduce is not None)


def scatter_add(data: Array, dim: int, index: Any, src: Any, *_: Any, **__: Any) -> Array:
    """As `torch.scatter_add` and `scatter_reduce`."""
    return _scattered(data, dim, index, src, added=True)


def _scattered(data: Array, dim: int, index: Any, src: Any, *, added: bool) -> Array:
    places, given = as_array(index), as_array(src)
    if given.ndim == data.ndim:
        given = given.through(lambda part: part[tuple(map(slice, places.shape))])
    return replaced(data, along(data.shape, axis_of(dim, data.ndim), places), given, added=added)


def index_copy(data: Array, dim: int, index: Any, source: Any = None, value: Any = 0.0, **_: Any) -> Array:
    """As `torch.index_copy` and `index_fill`."""
    return replaced(data, _at(axis_of(dim, data.ndim), as_array(index)), value if source is None else source)


def index_add(data: Array, dim: int, index: Any, source: Any, *_: Any, **__: Any) -> Array:
    """As `torch.index_add` and `index_reduce`."""
    return replaced(data, _at(axis_of(dim, data.ndim), as_array(index)), source, added=True)


def index_put(data: Array, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Array:
    """As `torch.index_put`."""
    return replaced(data, tuple(indices), values, added=bool(accumulate))


def put(data: Array, index: Any, source: Any, accumulate: bool = False) -> Array:
    """As `torch.put`."""
    flat = data.through(lambda part: part.reshape(-1))
    given = as_array(source).through(lambda part: part.reshape(as_array(index).shape))
    return replaced(flat, as_array(index), given, added=accumulate).through(lambda part: part.reshape(data.shape))


def masked_scatter(data: Array, mask: Any, source: Any) -> Array:
    """As `torch.masked_scatter`: of a mask of data, any element of the source may be taken."""
    test = as_array(mask)
    test = test.through(lambda part: np.broadcast_to(part, data.shape))
    flat = as_array(source).through(lambda part: part.reshape(-1))
    if not np.isnan(test.values).any():
        count = np.count_nonzero(test.values)
        return replaced(data, test, flat.through(lambda part: part[:count]))
    counted = np.bitwise_or.reduce(test.sources, axis=None)
    return where(test, unknown(np.broadcast_to(reduced(flat).sources | counted, data.shape)), data)


def select_scatter(data: Array, src: Any, dim: int, index: Any) -> Array:
    """As `torch.select_scatter`."""
    return replaced(data, _at(axis_of(dim, data.ndim), index), src)


def slice_scatter(data: Array, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> Array:
    """As `torch.slice_scatter`."""
    return replaced(data, _at(axis_of(dim, data.ndim), slice(start, end, step)), src)


def one_hot(tensor: Array, num_classes: Any = -1) -> Array:
    """As `torch.nn.functional.one_hot`."""
    (count,) = ints((num_classes,))
    if count < 1:
        raise Unread("a number of classes that depends on data")
    shape = (*tensor.shape, count)
    bounded(shape)
    if not np.isnan(tensor.values).any():
        return constant((tensor.values[..., None] == np.arange(count)).astype(np.float64))
    result = unknown(np.broadcast_to(tensor.sources[..., None], shape))
    return like(result, stack([pointwise(np.equal, tensor, constant(place)) for place in range(count)], -1))


# --- counting and searching ---


def bincount(data: Any, weights: Any = None, minlength: Any = 0) -> Array:
    """As `torch.bincount`, of at least the least number of counts."""
    (count,) = ints((minlength,))
    array = as_array(data)
    if not np.isnan(array.values).any():
        count = max(count, int(array.values.max(initial=-1)) + 1)
    elif not count:
        raise Unread("a number of counts that depends on data")
    bounded((count,))
    each = constant(np.ones(array.shape)) if weights is None else as_array(weights)
    if weights is None and not np.isnan(array.values).any():
        return constant(np.bincount(array.values.astype(np.int64), minlength=count).astype(np.float64))
    return replaced(constant(np.zeros(count)), array, each, added=True)


def histc(data: Any, bins: Any = 100, *_: Any, **__: Any) -> Array:
    """As `torch.histc`: each count depends on all elements."""
    (count,) = ints((bins,))
    return unknown(np.broadcast_to(reduced(as_array(data)).sources, (count,)))


def searchsorted(sorted_sequence: Any, data: Any, *_: Any, **named: Any) -> Array:
    """As `torch.searchsorted`: as many places as there are smaller elements."""
    order, given = as_array(sorted_sequence), as_array(data)
    every = reduced(order, -1, keepdim=order.ndim > 1 or given.ndim > 0)
    result = unknown(given.sources | every.sources)
    right = bool(named.get("right")) or named.get("side") == "right"
    each = given.through(lambda part: part[..., None])
    row = order.through(lambda part: part[..., None, :] if order.ndim > 1 else part)
    below = pointwise(np.less_equal if right else np.less, row, each)
    return like(result, reduced(below, -1, compute=np.sum))


# --- listing ---


def tril_indices(row: Any, col: Any, offset: Any = 0, **_: Any) -> Array:
    """As `torch.tril_indices`."""
    bounded(ints((row, col)))
    return constant(np.stack(np.tril_indices(*ints((row, offset, col)))))


def triu_indices(row: Any, col: Any, offset: Any = 0, **_: Any) -> Array:
    """As `torch.triu_indices`."""
    bounded(ints((row, col)))
    return constant(np.stack(np.triu_indices(*ints((row, offset, col)))))


def combinations(data: Array, r: Any = 2, with_replacement: bool = False) -> Array:
    """As `torch.combinations`."""
    every = combinations_with_replacement if with_replacement else chosen
    bounded((comb(data.shape[0] + r * with_replacement, r), r))
    places = list(every(range(data.shape[0]), r))
    return selected(data, constant(np.array(places, np.int64).reshape(-1, r)))


def cartesian_prod(*tensors: Any) -> Array:
    """As `torch.cartesian_prod`."""
    parts = [as_array(one) for one in tensors]
    bounded([part.shape[0] for part in parts])
    places = np.array(list(product(*(range(part.shape[0]) for part in parts))), np.int64)
    return stack([selected(part, constant(places[:, place])) for place, part in enumerate(parts)], 1)


def block_diag(*tensors: Any) -> Array:
    """As `torch.block_diag`."""
    parts = [as_array(one).through(np.atleast_2d) for one in tensors]
    width, before, rows = sum(part.shape[1] for part in parts), 0, []
    for part in parts:
        left, right = (constant(np.zeros((part.shape[0], count), bool if part.truth else float)) for count in
                       (before, width - before - part.shape[1]))  # fmt: skip
        rows.append(cat((left, part, right), 1))
        before += part.shape[1]
    return cat(rows, 0)


CALLS: dict[str, Callable[..., Any]] = {
    "gather": gather, "take_along_dim": take_along_dim, "index_select": index_select, "take": take,
    "embedding": embedding, "embedding_bag": embedding_bag, "masked_select": masked_select, "nonzero": nonzero,
    "argwhere": nonzero, "unique": unique, "unique_consecutive": unique, "scatter": scatter,
    "scatter_add": scatter_add, "scatter_reduce": scatter_add, "index_copy": index_copy, "index_add": index_add,
    "index_reduce": index_add,
    "index_fill": index_copy,
    "index_put": index_put, "put": put, "masked_scatter": masked_scatter, "select_scatter": select_scatter,
    "slice_scatter": slice_scatter, "one_hot": one_hot, "bincount": bincount, "histc": histc,
    "searchsorted": searchsorted, "bucketize": lambda data, boundaries, **_: searchsorted(boundaries, data),
    "tril_indices": tril_indices, "triu_indices": triu_indices, "combinations": combinations,
    "cartesian_prod": cartesian_prod, "block_diag": block_diag,
}  # fmt: skip
"""The calls by their names."""
