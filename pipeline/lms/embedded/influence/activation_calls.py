"""What PyTorch's activations do to arrays of sources: each has the formulas of what it is short for."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from math import pi, sqrt
from typing import Any

import numpy as np

from pipeline.lms.embedded.influence.arrays import Array, as_array, like, minus, over, plus, pointwise, times, where
from pipeline.lms.embedded.influence.value_calls import CALLS as VALUES
from pipeline.lms.embedded.influence.value_calls import clamp, mixed
from pipeline.lms.embedded.influence.window_calls import channels

_SELU = 1.6732632423543772, 1.0507009873554805
_CUBIC = 0.044715


def _spelled(call: Callable[..., Any]) -> Callable[..., Array]:
    """A call of which each element depends on what `call` makes of it, but is never taken for a constant."""

    @wraps(call)
    def spelled(data: Any, *args: Any, **named: Any) -> Array:
        named.pop("inplace", None)
        found = as_array(call(as_array(data), *args, **named))
        return like(mixed(found), found)

    return spelled


def _exp(data: Any) -> Array:
    return pointwise(np.exp, data)


def _log(data: Any) -> Array:
    return pointwise(np.log, data)


def _size(data: Any) -> Array:
    return pointwise(np.abs, data, op="absolute")


def _tanh(data: Any) -> Array:
    return pointwise(np.tanh, data, op="tanh")


def _positive(data: Any, one: Any, other: Any) -> Array:
    """One of two values by whether another one is positive."""
    return where(pointwise(np.greater, data, 0.0), one, other)


def leaky_relu(data: Array, negative_slope: Any = 0.01) -> Array:
    """As `torch.nn.functional.leaky_relu`."""
    return _positive(data, data, times(data, negative_slope))


def prelu(data: Array, weight: Any) -> Array:
    """As `torch.nn.functional.prelu`: one slope, or one for each channel."""
    slope = as_array(weight)
    return leaky_relu(data, slope if slope.values.size == 1 else channels(data, slope))


def elu(data: Array, alpha: Any = 1.0) -> Array:
    """As `torch.nn.functional.elu`."""
    return _positive(data, data, times(minus(_exp(data), 1.0), alpha))


def celu(data: Array, alpha: Any = 1.0) -> Array:
    """As `torch.nn.functional.celu`."""
    return _positive(data, data, times(minus(_exp(over(data, alpha)), 1.0), alpha))


def selu(data: Array) -> Array:
    """As `torch.nn.functional.selu`."""
    return times(elu(data, _SELU[0]), _SELU[1])


def gelu(data: Array, approximate: str = "none") -> Array:
    """As `torch.nn.functional.gelu`."""
    if approximate == "tanh":
        cube = times(times(data, data), data)
        gate = _tanh(times(plus(data, times(cube, _CUBIC)), sqrt(2.0 / pi)))
    else:
        gate = mixed(times(data, sqrt(0.5)), op="erf")
    return times(times(data, plus(gate, 1.0)), 0.5)


def mish(data: Array) -> Array:
    """As `torch.nn.functional.mish`."""
    return times(data, _tanh(_log(plus(_exp(data), 1.0))))


def softplus(data: Array, beta: Any = 1.0, threshold: Any = 20.0) -> Array:
    """As `torch.nn.functional.softplus`, without the threshold, which only guards against overflow."""
    return over(_log(plus(_exp(times(data, beta)), 1.0)), beta)


def hardtanh(data: Array, min_val: Any = -1.0, max_val: Any = 1.0) -> Array:
    """As `torch.nn.functional.hardtanh`."""
    return clamp(data, min_val, max_val)


def hardsigmoid(data: Array) -> Array:
    """As `torch.nn.functional.hardsigmoid`."""
    return over(clamp(plus(data, 3.0), 0.0, 6.0), 6.0)


def softshrink(data: Array, lambd: Any = 0.5) -> Array:
    """As `torch.nn.functional.softshrink`."""
    above, below = minus(data, lambd), plus(data, lambd)
    return _positive(above, above, where(pointwise(np.less, below, 0.0), below, 0.0))


def threshold(data: Array, threshold: Any, value: Any) -> Array:
    """As `torch.nn.functional.threshold`."""
    return where(pointwise(np.greater, data, threshold), data, value)


def logit(data: Array, eps: Any = None) -> Array:
    """As `torch.logit`."""
    inside = data if eps is None else clamp(data, eps, minus(1.0, eps))
    return _log(over(inside, minus(1.0, inside)))


CALLS: dict[str, Callable[..., Any]] = {
    "leaky_relu": _spelled(leaky_relu), "elu": _spelled(elu), "celu": _spelled(celu), "selu": _spelled(selu),
    "gelu": _spelled(gelu), "mish": _spelled(mish), "softplus": _spelled(softplus), "hardtanh": _spelled(hardtanh),
    "hardsigmoid": _spelled(hardsigmoid), "softshrink": _spelled(softshrink), "threshold": _spelled(threshold),
    "logit": _spelled(logit), "relu6": _spelled(lambda data: clamp(data, 0.0, 6.0)),
    "hardswish": _spelled(lambda data: times(data, hardsigmoid(data))),
    "hardshrink": _spelled(lambda data, lambd=0.5: where(pointwise(np.greater, _size(data), lambd), data, 0.0)),
    "prelu": _spelled(prelu),
    "softsign": _spelled(lambda data: over(data, plus(_size(data), 1.0))),
    "tanhshrink": _spelled(lambda data: minus(data, _tanh(data))),
    "erfc": _spelled(lambda data: minus(1.0, mixed(data, op="erf"))),
    "sinh": _spelled(lambda data: times(minus(_exp(data), _exp(minus(0.0, data))), 0.5)),
    "cosh": _spelled(lambda data: times(plus(_exp(data), _exp(minus(0.0, data))), 0.5)),
    "tan": _spelled(lambda data: over(VALUES["sin"](data), VALUES["cos"](data))),
    "hypot": _spelled(lambda data, other: pointwise(np.sqrt, plus(times(data, data), times(other, other)))),
    "xlogy": _spelled(lambda data, other: times(data, _log(other))),
    "deg2rad": _spelled(lambda data: times(data, pi / 180.0)),
    "rad2deg": _spelled(lambda data: times(data, 180.0 / pi)),
}  # fmt: skip
"""The calls by their names."""
