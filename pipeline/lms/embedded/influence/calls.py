"""What calls of PyTorch that compute do to arrays of sources: which elements each result depends on.

Arguments are named as PyTorch names them; those that change no dependence are ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pipeline.lms.embedded.influence import shape_calls
from pipeline.lms.embedded.influence.arrays import (
    Array,
    Unread,
    accumulated,
    as_array,
    axes_of,
    both,
    constant,
    contracted,
    either,
    larger,
    minus,
    over,
    plus,
    pointwise,
    product,
    reduced,
    shared,
    smaller,
    times,
    total,
    unknown,
    where,
)
from pipeline.lms.embedded.influence.shape_calls import axis_of, ints

# --- element by element ---


def _unary(compute: Callable[..., Any]) -> Callable[..., Array]:
    return lambda input, *_, **__: pointwise(compute, input)


def _binary(compute: Callable[..., Any]) -> Callable[..., Array]:
    return lambda input, other, **_: pointwise(compute, input, other)


def _lost(*values: Any) -> Any:
    """The value of a constant that is not computed."""
    return np.full(np.broadcast_shapes(*(np.shape(value) for value in values)), np.nan)


def mixed(*operands: Any, **_: Any) -> Array:
    """A call of which only the operands are known, element by element."""
    return pointwise(_lost, *(operand for operand in operands if isinstance(operand, Array)))


def add(input: Any, other: Any, alpha: Any = 1) -> Array:
    """As `torch.add`."""
    return plus(input, other if alpha == 1 else times(other, alpha))


def sub(input: Any, other: Any, alpha: Any = 1) -> Array:
    """As `torch.sub`."""
    return minus(input, other if alpha == 1 else times(other, alpha))


def power(input: Any, exponent: Any) -> Array:
    """As `torch.pow`."""
    result = pointwise(np.power, input, exponent)
    return where(as_array(exponent).values == 0, 1.0, result) if not isinstance(exponent, int | float) else result


def div(input: Any, other: Any, rounding_mode: Any = None) -> Array:
    """As `torch.div`."""
    result = over(input, other)
    return result if rounding_mode is None else pointwise(np.floor, result)


def clamp(input: Array, min: Any = None, max: Any = None) -> Array:
    """As `torch.clamp`."""
    result = input if min is None else pointwise(np.maximum, input, min)
    return result if max is None else pointwise(np.minimum, result, max)


def masked_fill(input: Array, mask: Any, value: Any) -> Array:
    """As `torch.masked_fill`."""
    return where(mask, value, input)


def lerp(input: Any, end: Any, weight: Any) -> Array:
    """As `torch.lerp`."""
    return plus(input, times(weight, minus(end, input)))


def opposite(input: Any) -> Array:
    """As `torch.logical_not`."""
    return pointwise(lambda value: value == 0, input)


# --- along dims ---


def _reduction(compute: Callable[..., Any], idle: float) -> Callable[..., Any]:
    def reduce(input: Any, dim: Any = None, keepdim: bool = False, **_: Any) -> Array:
        return reduced(as_array(input), dim, keepdim, compute, idle)

    return reduce


def _spread(input: Array, dim: Any = None, unbiased: Any = None, keepdim: bool = False, **_: Any) -> Array:
    """As `torch.var` and `torch.std`."""
    if isinstance(dim, bool):
        dim = None
    return reduced(input, dim, keepdim)


def norm(input: Array, p: Any = 2, dim: Any = None, keepdim: bool = False, **_: Any) -> Array:
    """As `torch.norm`."""
    return reduced(input, dim, keepdim)


def logsumexp(input: Array, dim: Any, keepdim: bool = False) -> Array:
    """As `torch.logsumexp`: a negative infinity leaves no trace."""
    return reduced(input, dim, keepdim)


def _largest(compute: Any, idle: float, pick: Callable[..., Array]) -> Callable[..., Any]:
    def largest(input: Any, dim: Any = None, keepdim: bool = False, other: Any = None) -> Any:
        if isinstance(dim, Array) or other is not None:
            return pick(input, dim if other is None else other)
        result = reduced(as_array(input), dim, keepdim, compute, idle)
        return result if dim is None else (result, unknown(result.sources))

    return largest


def index_of(input: Array, dim: Any = None, keepdim: bool = False, **_: Any) -> Array:
    """As `torch.argmax`."""
    return reduced(input, dim, keepdim)


def _running(compute: Any) -> Callable[..., Array]:
    return lambda input, dim, **_: accumulated(as_array(input), dim, compute)


def running_pair(input: Array, dim: int) -> tuple[Array, Array]:
    """As `torch.cummax`."""
    result = accumulated(input, dim)
    return result, result


def sort(input: Array, dim: int = -1, *_: Any, stable: bool = False, descending: bool = False) -> tuple[Array, Array]:
    """As `torch.sort`."""
    result = unknown(np.broadcast_to(reduced(input, dim, keepdim=True).sources, input.shape))
    return result, result


def argsort(input: Array, dim: int = -1, **_: Any) -> Array:
    """As `torch.argsort`."""
    return sort(input, dim)[1]


def topk(input: Array, k: Any, dim: int = -1, *_: Any, **__: Any) -> tuple[Array, Array]:
    """As `torch.topk`."""
    axis, (count,) = axis_of(dim, input.ndim), ints((k,))
    every = reduced(input, axis, keepdim=True).sources
    result = unknown(np.repeat(every, count, axis))
    return result, result


def kthvalue(input: Array, k: Any, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    """As `torch.kthvalue`."""
    result = reduced(input, dim, keepdim)
    return result, result


def softmax(input: Array, dim: Any = -1, **_: Any) -> Array:
    """As `torch.softmax`."""
    return shared(input, dim)


def log_softmax(input: Array, dim: Any = -1, **_: Any) -> Array:
    """As `torch.log_softmax`."""
    return unknown(np.broadcast_to(reduced(input, dim, keepdim=True).sources, input.shape) | input.sources)


def _scaled(result: Array, *factors: Any) -> Array:
    for factor in factors:
        result = result if factor is None else mixed(result, as_array(factor))
    return result


def layer_norm(input: Array, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: Any = 0.0) -> Array:
    """As `torch.nn.functional.layer_norm`, and `rms_norm`."""
    count = len(ints((normalized_shape,))) if not isinstance(normalized_shape, int) else 1
    return _scaled(shared(input, tuple(range(-count, 0))), weight, bias)


def _channels(input: Array, factor: Any) -> Any:
    """A factor for each channel, so that it can be multiplied."""
    return None if factor is None else as_array(factor).through(lambda part: part.reshape(-1, *[1] * (input.ndim - 2)))


def group_norm(input: Array, num_groups: Any, weight: Any = None, bias: Any = None, eps: Any = 0.0) -> Array:
    """As `torch.nn.functional.group_norm`."""
    (count,) = ints((num_groups,))
    groups = input.through(lambda part: part.reshape(input.shape[0], count, -1))
    result = shared(groups, -1).through(lambda part: part.reshape(input.shape))
    return _scaled(result, _channels(input, weight), _channels(input, bias))


def instance_norm(input: Array, *_: Any, weight: Any = None, bias: Any = None, **__: Any) -> Array:
    """As `torch.nn.functional.instance_norm`."""
    result = shared(input, tuple(range(2, input.ndim)))
    return _scaled(result, _channels(input, weight), _channels(input, bias))


def batch_norm(
    input: Array, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, training: bool = False,
    **_: Any,
) -> Array:  # fmt: skip
    """As `torch.nn.functional.batch_norm`."""
    axes = tuple(axis for axis in range(input.ndim) if axis != 1)
    result = shared(input, axes) if training else input
    factors = (weight, bias) if training else (running_mean, running_var, weight, bias)
    return _scaled(result, *(_channels(input, factor) for factor in factors))


def normalize(input: Array, p: Any = 2, dim: Any = 1, **_: Any) -> Array:
    """As `torch.nn.functional.normalize`."""
    return shared(input, dim)


# --- products ---


def einsum(equation: str, *operands: Any) -> Array:
    """As `torch.einsum`."""
    equation = equation.replace(" ", "")
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = tuple(operands[0])
    if "->" not in equation:
        letters = equation.replace(",", "")
        equation += "->" + "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    terms, result = equation.split("->")
    if "..." in equation:
        spare = [as_array(one).ndim - len(term) + 3 for term, one in zip(terms.split(","), operands, strict=True) if "..." in term]
        if len(set(spare)) > 1:
            raise Unread("an ellipsis for several numbers of dims")
        equation = equation.replace("...", "ABCDEFGH"[: spare[0]])
    elif len(set(result)) < len(result):
        raise Unread("a repeated letter")
    return contracted(equation, *operands)


def linear(input: Array, weight: Any, bias: Any = None) -> Array:
    """As `torch.nn.functional.linear`."""
    result = product(input, shape_calls.turned(as_array(weight)))
    return result if bias is None else plus(result, bias)


def addmm(input: Any, mat1: Any, mat2: Any, **_: Any) -> Array:
    """As `torch.addmm`."""
    return plus(input, product(mat1, mat2))


def outer(input: Array, vec2: Array) -> Array:
    """As `torch.outer`."""
    return contracted("n,m->nm", input, vec2)


def vecdot(x: Any, y: Any, dim: int = -1) -> Array:
    """As `torch.linalg.vecdot`."""
    return total(times(x, y), dim)


def cdist(x1: Array, x2: Array, **_: Any) -> Array:
    """As `torch.cdist`."""
    return reduced(mixed(shape_calls.unsqueeze(x1, -2), shape_calls.unsqueeze(x2, -3)), -1)


def cosine_similarity(x1: Array, x2: Array, dim: int = 1, **_: Any) -> Array:
    """As `torch.nn.functional.cosine_similarity`."""
    return reduced(mixed(x1, x2), dim)


def pairwise_distance(x1: Array, x2: Array, *_: Any, keepdim: bool = False, **__: Any) -> Array:
    """As `torch.nn.functional.pairwise_distance`."""
    return reduced(mixed(x1, x2), -1, keepdim)


def attention(
    query: Array, key: Array, value: Array, attn_mask: Any = None, dropout_p: Any = 0.0, is_causal: bool = False,
    **_: Any,
) -> Array:  # fmt: skip
    """As `torch.nn.functional.scaled_dot_product_attention`, whose boolean and added masks look alike here."""
    scores = product(query, shape_calls.turned_matrices(key))
    if attn_mask is not None:
        mask = as_array(attn_mask)
        if not np.isnan(mask.values).all():
            raise Unread("a constant mask, whose type is not known")
        scores = mixed(scores, mask)
    if is_causal:
        scores = where(constant(np.tril(np.ones(scores.shape[-2:]))), scores, -np.inf)
    return product(softmax(scores), value)


def _windows(input: Array, kernel: list[int], stride: list[int], dilation: list[int]) -> Array:
    """The elements under each place of a kernel: the kernel's dims last."""
    first = input.ndim - len(kernel)
    for place, (size, step, gap) in enumerate(zip(kernel, stride, dilation, strict=True)):
        input = shape_calls.unfold(input, first + place, (size - 1) * gap + 1, step)
        input = input.through(lambda part: part[..., ::gap])  # noqa: B023 (called at once)
    return input


