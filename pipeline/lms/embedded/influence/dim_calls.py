"""What calls of PyTorch that compute along dims do to arrays of sources.

Arguments are named as PyTorch names them; those that change no dependence are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeline.lms.embedded.formulas.operations import ASCENDING, FIRST_PLACE, PLACE, VALUE
from pipeline.lms.embedded.influence.arrays import (
    Array,
    Unread,
    as_array,
    joined_by,
    larger,
    like,
    minus,
    over,
    pointwise,
    smaller,
    times,
    truths,
    unknown,
)
from pipeline.lms.embedded.influence.reductions import accumulated, along, axes_of, reduced, running, shared, total
from pipeline.lms.embedded.influence.shape_calls import axis_of, cat, chunk, ints, narrow
from pipeline.lms.embedded.influence.value_calls import mixed


def _reduction(compute: Callable[..., Any], idle: float) -> Callable[..., Any]:
    def reduce(data: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Array:
        return reduced(as_array(data), dim, keepdim, compute, idle)

    return reduce


def _decision(compute: Callable[..., Any], idle: float) -> Callable[..., Any]:
    reduce = _reduction(compute, idle)
    return lambda *args, **named: truths(reduce(*args, **named))


def _spread(data: Array, dim: Any = None, unbiased: Any = None, keepdim: bool = False, correction: Any = 1) -> Array:
    """As `torch.var` and `torch.std`."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    biased = unbiased is False or correction == 0
    return like(reduced(data, dim, keepdim), variance(data, dim, keepdim, biased=biased))


def _center(data: Array, dim: Any = None, unbiased: Any = None, keepdim: bool = False, **_: Any) -> Array:
    """The mean beside a variance."""
    return reduced(data, None if isinstance(dim, bool) else dim, keepdim, np.mean)


def _deviation(*args: Any, **named: Any) -> Array:
    """As `torch.std`."""
    result = _spread(*args, **named)
    return pointwise(np.sqrt, result)


def variance(data: Array, dim: Any, keepdim: bool, *, biased: bool) -> Array:
    """The mean of the squares of deviations from a mean."""
    gap = minus(data, reduced(data, dim, True, np.mean))
    squares = times(gap, gap)
    if biased:
        return reduced(squares, dim, keepdim, np.mean)
    found = reduced(squares, dim, keepdim, np.sum)
    count = data.values.size // max(1, found.values.size)
    return times(found, 1.0 / max(1, count - 1))


def norm(data: Array, p: Any = 2, dim: Any = None, keepdim: bool = False, **_: Any) -> Array:
    """As `torch.norm`."""
    result = reduced(data, dim, keepdim)
    if p == 1:
        return like(result, reduced(pointwise(np.abs, data), dim, keepdim, np.sum))
    if p in (2, 2.0, "fro", None):
        return like(result, pointwise(np.sqrt, reduced(times(data, data), dim, keepdim, np.sum)))
    return result


def logsumexp(data: Array, dim: Any, keepdim: bool = False) -> Array:
    """As `torch.logsumexp`: a negative infinity leaves no trace."""
    every = reduced(pointwise(np.exp, data), dim, keepdim, np.sum)
    return like(reduced(data, dim, keepdim), pointwise(np.log, every))


