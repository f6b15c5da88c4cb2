"""What PyTorch's convolutions, pools, windows, resamplings and paddings do to arrays of sources.

Arguments are named as PyTorch names them; those that change no dependence are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.lms.embedded.influence import shape_calls
from pipeline.lms.embedded.influence.algebra_calls import everything
from pipeline.lms.embedded.influence.arrays import (
    Array,
    Unread,
    as_array,
    bounded,
    constant,
    joined_by,
    like,
    plus,
    times,
    unknown,
)
from pipeline.lms.embedded.influence.indexing import replaced
from pipeline.lms.embedded.influence.reductions import contracted, reduced
from pipeline.lms.embedded.influence.shape_calls import axis_of, ints


def channels(data: Array, factor: Any) -> Any:
    """A factor for each channel, so that it can be multiplied."""
    return None if factor is None else as_array(factor).through(lambda part: part.reshape(-1, *[1] * (data.ndim - 2)))


def _windows(data: Array, kernel: list[int], stride: list[int], dilation: list[int]) -> Array:
    """The elements under each place of a kernel: the kernel's dims last."""
    first = data.ndim - len(kernel)
    for place, (size, step, gap) in enumerate(zip(kernel, stride, dilation, strict=True)):
        data = shape_calls.unfold(data, first + place, (size - 1) * gap + 1, step)
        data = data.through(lambda part: part[..., ::gap])  # noqa: B023 (called at once)
    return data


def _each(setting: Any, count: int) -> list[int]:
    values = [setting] if isinstance(setting, int) else ints((setting,))
    return values * count if len(values) == 1 else values


def _batched(layer: Callable[..., Array], spatial: int) -> Callable[..., Any]:
    """A layer that also takes a tensor without a batch."""

    def apply(data: Array, *args: Any, **named: Any) -> Any:
        if data.ndim != spatial + 1:
            return layer(spatial, data, *args, **named)
        return layer(spatial, data.through(lambda part: part[None]), *args, **named).through(lambda part: part[0])

    return apply


# --- convolutions ---


