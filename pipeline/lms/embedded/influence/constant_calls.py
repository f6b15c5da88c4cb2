"""What calls of PyTorch that make tensors of constants give.

Arguments are named as PyTorch names them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pipeline.lms.embedded.influence.arrays import Array, as_array, bounded, constant
from pipeline.lms.embedded.influence.shape_calls import ints


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
    ends = [float(as_array(one).known()) for one in (start, end)]
    return constant(np.linspace(ends[0], ends[1], count))


def eye(n: Any, m: Any = None, **_: Any) -> Array:
    """As `torch.eye`."""
    rows, columns = ints((n, n if m is None else m))
    bounded((rows, columns))
    return constant(np.eye(rows, columns))


def tensor(data: Any, **_: Any) -> Array:
    """As `torch.tensor`."""
    return as_array(data)


def window(shape: Callable[[int], Any]) -> Callable[..., Array]:
    """A window such as `torch.hann_window`, which is periodic unless it is said to be symmetric."""

    def make(window_length: Any, periodic: bool = True, *_: Any, **__: Any) -> Array:
        (count,) = ints((window_length,))
        bounded((count,))
        return constant(shape(count + 1)[:-1] if periodic and count > 1 else shape(count))

    return make


def logspace(start: Any, end: Any, steps: Any, base: Any = 10.0, **_: Any) -> Array:
    """As `torch.logspace`."""
    return constant(float(base) ** linspace(start, end, steps).values)


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


CALLS: dict[str, Callable[..., Any]] = {
    "zeros": _filled(0.0), "ones": _filled(1.0), "empty": _filled(0.0), "zeros_like": _like(0.0),
    "ones_like": _like(1.0), "empty_like": _like(0.0), "new_zeros": _new(0.0), "new_ones": _new(1.0),
    "new_empty": _new(0.0), "zero": _like(0.0), "full": full, "full_like": full_like, "fill": full_like,
    "new_full": lambda data, size, fill_value, **_: full(size, fill_value), "arange": arange, "linspace": linspace,
    "logspace": logspace, "eye": eye,
    **dict.fromkeys(("tensor", "as_tensor", "scalar_tensor", "asarray", "array", "from_numpy", "Tensor", "FloatTensor",
                     "LongTensor", "BoolTensor", "IntTensor"), tensor),
    "new_tensor": lambda data, values, **_: tensor(values), "meshgrid": meshgrid,
    "hann_window": window(np.hanning), "hamming_window": window(np.hamming), "bartlett_window": window(np.bartlett),
    "blackman_window": window(np.blackman),
}  # fmt: skip
"""The calls by their names."""
