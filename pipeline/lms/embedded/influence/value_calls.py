"""What calls of PyTorch that compute element by element do to arrays of sources.

Arguments are named as PyTorch names them; those that change no dependence are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pipeline.lms.embedded.influence.arrays import (
    Array,
    as_array,
    both,
    differing,
    either,
    larger,
    like,
    minus,
    operation,
    over,
    plus,
    pointwise,
    smaller,
    times,
    truths,
    where,
)
from pipeline.lms.embedded.influence.choice_calls import nonzero

# --- element by element ---


def _unary(compute: Callable[..., Any], name: str) -> Callable[..., Array]:
    op = operation(compute, name)
    return lambda data, *more, **named: pointwise(compute, data, op=op + _settings(more, named))


def _binary(compute: Callable[..., Any], name: str) -> Callable[..., Array]:
    op = operation(compute, name)
    return lambda data, other, **_: pointwise(compute, data, other, op=op)


def _test(compute: Callable[..., Any] | None, name: str) -> Callable[..., Array]:
    """A comparison or a test, which gives truth values."""
    op = operation(compute, name)
    return lambda *operands, **_: truths(pointwise(compute or _lost, *operands[:2], op=op))


def _lost(*values: Any) -> Any:
    """The value of a constant that is not computed."""
    return np.full(np.broadcast_shapes(*(np.shape(value) for value in values)), np.nan)


def mixed(*operands: Any, op: str = "", **_: Any) -> Array:
    """A call of which only the operands are known, element by element."""
    return pointwise(_lost, *(operand for operand in operands if isinstance(operand, Array)), op=op)


def _named(name: str) -> Callable[..., Array]:
    return lambda *operands, **named: mixed(*operands, op=_ALIASES.get(name, name) + _settings(operands, named))


def _settings(operands: Sequence[Any], named: Mapping[str, Any]) -> str:
    """What tells a call with settings, such as a slope, from one without."""
    given = [one for one in operands if not isinstance(one, Array)]
    given += sorted((key, one) for key, one in named.items() if key not in _INDIFFERENT)
    return f" {given}" if given else ""


_INDIFFERENT = frozenset(("inplace", "out", "training"))
"""Settings that do not change what a call gives, or that the calls here are read without."""


_ALIASES = {"swish": "silu", "expit": "sigmoid", "log_expit": "logsigmoid"}


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
    compute = np.trunc if rounding_mode == "trunc" else np.floor
    return pointwise(compute, result, op=operation(compute))


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
    return truths(pointwise(lambda value: value == 0, data, op="not" if as_array(data).truth else "is zero"))


def inverted(data: Array) -> Array:
    """As `torch.bitwise_not`."""
    return opposite(data) if data.truth else pointwise(lambda value: -value - 1, data)


def logical(combine: Callable[[Any, Any], Array]) -> Callable[..., Array]:
    """A combination of two values, of which it counts whether they are zero."""
    return lambda data, other, **_: combine(
        *(one if as_array(one).truth else truths(pointwise(_is_true, one, op="is true")) for one in (data, other))
    )


def _is_true(value: Any) -> Any:
    return value != 0


def nan_to_num(data: Any, nan: Any = 0.0, *_: Any, **__: Any) -> Array:
    """As `torch.nan_to_num`."""
    return pointwise(np.nan_to_num, data)


def addcmul(data: Any, one: Any, other: Any, *, value: Any = 1) -> Array:
    """As `torch.addcmul`."""
    return plus(data, times(times(one, other), value))


def addcdiv(data: Any, one: Any, other: Any, *, value: Any = 1) -> Array:
    """As `torch.addcdiv`."""
    return plus(data, times(over(one, other), value))


def expanded(data: Any, like: Array) -> Array:
    """A value in the shape of a tensor."""
    return as_array(data).through(lambda part: np.broadcast_to(part, like.shape))


def chosen(condition: Any, one: Any = None, other: Any = None, **_: Any) -> Any:
    """As `torch.where`."""
    if one is None and other is None:
        return nonzero(condition, as_tuple=True)
    return where(condition, one, other)


def frexp(data: Array) -> tuple[Array, Array]:
    """As `torch.frexp`."""
    return mixed(data, op="mantissa"), mixed(data, op="exponent")


def logaddexp(data: Any, other: Any, **_: Any) -> Array:
    """As `torch.logaddexp`."""
    every = plus(pointwise(np.exp, data), pointwise(np.exp, other))
    return like(mixed(as_array(data), as_array(other)), pointwise(np.log, every))


def _sin(value: Any) -> Any:
    """A sine, which is never zero, as a mask is: an angle may be another one at other sizes."""
    found = np.sin(value)
    return np.where(found == 0, _ALMOST_NOTHING, found)


def _cos(value: Any) -> Any:
    return np.cos(value)


_ALMOST_NOTHING = 1e-30
_UNARY: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "abs": np.abs, "absolute": np.abs, "neg": np.negative,
    "negative": np.negative, "square": np.square, "tanh": np.tanh, "sin": _sin, "cos": _cos,
    "floor": np.floor, "ceil": np.ceil, "round": np.round, "trunc": np.trunc, "sign": np.sign, "log1p": np.log1p,
    "expm1": np.expm1, "log2": np.log2, "log10": np.log10, "exp2": np.exp2, "reciprocal": np.reciprocal,
    "sigmoid": lambda value: 1 / (1 + np.exp(-value)), "relu": lambda value: np.maximum(value, 0),
    "rsqrt": lambda value: 1 / np.sqrt(value), "fix": np.trunc, "sgn": np.sign,
}  # fmt: skip
_POINTWISE = """
    silu swish erf erfinv logsigmoid asin acos atan asinh acosh atanh expit frac lgamma digamma angle polar complex
    atan2 logaddexp2 xlog1py copysign heaviside entr
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
    **{name: _unary(compute, name) for name, compute in _UNARY.items()},
    **{name: _test(compute, name) for name, compute in {**_COMPARED, **_TESTED}.items()},
    **{name: _binary(compute, name) for name, compute in _COMPUTED.items()},
    **{name: _named(name) for name in _POINTWISE}, "logaddexp": logaddexp, "frexp": frexp,
    "add": add, "sub": sub, "subtract": sub, "mul": times, "multiply": times, "div": div, "divide": div,
    "true_divide": div, "pow": power, "float_power": power, "maximum": larger, "minimum": smaller, "fmax": larger,
    "fmin": smaller, "logical_and": logical(both), "logical_or": logical(either), "bitwise_and": both,
    "bitwise_or": either, "logical_not": opposite, "bitwise_not": inverted, "bitwise_xor": differing,
    "nan_to_num": nan_to_num, "addcmul": addcmul, "addcdiv": addcdiv,
    "copy": lambda data, other, **_: expanded(other, data), "rsub": lambda data, other: sub(other, data),
    "standard_gamma": mixed, "where": chosen, "masked_fill": masked_fill, "clamp": clamp, "clip": clamp,
    "clamp_min": clamp, "clamp_max": lambda data, most: clamp(data, None, most), "lerp": lerp,
}  # fmt: skip
"""The calls by their names."""
