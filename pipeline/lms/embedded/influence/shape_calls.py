"""What calls of PyTorch that make tensors, or move their elements, do to arrays of sources.

Arguments are named as PyTorch names them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.lms.embedded.influence.arrays import Array, Unread, as_array, bounded, constant, joined_by, like, where
from pipeline.lms.embedded.influence.reductions import axes_of


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
    dim = tuple(dim) if isinstance(dim, list) else dim
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


def repeat_interleave(data: Array, repeats: Any, dim: Any = None, **_: Any) -> Array:
    """As `torch.repeat_interleave`."""
    given = as_array(repeats)
    count: Any = int(given.known()) if not given.ndim else given.known().astype(np.int64)
    bounded([*data.shape, int(np.max(count, initial=1))])
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


def tensor_split(data: Array, indices_or_sections: Any, dim: int = 0) -> tuple[Array, ...]:
    """As `torch.tensor_split`."""
    size, parts = data.shape[axis_of(dim, data.ndim)], indices_or_sections
    if isinstance(parts, int):
        bounded((parts,))
        lengths = [size // parts + (place < size % parts) for place in range(parts)]
    else:
        ends = [0, *(min(one, size) for one in ints((parts,))), size]
        lengths = [max(0, last - first) for first, last in pairwise(ends)]
    return split(data, lengths, dim)


def broadcast_tensors(*tensors: Any) -> tuple[Array, ...]:
    """As `torch.broadcast_tensors`."""
    parts = [as_array(one) for one in tensors]
    shape = np.broadcast_shapes(*(part.shape for part in parts))
    return tuple(expand(part, *shape) for part in parts)


def channel_shuffle(data: Array, groups: Any) -> Array:
    """As `torch.nn.functional.channel_shuffle`."""
    apart = data.through(lambda part: part.reshape(part.shape[0], groups, -1, *part.shape[2:]).swapaxes(1, 2))
    return apart.through(lambda part: part.reshape(data.shape))


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
                given = bool(value) if data.truth else value or 0.0
                edge = constant(np.full((*data.shape[:axis], count, *data.shape[axis + 1 :]), given))
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
    result = Array(np.where(kept, data.sources, nothing), np.where(kept, data.values, 0.0), data.truth)
    return like(result, data)


def diagonal(data: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """As `torch.diagonal`."""
    return data.through(lambda part: np.diagonal(part, offset, dim1, dim2))


def diag(data: Array, diagonal: int = 0) -> Array:
    """As `torch.diag`."""
    return diag_embed(data, diagonal) if data.ndim == 1 else data.through(lambda part: np.diagonal(part, diagonal))


def rot90(data: Array, k: int = 1, dims: Any = (0, 1)) -> Array:
    """As `torch.rot90`."""
    return data.through(lambda part: np.rot90(part, k, tuple(dims)))


def as_strided(data: Array, size: Any, stride: Any, storage_offset: Any = 0) -> Array:
    """As `torch.as_strided` of a tensor whose elements are in a row."""
    sizes, steps = ints((size,)), ints((stride,))
    bounded(sizes)
    places = np.full((), int(storage_offset or 0))
    for count, step in zip(sizes, steps, strict=True):
        places = places[..., None] + np.arange(count) * step
    return data.through(lambda part: part.reshape(-1)[places])


def diag_embed(data: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    """As `torch.diag_embed`."""
    count = data.shape[-1] + abs(offset)
    bounded((*data.shape, count))
    places = np.arange(data.shape[-1])

    def spread(part: NDArray[Any]) -> NDArray[Any]:
        whole = np.zeros((*part.shape[:-1], count, count), part.dtype)
        whole[..., places + max(0, -offset), places + max(0, offset)] = part
        return np.moveaxis(whole, (-2, -1), (dim1, dim2))

    result = data.through(spread)
    return like(result, result)


def fill_diagonal(data: Array, fill_value: Any, *_: Any) -> Array:
    """As `Tensor.fill_diagonal_`."""
    one = np.zeros(data.shape, bool)
    np.fill_diagonal(one, val=True)
    return where(constant(one), fill_value, data)


def _beside(axis: int, least: int) -> Callable[..., Array]:
    """As `torch.hstack`, `vstack` and `dstack`."""

    def join(tensors: Any, **_: Any) -> Array:
        parts = [as_array(one) for one in tensors]
        if least == 3:
            parts = [one.through(np.atleast_3d) for one in parts]
        elif least == 2:
            parts = [one.through(np.atleast_2d) for one in parts]
        return cat(parts, 0 if parts[0].ndim < 2 else axis)

    return join


def column_stack(tensors: Any) -> Array:
    """As `torch.column_stack`."""
    parts = [as_array(one) for one in tensors]
    return cat([one.through(lambda part: part[:, None]) if one.ndim == 1 else one for one in parts], 1)


def doubled(data: Array) -> Array:
    """As `torch.view_as_real`: the parts of complex numbers."""
    return stack((data, data), -1)


def same(data: Any, *_: Any, **__: Any) -> Any:
    """A call that changes neither places nor sources."""
    return data


CALLS: dict[str, Callable[..., Any]] = {
    "view": view,
    "reshape": view, "flatten": flatten, "ravel": flatten, "unflatten": unflatten, "squeeze": squeeze,
    "unsqueeze": unsqueeze, "transpose": transpose, "swapaxes": transpose, "swapdims": transpose, "permute": permute,
    "movedim": movedim, "moveaxis": movedim, "t": turned, "expand": expand, "broadcast_to": expand,
    "expand_as": expand_as, "repeat": repeat, "tile": repeat, "repeat_interleave": repeat_interleave, "flip": flip,
    "fliplr": lambda data: flip(data, 1), "flipud": lambda data: flip(data, 0), "roll": roll, "narrow": narrow,
    "select": select, "unbind": unbind, "split": split, "chunk": chunk, "unfold": unfold, "cat": cat, "concat": cat,
    "concatenate": cat, "stack": stack, "pad": pad, "tril": tril, "triu": triu, "diagonal": diagonal, "diag": diag,
    "view_as_real": doubled, "rot90": rot90, "fill_diagonal": fill_diagonal, "as_strided": as_strided,
    "diag_embed": diag_embed,
    "diagflat": lambda data, offset=0: diag_embed(flatten(data), offset), "hstack": _beside(1, 1),
    "vstack": _beside(0, 2), "row_stack": _beside(0, 2), "dstack": _beside(2, 3), "column_stack": column_stack,
    "tensor_split": tensor_split,
    "hsplit": lambda data, parts: tensor_split(data, parts, 0 if data.ndim < 2 else 1),
    "vsplit": lambda data, parts: tensor_split(data, parts, 0), "broadcast_tensors": broadcast_tensors,
    "atleast_1d": lambda data: data.through(np.atleast_1d),
    "atleast_2d": lambda data: data.through(np.atleast_2d), "expand_dims": unsqueeze,
    "channel_shuffle": channel_shuffle,
    **dict.fromkeys(
        ("clone", "contiguous", "detach", "cpu", "cuda", "requires_grad_", "item", "dropout", "identity", "conj",
         "resolve_conj", "resolve_neg", "conj_physical", "positive", "numpy", "alpha_dropout", "pin_memory"),
        same,
    ),
}  # fmt: skip
"""The calls by their names."""
