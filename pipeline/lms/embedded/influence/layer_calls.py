"""What the calls of PyTorch for products, normalizations, convolutions, losses and cells do to arrays of sources.

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
    as_array,
    constant,
    contracted,
    plus,
    product,
    reduced,
    shared,
    times,
    total,
    where,
)
from pipeline.lms.embedded.influence.shape_calls import ints
from pipeline.lms.embedded.influence.value_calls import mixed, softmax

# --- normalizations ---


def _scaled(result: Array, *factors: Any) -> Array:
    for factor in factors:
        result = result if factor is None else mixed(result, as_array(factor))
    return result


def layer_norm(data: Array, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: Any = 0.0) -> Array:
    """As `torch.nn.functional.layer_norm`, and `rms_norm`."""
    count = len(ints((normalized_shape,))) if not isinstance(normalized_shape, int) else 1
    return _scaled(shared(data, tuple(range(-count, 0))), weight, bias)


def _channels(data: Array, factor: Any) -> Any:
    """A factor for each channel, so that it can be multiplied."""
    return None if factor is None else as_array(factor).through(lambda part: part.reshape(-1, *[1] * (data.ndim - 2)))


def group_norm(data: Array, num_groups: Any, weight: Any = None, bias: Any = None, eps: Any = 0.0) -> Array:
    """As `torch.nn.functional.group_norm`."""
    (count,) = ints((num_groups,))
    groups = data.through(lambda part: part.reshape(data.shape[0], count, -1))
    result = shared(groups, -1).through(lambda part: part.reshape(data.shape))
    return _scaled(result, _channels(data, weight), _channels(data, bias))


def instance_norm(data: Array, *_: Any, weight: Any = None, bias: Any = None, **__: Any) -> Array:
    """As `torch.nn.functional.instance_norm`."""
    result = shared(data, tuple(range(2, data.ndim)))
    return _scaled(result, _channels(data, weight), _channels(data, bias))


def batch_norm(
    data: Array, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, training: bool = False,
    **_: Any,
) -> Array:  # fmt: skip
    """As `torch.nn.functional.batch_norm`."""
    axes = tuple(axis for axis in range(data.ndim) if axis != 1)
    result = shared(data, axes) if training else data
    factors = (weight, bias) if training else (running_mean, running_var, weight, bias)
    return _scaled(result, *(_channels(data, factor) for factor in factors))


def normalize(data: Array, p: Any = 2, dim: Any = 1, **_: Any) -> Array:
    """As `torch.nn.functional.normalize`."""
    return shared(data, dim)


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
        spare = [
            as_array(one).ndim - len(term) + 3
            for term, one in zip(terms.split(","), operands, strict=True)
            if "..." in term
        ]
        if len(set(spare)) > 1:
            raise Unread("an ellipsis for several numbers of dims")
        equation = equation.replace("...", "ABCDEFGH"[: spare[0]])
    elif len(set(result)) < len(result):
        raise Unread("a repeated letter")
    return contracted(equation, *operands)


def linear(data: Array, weight: Any, bias: Any = None) -> Array:
    """As `torch.nn.functional.linear`."""
    result = product(data, shape_calls.turned(as_array(weight)))
    return result if bias is None else plus(result, bias)


def addmm(data: Any, mat1: Any, mat2: Any, **_: Any) -> Array:
    """As `torch.addmm`."""
    return plus(data, product(mat1, mat2))


def outer(data: Array, vec2: Array) -> Array:
    """As `torch.outer`."""
    return contracted("n,m->nm", data, vec2)


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


def _windows(data: Array, kernel: list[int], stride: list[int], dilation: list[int]) -> Array:
    """The elements under each place of a kernel: the kernel's dims last."""
    first = data.ndim - len(kernel)
    for place, (size, step, gap) in enumerate(zip(kernel, stride, dilation, strict=True)):
        data = shape_calls.unfold(data, first + place, (size - 1) * gap + 1, step)
        data = data.through(lambda part: part[..., ::gap])  # noqa: B023 (called at once)
    return data


def _each(setting: Any, count: int) -> list[int]:
    return [setting] * count if isinstance(setting, int) else ints((setting,))