def _each(setting: Any, count: int) -> list[int]:
    return [setting] * count if isinstance(setting, int) else ints((setting,))


def convolution(
    input: Array, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: Any = 1
) -> Array:
    """As `torch.nn.functional.conv1d` and `conv2d`."""
    kernel = as_array(weight)
    spatial = kernel.ndim - 2
    if input.ndim != kernel.ndim or isinstance(padding, str):
        raise Unread("a convolution without a batch, or with padding by name")
    edges = [width for one in reversed(_each(padding, spatial)) for width in (one, one)]
    sizes = list(kernel.shape[2:])
    windows = _windows(shape_calls.pad(input, edges), sizes, _each(stride, spatial), _each(dilation, spatial))
    (count,) = ints((groups,))
    batch, channels, *places = windows.shape[: 2 + spatial]
    windows = windows.through(lambda part: part.reshape(batch, count, channels // count, *places, *sizes))
    filters = kernel.through(lambda part: part.reshape(count, -1, *part.shape[1:]))
    at, under = "xyz"[:spatial], "uvw"[:spatial]
    result = contracted(f"bgc{at}{under},goc{under}->bgo{at}", windows, filters)
    result = result.through(lambda part: part.reshape(batch, -1, *places))
    return result if bias is None else plus(result, _channels(result, bias))


def _pool(compute: Any) -> Callable[..., Array]:
    def pool(input: Array, kernel_size: Any, stride: Any = None, padding: Any = 0, *, spatial: int, **_: Any) -> Array:
        if padding != 0:
            raise Unread("padding of a pool")
        kernel = _each(kernel_size, spatial)
        windows = _windows(input, kernel, kernel if stride is None else _each(stride, spatial), [1] * spatial)
        return reduced(windows, tuple(range(-spatial, 0)), compute=compute)

    return pool


def _pool_of(spatial: int) -> Callable[..., Array]:
    return lambda input, kernel_size, stride=None, padding=0, **_: _pool(None)(
        input, kernel_size, stride, padding, spatial=spatial
    )


# --- losses ---


def _reduced_loss(loss: Array, reduction: Any) -> Array:
    return loss if reduction == "none" else reduced(loss)


def loss(input: Any, target: Any, *_: Any, reduction: Any = "mean", **__: Any) -> Array:
    """A loss that compares element by element."""
    return _reduced_loss(mixed(as_array(input), as_array(target)), reduction)


def cross_entropy(input: Array, target: Array, weight: Any = None, *_: Any, reduction: Any = "mean", **__: Any) -> Array:
    """As `torch.nn.functional.cross_entropy`; classes are numbers or probabilities."""
    axis = 1 if input.ndim > 1 else 0
    whole = reduced(input, axis)
    own = reduced(target, axis) if target.ndim == input.ndim else target
    return _reduced_loss(mixed(whole, own), reduction)


# --- cells ---


def lstm_cell(input: Array, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> tuple[Array, Array]:
    """As `torch.lstm_cell`."""
    before, cell = hx
    gates = plus(linear(input, w_ih, b_ih), linear(before, w_hh, b_hh))
    entrance, forget, fresh, exit_ = shape_calls.chunk(gates, 4, 1)
    cell = plus(times(mixed(forget), cell), mixed(entrance, fresh))
    return mixed(exit_, cell), cell


def gru_cell(input: Array, hx: Array, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Array:
    """As `torch.gru_cell`."""
    gates = plus(linear(input, w_ih, b_ih), linear(hx, w_hh, b_hh))
    return mixed(*shape_calls.chunk(gates, 3, 1), hx)


def bucketize(input: Array, boundaries: Any, **_: Any) -> Array:
    """As `torch.bucketize`."""
    return mixed(as_array(input), reduced(as_array(boundaries)))


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
    relu6 sin cos nan_to_num isnan isfinite isinf lgamma digamma angle prelu polar complex atan2 hypot logaddexp logaddexp2
    addcmul addcdiv xlogy copysign heaviside isclose entr
    """.split()  # noqa: SIM905 (a list of so many strings would be harder to read)
_LOSSES = """
    huber_loss smooth_l1_loss mse_loss l1_loss kl_div binary_cross_entropy binary_cross_entropy_with_logits
    soft_margin_loss poisson_nll_loss
    """.split()  # noqa: SIM905
_COMPARED = {
    "eq": np.equal, "ne": np.not_equal, "not_equal": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "less": np.less, "greater": np.greater, "less_equal": np.less_equal,
    "greater_equal": np.greater_equal, "remainder": np.mod, "fmod": np.fmod, "floor_divide": np.floor_divide,
    "logical_xor": np.logical_xor, "bitwise_xor": np.logical_xor,
}  # fmt: skip
CALLS: dict[str, Callable[..., Any]] = {
    **shape_calls.CALLS,
    **{name: _unary(compute) for name, compute in _UNARY.items()},
    **{name: _binary(compute) for name, compute in _COMPARED.items()},
    **dict.fromkeys(_POINTWISE, mixed),
    **dict.fromkeys(_LOSSES, loss),
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot", "inner_product"), product),
    **dict.fromkeys(("var", "std"), _spread),
    **dict.fromkeys(("norm", "vector_norm"), norm),
    **dict.fromkeys(("argmax", "argmin", "median", "nansum", "count_nonzero"), index_of),
    "add": add, "sub": sub, "subtract": sub, "mul": times, "multiply": times, "div": div, "divide": div,
    "true_divide": div, "pow": power, "float_power": power, "maximum": larger, "minimum": smaller, "fmax": larger,
    "fmin": smaller, "logical_and": both, "logical_or": either, "bitwise_and": both, "bitwise_or": either,
    "logical_not": opposite, "bitwise_not": opposite, "where": where, "masked_fill": masked_fill, "clamp": clamp,
    "clip": clamp, "clamp_min": lambda input, min: clamp(input, min), "clamp_max": lambda input, max: clamp(input, None, max),
    "lerp": lerp, "sum": _reduction(np.sum, 0.0), "mean": _reduction(np.mean, 0.0), "prod": _reduction(np.prod, 1.0),
    "amax": _reduction(np.max, -np.inf), "amin": _reduction(np.min, np.inf), "any": _reduction(np.any, 0.0),
    "all": _reduction(np.all, 1.0), "logsumexp": logsumexp, "max": _largest(np.max, -np.inf, larger),
    "min": _largest(np.min, np.inf, smaller), "cumsum": _running(np.cumsum), "cumprod": _running(np.cumprod),
    "logcumsumexp": _running(None), "cummax": running_pair, "cummin": running_pair, "sort": sort, "argsort": argsort,
    "topk": topk, "kthvalue": kthvalue, "softmax": softmax, "softmin": softmax, "log_softmax": log_softmax,
    "layer_norm": layer_norm, "rms_norm": layer_norm, "group_norm": group_norm, "instance_norm": instance_norm,
    "batch_norm": batch_norm, "normalize": normalize, "einsum": einsum, "linear": linear, "addmm": addmm,
    "baddbmm": addmm, "outer": outer, "ger": outer, "vecdot": vecdot, "cdist": cdist,
    "cosine_similarity": cosine_similarity, "pairwise_distance": pairwise_distance,
    "scaled_dot_product_attention": attention, "conv1d": convolution, "conv2d": convolution, "cross_entropy": cross_entropy,
    "lstm_cell": lstm_cell, "gru_cell": gru_cell, "bucketize": bucketize, "max_pool1d": _pool_of(1),
    "avg_pool1d": _pool_of(1), "max_pool2d": _pool_of(2), "avg_pool2d": _pool_of(2),
}  # fmt: skip
"""The calls by their names."""

__all__ = ["CALLS", "axes_of"]