def _convolution(
    spatial: int, data: Array, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
    groups: Any = 1,
) -> Array:  # fmt: skip
    """As `torch.nn.functional.conv1d`, `conv2d` and `conv3d`."""
    kernel = as_array(weight)
    sizes, gaps = list(kernel.shape[2:]), _each(dilation, spatial)
    if data.ndim != kernel.ndim or kernel.ndim != spatial + 2:
        raise Unread("a convolution of other dims")
    if isinstance(padding, str):
        widths = [(size - 1) * gap if padding == "same" else 0 for size, gap in zip(sizes, gaps, strict=True)]
        edges = [width for one in reversed(widths) for width in (one // 2, one - one // 2)]
    else:
        edges = [width for one in reversed(_each(padding, spatial)) for width in (one, one)]
    windows = _windows(shape_calls.pad(data, edges), sizes, _each(stride, spatial), gaps)
    (count,) = ints((groups,))
    batch, width, *places = windows.shape[: 2 + spatial]
    windows = windows.through(lambda part: part.reshape(batch, count, width // count, *places, *sizes))
    filters = kernel.through(lambda part: part.reshape(count, -1, *part.shape[1:]))
    at, under = "xyz"[:spatial], "uvw"[:spatial]
    result = contracted(f"bgc{at}{under},goc{under}->bgo{at}", windows, filters)
    result = result.through(lambda part: part.reshape(batch, -1, *places))
    return result if bias is None else plus(result, channels(result, bias))


def _transposed_convolution(
    spatial: int, data: Array, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0,
    output_padding: Any = 0, groups: Any = 1, dilation: Any = 1,
) -> Array:  # fmt: skip
    """As `torch.nn.functional.conv_transpose1d` to `3d`: a convolution of elements that are moved apart."""
    kernel = as_array(weight)
    (count,) = ints((groups,))
    steps, gaps = _each(stride, spatial), _each(dilation, spatial)
    sizes = [(size - 1) * step + 1 for size, step in zip(data.shape[2:], steps, strict=True)]
    apart = (slice(None), slice(None), *(slice(None, None, step) for step in steps))
    data = replaced(constant(np.zeros((*data.shape[:2], *sizes))), apart, data)
    edges: list[int] = []
    settings = zip(kernel.shape[2:], gaps, _each(padding, spatial), _each(output_padding, spatial), strict=True)
    for size, gap, width, more in settings:
        edges = [(size - 1) * gap - width, (size - 1) * gap - width + more, *edges]
    data = shape_calls.pad(data, edges)
    rows, columns, *under = kernel.shape
    turned = kernel.through(lambda part: np.flip(part, tuple(range(2, part.ndim))))
    turned = turned.through(lambda part: part.reshape(count, rows // count, columns, *under).swapaxes(1, 2))
    turned = turned.through(lambda part: part.reshape(count * columns, rows // count, *under))
    return _convolution(spatial, data, turned, bias, dilation=gaps, groups=count)


# --- pools and windows ---


def _pool(spatial: int, compute: Any, data: Array, kernel_size: Any, stride: Any = None, padding: Any = 0, *more: Any,
          dilation: Any = 1, ceil_mode: bool = False, **_: Any) -> Array:  # fmt: skip
    if ceil_mode or (any(more) and more != (1,)):
        raise Unread("the settings of a pool")
    kernel = _each(kernel_size, spatial)
    steps = kernel if stride is None or stride == [] else _each(stride, spatial)
    edges = [width for one in reversed(_each(padding, spatial)) for width in (one, one)]
    windows = _windows(shape_calls.pad(data, edges), kernel, steps, _each(dilation, spatial))
    axes = tuple(range(-spatial, 0))
    result = reduced(windows, axes)
    return result if compute is None or any(edges) else like(result, reduced(windows, axes, compute=compute))


def _pooled(compute: Any, spatial: int, *args: Any, **named: Any) -> Array:
    return _pool(spatial, compute, *args, **named)


def _lp_pool(spatial: int, data: Array, norm_type: Any, *args: Any, **named: Any) -> Array:
    return _pool(spatial, None, data, *args, **named)


def _adaptive(spatial: int, data: Array, output_size: Any, *_: Any, **__: Any) -> Array:
    """As `torch.nn.functional.adaptive_avg_pool1d` to `3d`."""
    wanted = [output_size] * spatial if output_size is None or isinstance(output_size, int) else list(output_size)
    wanted = wanted * spatial if len(wanted) == 1 else wanted
    for axis, own in enumerate(wanted, data.ndim - spatial):
        size = data.shape[axis]
        count = size if own is None else own
        bounded((*data.shape[:axis], count))
        taken = [(place * size // count, -(-(place + 1) * size // count)) for place in range(count)]
        data = _gathered(data, axis, [list(range(*ends)) for ends in taken])
    return data


def _gathered(data: Array, axis: int, taken: Sequence[Sequence[int]]) -> Array:
    """Elements along a dim, each of which depends on some of those that were there."""
    parts = [reduced(data.through(lambda part: np.take(part, places, axis)), axis) for places in taken]  # noqa: B023
    return joined_by(np.stack, [unknown(part.sources) for part in parts], axis)


def _blocks(data: Array, kernel: Any, dilation: Any, padding: Any, stride: Any) -> Array:
    edges = [width for one in reversed(_each(padding, 2)) for width in (one, one)]
    sizes = _each(kernel, 2)
    windows = _windows(shape_calls.pad(data, edges), sizes, _each(stride, 2), _each(dilation, 2))
    batch, count = windows.shape[:2]
    windows = windows.through(lambda part: part.transpose(0, 1, 4, 5, 2, 3))
    return windows.through(lambda part: part.reshape(batch, count * sizes[0] * sizes[1], -1))


def _unfold(spatial: int, data: Array, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Array:
    """As `torch.nn.functional.unfold`."""
    return _blocks(data, kernel_size, dilation, padding, stride)


def unfold(data: Array, *args: Any, **named: Any) -> Array:
    """As `Tensor.unfold`, or `torch.nn.functional.unfold` where no dim is given."""
    if len(args) == 3 or "dimension" in named:
        return shape_calls.unfold(data, *args, **named)
    unbatched: Array = _batched(_unfold, 2)(data, *args, **named)
    return unbatched


def fold(
    data: Array, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Array:
    """As `torch.nn.functional.fold`: blocks are added where `unfold` takes them."""
    if data.ndim == 2:
        whole = fold(data.through(lambda part: part[None]), output_size, kernel_size, dilation, padding, stride)
        return whole.through(lambda part: part[0])
    kernel, (height, width), (above, left) = _each(kernel_size, 2), _each(output_size, 2), _each(padding, 2)
    batch, count = data.shape[0], data.shape[1] // (kernel[0] * kernel[1])
    shape = (batch, count, height + 2 * above, width + 2 * left)
    bounded(shape)
    numbers = constant(np.arange(int(np.prod(shape))).reshape(shape))
    places = _blocks(numbers, kernel, dilation, 0, stride)
    flat = replaced(constant(np.zeros(int(np.prod(shape)))), places, data, added=True)
    return flat.through(lambda part: part.reshape(shape)[:, :, above : above + height, left : left + width])


# --- paddings ---


def pad(data: Array, pad: Any, mode: str = "constant", value: Any = 0.0) -> Array:
    """As `torch.nn.functional.pad`."""
    if mode == "constant":
        return shape_calls.pad(data, pad, mode, value)
    ways = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    widths = ints((pad,))
    for place in range(len(widths) // 2):
        axis = data.ndim - 1 - place
        before, after = widths[2 * place : 2 * place + 2]
        bounded((*data.shape, 1 + abs(before) + abs(after)))
        places = np.arange(data.shape[axis])
        places = places[max(0, -before) : len(places) - max(0, -after)]
        places = np.pad(places, (max(0, before), max(0, after)), ways[mode])  # type: ignore[call-overload]
        data = data.through(lambda part: np.take(part, places, axis))  # noqa: B023
    return data


# --- resampling ---


def interpolate(
    data: Array, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Any = None, **_: Any
) -> Array:
    """As `torch.nn.functional.interpolate`."""
    spatial = data.ndim - 2
    if size is None:
        factors = scale_factor if isinstance(scale_factor, list | tuple) else [scale_factor] * spatial
        wanted = [int(one * factor) for one, factor in zip(data.shape[2:], factors, strict=True)]
    else:
        wanted = _each(size, spatial)
    if mode == "area":
        return _adaptive(spatial, data, wanted)
    bounded((*data.shape[:2], *wanted))
    for axis, count in enumerate(wanted, 2):
        data = _gathered(data, axis, _neighbours(data.shape[axis], count, mode, bool(align_corners)))
    return data


def _neighbours(size: int, count: int, mode: str, corners: bool) -> list[list[int]]:
    """The places that each resampled element is interpolated from."""
    places = np.arange(count)
    if mode == "nearest":
        return [[min(int(place * size / count), size - 1)] for place in places]
    centers: NDArray[np.float64] = (places + 0.5) * size / count - 0.5
    if mode == "nearest-exact":
        return [[int(np.clip(np.floor(center + 0.5), 0, size - 1))] for center in centers]
    if corners:
        centers = places * (size - 1) / max(count - 1, 1)
    reach = (-1, 0, 1, 2) if mode == "bicubic" else (0, 1)
    if mode != "bicubic":
        centers = np.clip(centers, 0, size - 1)
    found = [[int(np.floor(center)) + one for one in (reach if center % 1 else (0,))] for center in centers]
    return [sorted({min(max(one, 0), size - 1) for one in each}) for each in found]


def grid_sample(data: Array, grid: Array, *_: Any, **__: Any) -> Array:
    """As `torch.nn.functional.grid_sample`: the grid may point to any place."""
    points = reduced(grid, -1).sources[:, None]
    every = reduced(data, tuple(range(2, data.ndim)), keepdim=True).sources
    return unknown(every | points)


def affine_grid(theta: Array, size: Any, *_: Any, **__: Any) -> Array:
    """As `torch.nn.functional.affine_grid`."""
    places = ints((size,))[2:]
    rows = reduced(theta, -1).sources
    wide = rows.reshape(len(rows), *[1] * len(places), rows.shape[1])
    return unknown(np.broadcast_to(wide, (len(rows), *places, rows.shape[1])))


def pixel_shuffle(data: Array, upscale_factor: Any) -> Array:
    """As `torch.nn.functional.pixel_shuffle`."""
    (by,) = ints((upscale_factor,))
    *outer, count, height, width = data.shape
    rank = len(outer)
    apart = data.through(lambda part: part.reshape(*outer, count // by**2, by, by, height, width))
    order = [*range(rank), rank, rank + 3, rank + 1, rank + 4, rank + 2]
    shape = (*outer, count // by**2, height * by, width * by)
    return apart.through(lambda part: part.transpose(order).reshape(shape))


def pixel_unshuffle(data: Array, downscale_factor: Any) -> Array:
    """As `torch.nn.functional.pixel_unshuffle`."""
    (by,) = ints((downscale_factor,))
    *outer, count, height, width = data.shape
    rank = len(outer)
    apart = data.through(lambda part: part.reshape(*outer, count, height // by, by, width // by, by))
    order = [*range(rank), rank, rank + 2, rank + 4, rank + 1, rank + 3]
    shape = (*outer, count * by**2, height // by, width // by)
    return apart.through(lambda part: part.transpose(order).reshape(shape))


# --- spectra ---


def stft(
    data: Array, n_fft: Any, hop_length: Any = None, win_length: Any = None, window: Any = None, center: bool = True,
    pad_mode: str = "reflect", *_: Any, **named: Any,
) -> Array:  # fmt: skip
    """As `torch.stft` of numbers that are not complex."""
    width = n_fft
    if center:
        data = pad(data, (width // 2, width // 2), pad_mode)
    frames = shape_calls.unfold(data, -1, width, width // 4 if hop_length is None else hop_length)
    if window is not None:
        frames = times(frames, _centred(as_array(window), width))
    count = width if named.get("onesided") is False else width // 2 + 1
    result = everything(frames, (count,), 1).through(lambda part: part.swapaxes(-1, -2))
    return result if named.get("return_complex", True) else shape_calls.doubled(result)


def _centred(window: Array, width: int) -> Array:
    before = (width - window.shape[0]) // 2
    return shape_calls.pad(window, (before, width - window.shape[0] - before))


def istft(
    data: Array, n_fft: Any, hop_length: Any = None, win_length: Any = None, window: Any = None, center: bool = True,
    *_: Any, length: Any = None, **__: Any,
) -> Array:  # fmt: skip
    """As `torch.istft`: frames are added where they overlap."""
    frames = everything(data.through(lambda part: part.swapaxes(-1, -2)), (n_fft,), 1)
    if window is not None:
        frames = times(frames, _centred(as_array(window), n_fft))
    step = n_fft // 4 if hop_length is None else hop_length
    places = np.arange(frames.shape[-2])[:, None] * step + np.arange(n_fft)
    whole = constant(np.zeros((*frames.shape[:-2], int(places.max()) + 1)))
    whole = replaced(whole, (Ellipsis, constant(places)), frames, added=True)
    first = n_fft // 2 if center else 0
    last = whole.shape[-1] - first if length is None else first + length
    axis = axis_of(-1, whole.ndim)
    return shape_calls.narrow(whole, axis, first, last - first)


CALLS: dict[str, Callable[..., Any]] = {
    **{f"conv{spatial}d": _batched(_convolution, spatial) for spatial in (1, 2, 3)},
    **{f"conv_transpose{spatial}d": _batched(_transposed_convolution, spatial) for spatial in (1, 2, 3)},
    **{f"{kind}_pool{spatial}d": _batched(partial(_pooled, compute), spatial)
       for spatial in (1, 2, 3) for kind, compute in (("max", np.max), ("avg", np.mean))},
    **{f"lp_pool{spatial}d": _batched(_lp_pool, spatial) for spatial in (1, 2, 3)},
    **{f"adaptive_{kind}_pool{spatial}d": _batched(_adaptive, spatial)
       for spatial in (1, 2, 3) for kind in ("max", "avg")},
    "unfold": unfold, "fold": fold, "pad": pad, "interpolate": interpolate, "upsample": interpolate,
    "grid_sample": grid_sample, "affine_grid": affine_grid, "pixel_shuffle": pixel_shuffle,
    "pixel_unshuffle": pixel_unshuffle, "stft": stft, "istft": istft,
}  # fmt: skip
"""The calls by their names."""
