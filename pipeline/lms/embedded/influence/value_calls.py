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
    differing,
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
    truths,
    unknown,
    where,
)
from pipeline.lms.embedded.influence.choice_calls import nonzero
from pipeline.lms.embedded.influence.shape_calls import axis_of, cat, chunk, ints, narrow

# --- element by element ---


def _unary(compute: Callable[..., Any]) -> Callable[..., Array]:
    return lambda data, *_, **__: pointwise(compute, data)


def _binary(compute: Callable[..., Any]) -> Callable[..., Array]:
    return lambda data, other, **_: pointwise(compute, data, other)


def _test(compute: Callable[..., Any] | None) -> Callable[..., Array]:
    """A comparison or a test, which gives truth values."""
    return lambda *operands, **_: truths(pointwise(compute or _lost, *operands[:2]))


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
    if rounding_mode is None:
        return result
    return pointwise(np.trunc if rounding_mode == "trunc" else np.floor, result)


def clamp(data: Array, *limits: Any, **named: Any) -> Array:
    """As `torch.clamp`."""
    least, most, *_ = (*limits, None, None)
    least, most = named.get("min", least), named.get("max", most)
    result = data if least is None else pointwise(np.maximum, data, least)
    return result if most is None else pointwise(np.minimum, result, most)


def masked_fill(data: Array, mask: Any, value: Any = 0.0) -> Array:
    """As `torch.masked_fill`."""
    return where(mask, value, data)


def lerp(data: Any, end: Any, weight: Any) -> Array:
    """As `torch.lerp`."""
    return plus(data, times(weight, minus(end, data)))


def opposite(data: Any) -> Array:
    """As `torch.logical_not`."""
    return truths(pointwise(lambda value: value == 0, data))


def inverted(data: Array) -> Array:
    """As `torch.bitwise_not`."""
    return opposite(data) if data.truth else pointwise(lambda value: -value - 1, data)


def logical(combine: Callable[[Any, Any], Array]) -> Callable[..., Array]:
    """A combination of two values, of which it counts whether they are zero."""
    return lambda data, other, **_: combine(*(truths(pointwise(_is_true, one)) for one in (data, other)))


def _is_true(value: Any) -> Any:
    return value != 0


def nan_to_num(data: Any, nan: Any = 0.0, *_: Any, **__: Any) -> Array:
    """As `torch.nan_to_num`."""
    return pointwise(np.nan_to_num, data)


def addcmul(data: Any, one: Any, other: Any, *, value: Any = 1) -> Array:
    """As `torch.addcmul` and `addcdiv`."""
    return plus(data, mixed(as_array(one), as_array(other), as_array(value)))


def expanded(data: Any, like: Array) -> Array:
    """A value in the shape of a tensor."""
    return as_array(data).through(lambda part: np.broadcast_to(part, like.shape))


def chosen(condition: Any, one: Any = None, other: Any = None, **_: Any) -> Any:
    """As `torch.where`."""
    if one is None and other is None:
        return nonzero(condition, as_tuple=True)
    return where(condition, one, other)


# --- along dims ---


def _reduction(compute: Callable[..., Any], idle: float) -> Callable[..., Any]:
    def reduce(data: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Array:
        return reduced(as_array(data), dim, keepdim, compute, idle)

    return reduce


def _decision(compute: Callable[..., Any], idle: float) -> Callable[..., Any]:
    reduce = _reduction(compute, idle)
    return lambda *args, **named: truths(reduce(*args, **named))


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
    return unknown(reduced(data, dim, keepdim).sources)


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
    return times(*chunk(data, 2, dim))


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
    return (reduced(data, dim, keepdim),) * 2


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


_UNARY: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "abs": np.abs, "absolute": np.abs, "neg": np.negative,
    "negative": np.negative, "square": np.square, "tanh": np.tanh, "floor": np.floor, "ceil": np.ceil,
    "round": np.round, "trunc": np.trunc, "sign": np.sign, "log1p": np.log1p,
    "expm1": np.expm1, "log2": np.log2, "log10": np.log10, "exp2": np.exp2, "reciprocal": np.reciprocal,
    "sigmoid": lambda value: 1 / (1 + np.exp(-value)), "relu": lambda value: np.maximum(value, 0),
    "rsqrt": lambda value: 1 / np.sqrt(value), "fix": np.trunc, "sgn": np.sign,

   }  # fmt: skip
