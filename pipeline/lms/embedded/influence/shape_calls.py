"""What calls of PyTorch that make tensors, or move their elements, do to arrays of sources.

Arguments are named as PyTorch names them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeline.lms.embedded.influence.arrays import (
    Array,
    Unread,
    as_array,
    axes_of,
    bounded,
    constant,
    joined_by,
    reduced,
    unknown,
)


def ints(values: Sequence[Any]) -> list[int]:
    """Sizes that are given one by one or as one sequence.

    Raises:
        Unread: They are not known.
    """
    flat = values[0] if len(values) == 1 and isinstance(values[0], list | tuple) else values
    found = [int(one.known()) if isinstance(one, Array) and one.ndim == 0 else one for one in flat]
    if not all(isinstance(one, int) for one in found):
        raise Unread("sizes that are not known")
    return found


def axis_of(dim: Any, rank: int) -> int:
    """One dim as an axis."""
    (axis,) = axes_of(int(dim), rank)
    return axis


# --- new tensors ---


def _filled(value: float) -> Callable[..., Array]:
    def make(*size: Any, **_: Any) -> Array:
        shape = ints(size)
        bounded(shape)
        return constant(np.full(shape, value))

    return make


def _like(value: float) -> Callable[..., Array]:
    return lambda data, **_: constant(np.full(as_array(data).shape, value))


def _new(value: float) -> Callable[..., Array]:
    return lambda data, *size, **_: _filled(value)(*size)


def full(size: Any, fill_value: Any, **_: Any) -> Array:
    """As `torch.full`."""
    value = as_array(fill_value)
    shape = tuple(ints((size,))) if not isinstance(size, int) else (size,)
    bounded(shape)
    return value.through(lambda part: np.broadcast_to(part, shape))


def full_like(data: Any, fill_value: Any, **_: Any) -> Array:
    """As `torch.full_like`."""
    return full(as_array(data).shape, fill_value)


def arange(*bounds: Any, **_: Any) -> Array:
    """As `torch.arange`."""
    ends = [float(as_array(bound).known()) for bound in bounds]
    bounded((int(max(map(abs, ends)) * 2 / (abs(ends[2]) if len(ends) > 2 else 1)),))
    return constant(np.arange(*ends))


def linspace(start: Any, end: Any, steps: Any, **_: Any) -> Array:
    """As `torch.linspace`."""
    (count,) = ints((steps,))
    bounded((count,))
    return constant(np.linspace(start, end, count))


def eye(n: Any, m: Any = None, **_: Any) -> Array:
    """As `torch.eye`."""
    rows, columns = ints((n, n if m is None else m))
    bounded((rows, columns))
    return constant(np.eye(rows, columns))


def tensor(data: Any, **_: Any) -> Array:
    """As `torch.tensor`."""
    return as_array(data)


# --- places of elements ---


def view(data: Array, *shape: Any) -> Array:
    """As `Tensor.view`."""
    sizes = ints(shape)
    return data.through(lambda part: part.reshape(sizes))


def flatten(data: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    """As `torch.flatten`."""
    first, last = axis_of(start_dim, data.ndim), axis_of(end_dim, data.ndim)
    sizes = (*data.shape[:first], -1, *data.shape[last + 1 :])
    return data.through(lambda part: part.reshape(sizes))


def unflatten(data: Array, dim: int, sizes: Any) -> Array:
    """As `torch.unflatten`."""
    axis = axis_of(dim, data.ndim)
    shape = (*data.shape[:axis], *ints((sizes,)), *data.shape[axis + 1 :])
    return data.through(lambda part: part.reshape(shape))


def squeeze(data: Array, dim: Any = None) -> Array:
    """As `torch.squeeze`."""
    axes = tuple(axis for axis in axes_of(dim, data.ndim) if data.shape[axis] == 1)
    return data.through(lambda part: part.squeeze(axes))


def unsqueeze(data: Array, dim: int) -> Array:
    """As `torch.unsqueeze`."""
    axis = axis_of(dim, data.ndim + 1)
    return data.through(lambda part: np.expand_dims(part, axis))


def transpose(data: Array, dim0: int, dim1: int) -> Array:
    """As `torch.transpose`."""
    one, other = axis_of(dim0, data.ndim), axis_of(dim1, data.ndim)
    return data.through(lambda part: part.swapaxes(one, other))


def permute(data: Array, *dims: Any) -> Array:
    """As `torch.permute`."""
    axes = axes_of(tuple(ints(dims)), data.ndim)
    return data.through(lambda part: part.transpose(axes))


def movedim(data: Array, source: Any, destination: Any) -> Array:
    """As `torch.movedim`."""
    return data.through(lambda part: np.moveaxis(part, source, destination))


def turned(data: Array) -> Array:
    """As `Tensor.T` and `torch.t`."""
    return data.through(np.transpose)


def turned_matrices(data: Array) -> Array:
    """As `Tensor.mT`."""
    return transpose(data, -1, -2)


def expand(data: Array, *size: Any) -> Array:
    """As `Tensor.expand`."""
    sizes = ints(size)
    missing = len(sizes) - data.ndim
    shape = [data.shape[place - missing] if one == -1 else one for place, one in enumerate(sizes)]
    bounded(shape)
    return data.through(lambda part: np.broadcast_to(part, shape))


def expand_as(data: Array, other: Array) -> Array:
    """As `Tensor.expand_as`."""
    return expand(data, *other.shape)


def repeat(data: Array, *size: Any) -> Array:
    """As `Tensor.repeat`."""
    sizes = ints(size)
    bounded([*data.shape, *sizes])
    return data.through(lambda part: np.tile(part, sizes))


def repeat_interleave(data: Array, repeats: Any, dim: Any = None) -> Array:
    """As `torch.repeat_interleave`."""
    (count,) = ints((repeats,))
    bounded([*data.shape, count])
    return data.through(lambda part: np.repeat(part, count, dim))


def flip(data: Array, *dims: Any) -> Array:
    """As `torch.flip`."""
    axes = axes_of(tuple(ints(dims)), data.ndim)
    return data.through(lambda part: np.flip(part, axes))


def roll(data: Array, shifts: Any, dims: Any = None) -> Array:
    """As `torch.roll`."""
    return data.through(lambda part: np.roll(part, shifts, dims))


def narrow(data: Array, dim: int, start: Any, length: Any) -> Array:
    """As `torch.narrow`."""
    axis, (first, count) = axis_of(dim, data.ndim), ints((start, length))
    return data.through(lambda part: part[(slice(None),) * axis + (slice(first, first + count),)])


def select(data: Array, dim: int, index: Any) -> Array:
    """As `torch.select`."""
    axis, (place,) = axis_of(dim, data.ndim), ints((index,))
    return data.through(lambda part: part[(slice(None),) * axis + (place,)])


def unbind(data: Array, dim: int = 0) -> tuple[Array, ...]:
    """As `torch.unbind`."""
    return tuple(select(data, dim, place) for place in range(data.shape[axis_of(dim, data.ndim)]))


def split(data: Array, split_size_or_sections: Any, dim: int = 0) -> tuple[Array, ...]:
    """As `torch.split`."""
    size = data.shape[axis_of(dim, data.ndim)]
    if isinstance(split_size_or_sections, int):
        step = split_size_or_sections
        lengths = [min(step, size - first) for first in range(0, size, step)]
    else:
        lengths = ints((split_size_or_sections,))
    starts = np.cumsum([0, *lengths[:-1]])
    return tuple(narrow(data, dim, int(first), length) for first, length in zip(starts, lengths, strict=True))


def chunk(data: Array, chunks: Any, dim: int = 0) -> tuple[Array, ...]:
    """As `torch.chunk`."""
    (count,) = ints((chunks,))
    return split(data, -(-data.shape[axis_of(dim, data.ndim)] // count), dim)


def unfold(data: Array, dimension: int, size: Any, step: Any) -> Array:
    """As `Tensor.unfold`."""
    width, stride = ints((size, step))
    axis = axis_of(dimension, data.ndim)
    starts = range(0, data.shape[axis] - width + 1, stride)
    windows = [narrow(data, axis, start, width).through(lambda part: np.moveaxis(part, axis, -1)) for start in starts]
    return joined_by(np.stack, windows, axis)


def cat(tensors: Any, dim: int = 0) -> Array:
    """As `torch.cat`."""
    parts = [as_array(part) for part in tensors]
    parts = [part for part in parts if part.shape != (0,)] or parts[:1]
    return joined_by(np.concatenate, parts, axis_of(dim, parts[0].ndim))


def stack(tensors: Any, dim: int = 0) -> Array:
    """As `torch.stack`."""
    parts = [as_array(part) for part in tensors]
    return joined_by(np.stack, parts, axis_of(dim, parts[0].ndim + 1))


def pad(data: Array, pad: Any, mode: str = "constant", value: Any = 0.0) -> Array:
    """As `torch.nn.functional.pad` with constants."""
    if mode != "constant":
        raise Unread("padding that is not constant")
    widths = ints((pad,))
    bounded([*data.shape, 1 + sum(map(abs, widths))])
    for place in range(len(widths) // 2):
        axis = data.ndim - 1 - place
        for count, before in ((widths[2 * place], True), (widths[2 * place + 1], False)):
            if count < 0:
                start = -count if before else 0
                data = narrow(data, axis, start, data.shape[axis] + count)
            elif count:
                edge = constant(np.full((*data.shape[:axis], count, *data.shape[axis + 1 :]), value or 0.0))
                data = joined_by(np.concatenate, [edge, data] if before else [data, edge], axis)
    return data


def tril(data: Array, diagonal: int = 0) -> Array:
    """As `torch.tril`."""
    return _triangle(data, np.tril(np.ones(data.shape[-2:]), diagonal))


def triu(data: Array, diagonal: int = 0) -> Array:
    """As `torch.triu`."""
    return _triangle(data, np.triu(np.ones(data.shape[-2:]), diagonal))


def _triangle(data: Array, kept: Any) -> Array:
    nothing = np.zeros((), np.uint64)
    return Array(np.where(kept, data.sources, nothing), np.where(kept, data.values, 0.0))


def diagonal(data: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """As `torch.diagonal`."""
    return data.through(lambda part: np.diagonal(part, offset, dim1, dim2))


def diag(data: Array, diagonal: int = 0) -> Array:
    """As `torch.diag`."""
    if data.ndim == 1 and data.sources.dtype == object:
        raise Unread("a diagonal matrix of many sources")
    return data.through(lambda part: np.diag(part, diagonal))


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Array, ...]:
    """As `torch.meshgrid`."""
    parts = [as_array(part) for part in (tensors[0] if isinstance(tensors[0], tuple | list) else tensors)]
    bounded([part.values.size for part in parts])
    grids = zip(
        np.meshgrid(*(part.sources for part in parts), indexing=indexing),  # type: ignore[call-overload]
        np.meshgrid(*(part.values for part in parts), indexing=indexing),  # type: ignore[call-overload]
        strict=True,
    )
    return tuple(Array(sources, values) for sources, values in grids)


# --- places that data choose ---


def gather(data: Array, dim: int, index: Array, **_: Any) -> Array:
    """As `torch.gather`."""
    axis = axis_of(dim, data.ndim)
    cut = tuple(slice(None) if place == axis else slice(size) for place, size in enumerate(index.shape))
    whole = data.through(lambda part: part[cut])
    if not np.isnan(index.values).any():
        places = index.values.astype(np.int64)
        return whole.through(lambda part: np.take_along_axis(part, places, axis))
    every = reduced(whole, axis, keepdim=True)
    return unknown(every.sources | index.sources)


def index_select(data: Array, dim: int, index: Array) -> Array:
    """As `torch.index_select`."""
    axis = axis_of(dim, data.ndim)
    if not np.isnan(index.values).any():
        return data.through(lambda part: np.take(part, index.values.astype(np.int64), axis))
    every = reduced(data, axis, keepdim=True).sources
    spread = [size if place == axis else 1 for place, size in enumerate([1] * axis + [-1] + [1] * data.ndim)]
    return unknown(every | index.sources.reshape(spread[: data.ndim]))


def scatter(data: Array, dim: int, index: Array, src: Any = None, value: Any = 0.0, **_: Any) -> Array:
    """As `torch.scatter`, where any element along the dim may be the one."""
    axis = axis_of(dim, data.ndim)
    given = as_array(value if src is None else src)
    if any(a != b for place, (a, b) in enumerate(zip(data.shape, index.shape, strict=True)) if place != axis):
        raise Unread("an index that is smaller than what it changes")
    if given.ndim == data.ndim:
        given = given.through(lambda part: part[tuple(map(slice, index.shape))])
    every = unknown(np.bitwise_or(index.sources, given.sources))
    return unknown(data.sources | reduced(every, axis, keepdim=True).sources)


def one_hot(tensor: Array, num_classes: Any = -1) -> Array:
    """As `torch.nn.functional.one_hot`."""
    (count,) = ints((num_classes,))
    if count < 1:
        raise Unread("a number of classes that depends on data")
    shape = (*tensor.shape, count)
    bounded(shape)
    if not np.isnan(tensor.values).any():
        return constant(tensor.values[..., None] == np.arange(count))
    return unknown(np.broadcast_to(tensor.sources[..., None], shape))


def doubled(data: Array) -> Array:
    """As `torch.view_as_real`: the parts of complex numbers."""
    return stack((data, data), -1)


def same(data: Any, *_: Any, **__: Any) -> Any:
    """A call that changes neither places nor sources."""
    return data


CALLS: dict[str, Callable[..., Any]] = {
    "zeros": _filled(0.0), "ones": _filled(1.0), "empty": _filled(0.0), "zeros_like": _like(0.0),
    "ones_like": _like(1.0), "empty_like": _like(0.0), "new_zeros": _new(0.0), "new_ones": _new(1.0),
    "full": full, "full_like": full_like, "new_full": lambda data, size, fill_value: full(size, fill_value),
    "arange": arange, "linspace": linspace, "eye": eye, "tensor": tensor, "as_tensor": tensor, "view": view,
    "reshape": view, "flatten": flatten, "ravel": flatten, "unflatten": unflatten, "squeeze": squeeze,
    "unsqueeze": unsqueeze, "transpose": transpose, "swapaxes": transpose, "swapdims": transpose, "permute": permute,
    "movedim": movedim, "moveaxis": movedim, "t": turned, "expand": expand, "broadcast_to": expand,
    "expand_as": expand_as, "repeat": repeat, "tile": repeat, "repeat_interleave": repeat_interleave, "flip": flip,
    "fliplr": lambda data: flip(data, 1), "flipud": lambda data: flip(data, 0), "roll": roll, "narrow": narrow,
    "select": select, "unbind": unbind, "split": split, "chunk": chunk, "unfold": unfold, "cat": cat, "concat": cat,
    "concatenate": cat, "stack": stack, "pad": pad, "tril": tril, "triu": triu, "diagonal": diagonal, "diag": diag,
    "meshgrid": meshgrid, "gather": gather, "index_select": index_select,
    "take_along_dim": lambda data, indices, dim: gather(data, dim, indices),
    "scatter": scatter, "scatter_add": scatter, "one_hot": one_hot, "view_as_real": doubled,
    **dict.fromkeys(
        ("to", "float", "double", "clone", "contiguous", "detach", "type", "type_as", "cpu", "requires_grad_",
         "item", "dropout", "identity", "real", "imag", "conj", "half"),
        same,
    ),
}  # fmt: skip
"""The calls by their names."""
