"""What calls of PyTorch that compute element by element, or along dims, do to arrays of sources.

Arguments are named as PyTorch names them; those that change no dependence are ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pipeline.lms.embedded.influence.arrays import (
    Array,
    Unread,
    accumulated,
    as_array,
    both,
    either,
    larger,
    minus,
    over,
    plus,
    pointwise,
    reduced,
    shared,
    smaller,
    times,
    unknown,
    where,
)
from pipeline.lms.embedded.influence.shape_calls import axis_of, ints

# --- element by element ---


def _unary(compute: Callable[..., Any]) -> Callable[..., Array]:
    return lambda data, *_, **__: pointwise(compute, data)


def _binary(compute: Callable[..., Any]) -> Callable[..., Array]:
    return lambda data, other, **_: pointwise(compute, data, other)


def _lost(*values: Any) -> Any:
    """The value of a constant that is not computed."""
    return np.full(np.broadcast_shapes(*(np.shape(value) for value in values)), np.nan)


def mixed(*operands: Any, **_: Any) -> Array:
    """A call of which only the operands are known, element by element."""
    return pointwise(_lost, *(operand for operand in operands if isinstance(operand, Array)))


def add(data: Any, other: Any, alpha: Any = 1) -> Array:
    """As `torch.add`."""
    return plus(data, other if alpha == 1 else times(other, alpha))


def sub(data: Any, other: Any, alpha: Any = 1) -> Array:
    """As `torch.sub`."""
    return minus(data, other if alpha == 1 else times(other, alpha))


def power(data: Any, exponent: Any) -> Array:
    """As `torch.pow`."""
    result = pointwise(np.power, data, exponent)
    return where(as_array(exponent).values == 0, 1.0, result) if not isinstance(exponent, int | float) else result


def div(data: Any, other: Any, rounding_mode: Any = None) -> Array:
    """As `torch.div`."""
    result = over(data, other)
    return result if rounding_mode is None else pointwise(np.floor, result)


def clamp(data: Array, *limits: Any, **named: Any) -> Array:
    """As `torch.clamp`."""
    least, most, *_ = (*limits, None, None)
    least, most = named.get("min", least), named.get("max", most)
    result = data if least is None else pointwise(np.maximum, data, least)
    return result if most is None else pointwise(np.minimum, result, most)


def masked_fill(data: Array, mask: Any, value: Any) -> Array:
    """As `torch.masked_fill`."""
    return where(mask, value, data)


def lerp(data: Any, end: Any, weight: Any) -> Array:
    """As `torch.lerp`."""
    return plus(data, times(weight, minus(end, data)))


def opposite(data: Any) -> Array:
    """As `torch.logical_not`."""
    return pointwise(lambda value: value == 0, data)


# --- along dims ---


def _reduction(compute: Callable[..., Any], idle: float) -> Callable[..., Any]:
    def reduce(data: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Array:
        return reduced(as_array(data), dim, keepdim, compute, idle)

    return reduce


def _spread(data: Array, dim: Any = None, unbiased: Any = None, keepdim: bool = False, **_: Any) -> Array:
    """As `torch.var` and `torch.std`."""
    if isinstance(dim, bool):
        dim = None
    return reduced(data, dim, keepdim)


def norm(data: Array, p: Any = 2, dim: Any = None, keepdim: bool = False, **_: Any) -> Array:
    """As `torch.norm`."""
    return reduced(data, dim, keepdim)


def logsumexp(data: Array, dim: Any, keepdim: bool = False) -> Array:
    """As `torch.logsumexp`: a negative infinity leaves no trace."""
    return reduced(data, dim, keepdim)


def _largest(compute: Any, idle: float, pick: Callable[..., Array]) -> Callable[..., Any]:
    def largest(data: Any, dim: Any = None, keepdim: bool = False, other: Any = None) -> Any:
        if isinstance(dim, Array) or other is not None:
            return pick(data, dim if other is None else other)
        result = reduced(as_array(data), dim, keepdim, compute, idle)
        return result if dim is None else (result, unknown(result.sources))

    return largest


def index_of(data: Array, dim: Any = None, keepdim: bool = False, **_: Any) -> Array:
    """As `torch.argmax`."""
    return reduced(data, dim, keepdim)


def _running(compute: Any) -> Callable[..., Array]:
    return lambda data, dim, **_: accumulated(as_array(data), dim, compute)


def running_pair(data: Array, dim: int) -> tuple[Array, Array]:
    """As `torch.cummax`."""
    result = accumulated(data, dim)
    return result, result


def sort(data: Array, dim: int = -1, *_: Any, stable: bool = False, descending: bool = False) -> tuple[Array, Array]:
    """As `torch.sort`."""
    result = unknown(np.broadcast_to(reduced(data, dim, keepdim=True).sources, data.shape))
    return result, result


def argsort(data: Array, dim: int = -1, **_: Any) -> Array:
    """As `torch.argsort`."""
    return sort(data, dim)[1]


def topk(data: Array, k: Any, dim: int = -1, *_: Any, **__: Any) -> tuple[Array, Array]:
    """As `torch.topk`."""
    axis, (count,) = axis_of(dim, data.ndim), ints((k,))
    if not 0 <= count <= data.shape[axis]:
        raise Unread("more elements than there are")
    every = reduced(data, axis, keepdim=True).sources
    result = unknown(np.repeat(every, count, axis))
    return result, result


def kthvalue(data: Array, k: Any, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """As `torch.kthvalue`."""
    result = reduced(data, dim, keepdim)
    return result, result


def softmax(data: Array, dim: Any = -1, **_: Any) -> Array:
    """As `torch.softmax`."""
    return shared(data, dim)


def log_softmax(data: Array, dim: Any = -1, **_: Any) -> Array:
    """As `torch.log_softmax`."""
    return unknown(np.broadcast_to(reduced(data, dim, keepdim=True).sources, data.shape) | data.sources)


def bucketize(data: Array, boundaries: Any, **_: Any) -> Array:
    """As `torch.bucketize`."""
    return mixed(as_array(data), reduced(as_array(boundaries)))


_UNARY: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "abs": np.abs, "absolute": np.abs, "neg": np.negative,
    "negative": np.negative, "square": np.square, "tanh": np.tanh, "floor": np.floor, "ceil": np.ceil,
    "round": np.round, "trunc": np.trunc, "sign": np.sign, "log1p": np.log1p,
    "expm1": np.expm1, "log2": np.log2, "log10": np.log10, "exp2": np.exp2, "reciprocal": np.reciprocal,
    "sigmoid": lambda value: 1 / (1 + np.exp(-value)), "relu": lambda value: np.maximum(value, 0),
    "rsqrt": lambda value: 1 / np.sqrt(value), "long": np.trunc, "int": np.trunc, "bool": lambda value: value != 0,
}  # fmt: skip
_POINTWISE = """
    silu swish gelu softplus erf erfc erfinv mish elu selu celu leaky_relu hardtanh hardsigmoid hardswish logsigmoid
    softsign tanhshrink hardshrink softshrink threshold sinh cosh tan asin acos atan asinh acosh atanh logit expit frac
    relu6 sin cos nan_to_num isnan isfinite isinf lgamma digamma angle prelu polar complex atan2 hypot logaddexp
    logaddexp2 addcmul addcdiv xlogy copysign heaviside isclose entr
    """.split()  # noqa: SIM905 (a list of so many strings would be harder to read)
_COMPARED = {
    "eq": np.equal, "ne": np.not_equal, "not_equal": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "less": np.less, "greater": np.greater, "less_equal": np.less_equal,
    "greater_equal": np.greater_equal, "remainder": np.mod, "fmod": np.fmod, "floor_divide": np.floor_divide,
    "logical_xor": np.logical_xor, "bitwise_xor": np.logical_xor,
}  # fmt: skip
CALLS: dict[str, Callable[..., Any]] = {
    **{name: _unary(compute) for name, compute in _UNARY.items()},
    **{name: _binary(compute) for name, compute in _COMPARED.items()},
    **dict.fromkeys(_POINTWISE, mixed),
    **dict.fromkeys(("var", "std"), _spread),
    **dict.fromkeys(("norm", "vector_norm"), norm),
    **dict.fromkeys(("argmax", "argmin", "nansum", "count_nonzero"), index_of),
    "add": add, "sub": sub, "subtract": sub, "mul": times, "multiply": times, "div": div, "divide": div,
    "true_divide": div, "pow": power, "float_power": power, "maximum": larger, "minimum": smaller, "fmax": larger,
    "fmin": smaller, "logical_and": both, "logical_or": either, "bitwise_and": both, "bitwise_or": either,
    "logical_not": opposite, "bitwise_not": opposite, "where": where, "masked_fill": masked_fill, "clamp": clamp,
    "clip": clamp, "clamp_min": clamp, "clamp_max": lambda data, most: clamp(data, None, most), "lerp": lerp,
    "sum": _reduction(np.sum, 0.0), "mean": _reduction(np.mean, 0.0), "prod": _reduction(np.prod, 1.0),
    "amax": _reduction(np.max, -np.inf), "amin": _reduction(np.min, np.inf), "any": _reduction(np.any, 0.0),
    "all": _reduction(np.all, 1.0), "logsumexp": logsumexp, "max": _largest(np.max, -np.inf, larger),
    "min": _largest(np.min, np.inf, smaller), "median": _largest(None, 0.0, larger), "cumsum": _running(np.cumsum),
    "cumprod": _running(np.cumprod), "logcumsumexp": _running(None), "cummax": running_pair, "cummin": running_pair,
    "sort": sort, "argsort": argsort, "topk": topk, "kthvalue": kthvalue, "softmax": softmax, "softmin": softmax,
    "log_softmax": log_softmax, "bucketize": bucketize,
}  # fmt: skip
"""The calls by their names."""