def convolution(
    data: Array, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: Any = 1
) -> Array:
    """As `torch.nn.functional.conv1d` and `conv2d`."""
    kernel = as_array(weight)
    spatial = kernel.ndim - 2
    if data.ndim != kernel.ndim or isinstance(padding, str):
        raise Unread("a convolution without a batch, or with padding by name")
    edges = [width for one in reversed(_each(padding, spatial)) for width in (one, one)]
    sizes = list(kernel.shape[2:])
    windows = _windows(shape_calls.pad(data, edges), sizes, _each(stride, spatial), _each(dilation, spatial))
    (count,) = ints((groups,))
    batch, channels, *places = windows.shape[: 2 + spatial]
    windows = windows.through(lambda part: part.reshape(batch, count, channels // count, *places, *sizes))
    filters = kernel.through(lambda part: part.reshape(count, -1, *part.shape[1:]))
    at, under = "xyz"[:spatial], "uvw"[:spatial]
    result = contracted(f"bgc{at}{under},goc{under}->bgo{at}", windows, filters)
    result = result.through(lambda part: part.reshape(batch, -1, *places))
    return result if bias is None else plus(result, _channels(result, bias))


def _pool(spatial: int) -> Callable[..., Array]:
    def pool(data: Array, kernel_size: Any, stride: Any = None, padding: Any = 0, **_: Any) -> Array:
        if padding != 0:
            raise Unread("padding of a pool")
        kernel = _each(kernel_size, spatial)
        windows = _windows(data, kernel, kernel if stride is None else _each(stride, spatial), [1] * spatial)
        return reduced(windows, tuple(range(-spatial, 0)))

    return pool


# --- losses ---


def _reduced_loss(loss: Array, reduction: Any) -> Array:
    return loss if reduction == "none" else reduced(loss)


def loss(data: Any, target: Any, *_: Any, reduction: Any = "mean", **__: Any) -> Array:
    """A loss that compares element by element."""
    return _reduced_loss(mixed(as_array(data), as_array(target)), reduction)


def cross_entropy(data: Array, target: Array, weight: Any = None, *_: Any, reduction: Any = "mean", **__: Any) -> Array:
    """As `torch.nn.functional.cross_entropy`; classes are numbers or probabilities."""
    axis = 1 if data.ndim > 1 else 0
    whole = reduced(data, axis)
    own = reduced(target, axis) if target.ndim == data.ndim else target
    return _reduced_loss(mixed(whole, own), reduction)


# --- cells ---


def lstm_cell(data: Array, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> tuple[Array, Array]:
    """As `torch.lstm_cell`."""
    before, cell = hx
    gates = plus(linear(data, w_ih, b_ih), linear(before, w_hh, b_hh))
    entrance, forget, fresh, exit_ = shape_calls.chunk(gates, 4, 1)
    cell = plus(times(mixed(forget), cell), mixed(entrance, fresh))
    return mixed(exit_, cell), cell


def gru_cell(data: Array, hx: Array, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Array:
    """As `torch.gru_cell`."""
    gates = plus(linear(data, w_ih, b_ih), linear(hx, w_hh, b_hh))
    return mixed(*shape_calls.chunk(gates, 3, 1), hx)


_LOSSES = """
    huber_loss smooth_l1_loss mse_loss l1_loss kl_div binary_cross_entropy binary_cross_entropy_with_logits
    soft_margin_loss poisson_nll_loss
    """.split()  # noqa: SIM905
CALLS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(_LOSSES, loss),
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot"), product),
    "layer_norm": layer_norm, "rms_norm": layer_norm, "group_norm": group_norm, "instance_norm": instance_norm,
    "batch_norm": batch_norm, "normalize": normalize, "einsum": einsum, "linear": linear, "addmm": addmm,
    "baddbmm": addmm, "outer": outer, "ger": outer, "vecdot": vecdot, "cdist": cdist,
    "cosine_similarity": cosine_similarity, "pairwise_distance": pairwise_distance,
    "scaled_dot_product_attention": attention, "conv1d": convolution, "conv2d": convolution,
    "cross_entropy": cross_entropy, "lstm_cell": lstm_cell, "gru_cell": gru_cell, "max_pool1d": _pool(1),
    "avg_pool1d": _pool(1), "max_pool2d": _pool(2), "avg_pool2d": _pool(2),
}  # fmt: skip
"""The calls by their names."""