def _largest(compute: Any, idle: float, pick: Callable[..., Array]) -> Callable[..., Any]:
    def largest(data: Any, dim: Any = None, keepdim: bool = False, other: Any = None) -> Any:
        if isinstance(dim, Array) or other is not None:
            return pick(data, dim if other is None else other)
        result = reduced(as_array(data), dim, keepdim, compute, idle)
        axes = () if dim is None else axes_of(dim, as_array(data).ndim)
        if compute is None and dim is not None and as_array(data).formulas is not None:
            axis = axes[0]
            middle = _ordered(result, as_array(data), axis, [as_array(data).shape[axis] // 2])[0]
            middle = middle.through(lambda part: part if keepdim else part.squeeze(axis)) if middle.ndim else middle
            return like(result, middle), unknown(result.sources)
        place = FIRST_PLACE if compute is np.max else _LAST_PLACE
        return result if dim is None else (result, along(unknown(result.sources), place, as_array(data), axes))

    return largest


def index_of(data: Array, dim: Any = None, keepdim: bool = False, **_: Any) -> Array:
    """As `torch.argmax`."""
    return unknown(reduced(data, dim, keepdim).sources)


def _place(name: str) -> Callable[..., Array]:
    def place(data: Array, dim: Any = None, keepdim: bool = False, **_: Any) -> Array:
        return along(index_of(data, dim, keepdim), name, data, axes_of(dim, data.ndim))

    return place


def _running(compute: Any) -> Callable[..., Array]:
    return lambda data, dim, **_: accumulated(as_array(data), dim, compute)


def _running_pair(op: str) -> Callable[..., tuple[Array, Array]]:
    """As `torch.cummax`."""

    def pair(data: Array, dim: int) -> tuple[Array, Array]:
        result = accumulated(data, dim)
        return like(result, running(result, op, data, axis_of(dim, data.ndim))), result

    return pair


def logcumsumexp(data: Array, dim: int) -> Array:
    """As `torch.logcumsumexp`."""
    result = accumulated(data, dim)
    axis = axis_of(dim, data.ndim)
    return like(result, pointwise(np.log, running(result, "add", pointwise(np.exp, data), axis)))


def sort(data: Array, dim: int = -1, *_: Any, stable: bool = False, descending: bool = False) -> tuple[Array, Array]:
    """As `torch.sort`."""
    result = unknown(np.broadcast_to(reduced(data, dim, keepdim=True).sources, data.shape))
    count = data.shape[axis_of(dim, data.ndim)] if data.ndim else 1
    ranks = range(count) if descending else range(count)[::-1]
    return _ordered(result, data, dim, ranks, "" if descending else ASCENDING)


def _ordered(result: Array, data: Array, dim: int, ranks: Sequence[int], ties: str = "") -> tuple[Array, Array]:
    """Values along a dim by their ranks, the largest first, and their places."""
    if data.formulas is None or not data.ndim or not ranks:
        return result, result
    axis = axis_of(dim, data.ndim)
    single, last = unknown(result.sources.take(0, axis)), data.shape[axis] - 1
    names = [-1 if rank == last and rank else rank for rank in ranks]
    parts = [
        [along(single, f"{VALUE}{name}", data, (axis,)) for name in names],
        [along(single, f"{PLACE}{name}{ties}", data, (axis,)) for name in names],
    ]
    values, places = (like(result, joined_by(np.stack, part, axis)) for part in parts)
    return values, places


def argsort(data: Array, dim: int = -1, descending: bool = False, **_: Any) -> Array:
    """As `torch.argsort`."""
    return sort(data, dim, descending=descending)[1]


def topk(data: Array, k: Any, dim: int = -1, largest: bool = True, *_: Any, **__: Any) -> tuple[Array, Array]:
    """As `torch.topk`."""
    axis, (count,) = axis_of(dim, data.ndim), ints((k,))
    if not 0 <= count <= data.shape[axis]:
        raise Unread("more elements than there are")
    every = reduced(data, axis, keepdim=True).sources
    result = unknown(np.repeat(every, count, axis))
    size = data.shape[axis]
    ranks, ties = (range(count), "") if largest else (range(size - count, size)[::-1], ASCENDING)
    return _ordered(result, data, axis, ranks, ties) if count else (result, result)


def kthvalue(data: Array, k: Any, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """As `torch.kthvalue`."""
    result = reduced(data, dim, keepdim)
    axis, (count,) = axis_of(dim, data.ndim), ints((k,))
    if data.formulas is None or not data.ndim:
        return result, result
    found = _ordered(reduced(data, axis, True), data, axis, [data.shape[axis] - count], ASCENDING)
    value, place = (like(result, one.through(lambda part: part.reshape(result.shape))) for one in found)
    return value, place


def softmax(data: Array, dim: Any = -1, **_: Any) -> Array:
    """As `torch.softmax`."""
    each = pointwise(np.exp, data)
    return like(shared(data, dim), over(each, total(each, dim, keepdim=True)))


def log_softmax(data: Array, dim: Any = -1, **_: Any) -> Array:
    """As `torch.log_softmax`."""
    result = unknown(np.broadcast_to(reduced(data, dim, keepdim=True).sources, data.shape) | data.sources)
    return like(result, minus(data, logsumexp(data, dim, True)))


def equal(data: Any, other: Any, *_: Any, **__: Any) -> Array:
    """As `torch.equal`."""
    return truths(reduced(pointwise(np.equal, data, other), compute=np.all, idle=1.0))


def isin(elements: Any, test_elements: Any, **_: Any) -> Array:
    """As `torch.isin`."""
    values = as_array(test_elements)
    each = as_array(elements).through(lambda part: part[..., None])
    return truths(reduced(pointwise(np.equal, each, values.through(lambda part: part.reshape(-1))), -1, compute=np.any))


def glu(data: Array, dim: int = -1) -> Array:
    """As `torch.nn.functional.glu`."""
    one, other = chunk(data, 2, dim)
    return times(one, mixed(other, op="sigmoid"))


def diff(data: Array, n: Any = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Array:
    """As `torch.diff`."""
    whole = cat([as_array(part) for part in (prepend, data, append) if part is not None], dim)
    axis = axis_of(dim, whole.ndim)
    for _ in range(min(int(n), whole.shape[axis])):
        size = whole.shape[axis]
        whole = minus(narrow(whole, axis, 1, size - 1), narrow(whole, axis, 0, size - 1))
    return whole


def trapezoid(y: Array, x: Any = None, *, dx: Any = None, dim: int = -1) -> Array:
    """As `torch.trapezoid`."""
    gaps = as_array(1.0 if x is None else x)
    return reduced(y if x is None else mixed(y, gaps), dim)


def cumulative(y: Array, x: Any = None, *, dx: Any = None, dim: int = -1) -> Array:
    """As `torch.cumulative_trapezoid`."""
    whole = accumulated(y if x is None else mixed(y, as_array(x)), dim)
    axis = axis_of(dim, whole.ndim)
    return narrow(whole, axis, 1, whole.shape[axis] - 1)


def aminmax(data: Array, *, dim: Any = None, keepdim: bool = False) -> tuple[Array, Array]:
    """As `torch.aminmax`."""
    return reduced(data, dim, keepdim, np.min), reduced(data, dim, keepdim, np.max)


def quantile(data: Array, q: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Array:
    """As `torch.quantile`."""
    places = as_array(q)
    result = reduced(data, dim, keepdim)
    return unknown(result.sources | places.sources.reshape((*places.shape, *[1] * result.ndim)))


def kthvalue_pair(data: Array, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """As `torch.mode`."""
    return kthvalue(data, 1, dim, keepdim)


def renorm(data: Array, p: Any, dim: int, maxnorm: Any) -> Array:
    """As `torch.renorm`."""
    axis = axis_of(dim, data.ndim)
    return shared(data, tuple(one for one in range(data.ndim) if one != axis))


_LAST_PLACE = PLACE + "-1" + ASCENDING
CALLS: dict[str, Callable[..., Any]] = {
    "var": _spread, "std": _deviation, **dict.fromkeys(("norm", "vector_norm"), norm),
    "argmax": _place(FIRST_PLACE), "argmin": _place(_LAST_PLACE),
    **dict.fromkeys(("nansum", "nanmean", "nanmedian", "count_nonzero"), index_of), "isin": isin, "glu": glu,
    "diff": diff, "trapezoid": trapezoid, "trapz": trapezoid, "cumulative_trapezoid": cumulative,
    "var_mean": lambda data, *args, **named: (_spread(data, *args, **named), _center(data, *args, **named)),
    "std_mean": lambda data, *args, **named: (_deviation(data, *args, **named), _center(data, *args, **named)),
    "aminmax": aminmax, "quantile": quantile,
    "nanquantile": quantile, "gumbel_softmax": lambda data, *_, dim=-1, **__: softmax(data, dim),
    "mode": kthvalue_pair, "msort": lambda data: sort(data, 0)[0], "allclose": equal, "equal": equal,
    "renorm": renorm, "dist": lambda one, other, *_: reduced(mixed(as_array(one), as_array(other))),
    "sum": _reduction(np.sum, 0.0), "mean": _reduction(np.mean, 0.0), "prod": _reduction(np.prod, 1.0),
    "amax": _reduction(np.max, -np.inf), "amin": _reduction(np.min, np.inf), "any": _decision(np.any, 0.0),
    "all": _decision(np.all, 1.0), "logsumexp": logsumexp, "max": _largest(np.max, -np.inf, larger),
    "min": _largest(np.min, np.inf, smaller), "median": _largest(None, 0.0, larger), "cumsum": _running(np.cumsum),
    "cumprod": _running(np.cumprod), "logcumsumexp": logcumsumexp, "cummax": _running_pair("largest"),
    "cummin": _running_pair("smallest"), "sort": sort, "argsort": argsort, "topk": topk, "kthvalue": kthvalue,
    "softmax": softmax,
    "softmin": lambda data, dim=-1, **_: softmax(times(data, -1.0), dim), "log_softmax": log_softmax,
}  # fmt: skip
"""The calls by their names."""