_POINTWISE = """
    silu swish gelu softplus erf erfc erfinv mish elu selu celu leaky_relu hardtanh hardsigmoid hardswish logsigmoid
    softsign tanhshrink hardshrink softshrink threshold sinh cosh tan asin acos atan asinh acosh atanh logit expit frac

       relu6 sin cos rad2deg deg2rad lgamma digamma angle prelu polar complex atan2 hypot logaddexp logaddexp2 xlogy
    xlog1py copysign heaviside
    entr
    arcsin arccos arctan arcsinh arccosh arctanh arctan2 sinc i0 i0e i1 i1e erfcx ndtr log_ndtr ndtri polygamma mvlgamma
    multigammaln gammaln gammainc gammaincc igamma igammac zeta nextafter ldexp frexp_mantissa rrelu gcd lcm bessel_j0
    bessel_j1 bessel_y0 bessel_y1 fake_quantize_per_tensor_affine fake_quantize_per_channel_affine real imag abs_complex
    psi feature_alpha_dropout log_expit quantize_per_tensor dequantize
    """.split()  # noqa: SIM905 (a list of so many strings would be harder to read)
_COMPARED: dict[str, Callable[..., Any]] = {
    "eq": np.equal, "ne": np.not_equal, "not_equal": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "less": np.less, "greater": np.greater, "less_equal": np.less_equal,
    "greater_equal": np.greater_equal, "logical_xor": np.logical_xor, "isclose": np.isclose,
}  # fmt: skip
_TESTED: dict[str, Callable[..., Any] | None] = {
    "isnan": None, "isfinite": np.isfinite, "isinf": np.isinf, "isposinf": np.isposinf, "isneginf": np.isneginf,
    "signbit": np.signbit, "isreal": None,
}  # fmt: skip
_COMPUTED: dict[str, Callable[..., Any]] = {
    "remainder": np.mod, "fmod": np.fmod, "floor_divide": np.floor_divide,
    "bitwise_left_shift": lambda value, by: value * 2.0**by, "bitwise_right_shift": lambda value, by: value // 2.0**by,
}  # fmt: skip
CALLS: dict[str, Callable[..., Any]] = {
    **{name: _unary(compute) for name, compute in _UNARY.items()},
    **{name: _test(compute) for name, compute in {**_COMPARED, **_TESTED}.items()},
    **{name: _binary(compute) for name, compute in _COMPUTED.items()},
    **dict.fromkeys(_POINTWISE, mixed),
    **dict.fromkeys(("var", "std"), _spread),
    **dict.fromkeys(("norm", "vector_norm"), norm),
    **dict.fromkeys(("argmax", "argmin", "nansum", "nanmean", "nanmedian", "count_nonzero"), index_of),
    "add": add, "sub": sub, "subtract": sub, "mul": times, "multiply": times, "div": div, "divide": div,
    "true_divide": div, "pow": power, "float_power": power, "maximum": larger, "minimum": smaller, "fmax": larger,
    "fmin": smaller, "logical_and": logical(both), "logical_or": logical(either), "bitwise_and": both,
    "bitwise_or": either,
    "logical_not": opposite, "bitwise_not": inverted, "bitwise_xor": differing, "isin": isin, "nan_to_num": nan_to_num,
    "addcmul": addcmul, "addcdiv": addcmul, "copy": lambda data, other, **_: expanded(other, data), "glu": glu,
    "swiglu": glu, "diff": diff, "trapezoid": trapezoid, "trapz": trapezoid, "cumulative_trapezoid": cumulative,
    "var_mean": lambda *args, **named: (_spread(*args, **named),) * 2,
    "std_mean": lambda *args, **named: (_spread(*args, **named),) * 2, "aminmax": aminmax, "quantile": quantile,
    "nanquantile": quantile, "gumbel_softmax": lambda data, *_, dim=-1, **__: softmax(data, dim), "mode": kthvalue_pair,
    "msort": lambda data: sort(data, 0)[0], "allclose": equal, "equal": equal, "renorm": renorm,
    "rsub": lambda data, other: sub(other, data),
    "standard_gamma": mixed, "dist": lambda one, other, *_: reduced(mixed(as_array(one), as_array(other))),
 "where": chosen, "masked_fill": masked_fill, "clamp": clamp,
    "clip": clamp, "clamp_min": clamp, "clamp_max": lambda data, most: clamp(data, None, most), "lerp": lerp,
    "sum": _reduction(np.sum, 0.0), "mean": _reduction(np.mean, 0.0), "prod": _reduction(np.prod, 1.0),
    "amax": _reduction(np.max, -np.inf), "amin": _reduction(np.min, np.inf), "any": _decision(np.any, 0.0),
    "all": _decision(np.all, 1.0), "logsumexp": logsumexp, "max": _largest(np.max, -np.inf, larger),
    "min": _largest(np.min, np.inf, smaller), "median": _largest(None, 0.0, larger), "cumsum": _running(np.cumsum),
    "cumprod": _running(np.cumprod), "logcumsumexp": _running(None), "cummax": running_pair, "cummin": running_pair,
    "sort": sort, "argsort": argsort, "topk": topk, "kthvalue": kthvalue, "softmax": softmax, "softmin": softmax,
    "log_softmax": log_softmax,
}  # fmt: skip
"""The calls by their names."""
