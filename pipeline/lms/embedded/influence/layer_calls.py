"""What the calls of PyTorch for products, normalizations, convolutions, losses and cells do to arrays of sources.

Arguments are named as PyTorch names them; those that change no dependence are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from pipeline.lms.embedded.influence import shape_calls
from pipeline.lms.embedded.influence.arrays import (
    Array,
    Unread,
    as_array,
    constant,
    larger,
    like,
    minus,
    over,
    plus,
    pointwise,
    times,
    unknown,
    where,
)
from pipeline.lms.embedded.influence.dim_calls import norm, softmax, variance
from pipeline.lms.embedded.influence.reductions import contracted, product, reduced, shared, total
from pipeline.lms.embedded.influence.shape_calls import ints
from pipeline.lms.embedded.influence.value_calls import mixed
from pipeline.lms.embedded.influence.window_calls import channels

# --- normalizations ---


def _scaled(result: Array, *factors: Any) -> Array:
    for factor in factors:
        result = result if factor is None else mixed(result, as_array(factor))
    return result


def layer_norm(data: Array, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> Array:
    """As `torch.nn.functional.layer_norm`."""
    count = len(ints((normalized_shape,))) if not isinstance(normalized_shape, int) else 1
    axes = tuple(range(-count, 0))
    return like(_scaled(shared(data, axes), weight, bias), _affine(_standardized(data, axes, eps), weight, bias))


def _standardized(data: Array, axes: tuple[int, ...], eps: Any) -> Array:
    spread = pointwise(np.sqrt, plus(variance(data, axes, True, biased=True), eps), op="rsqrt")
    return times(minus(data, reduced(data, axes, True, np.mean)), spread)


def _affine(data: Array, weight: Any, bias: Any) -> Array:
    data = data if weight is None else times(data, weight)
    return data if bias is None else plus(data, bias)


def rms_norm(data: Array, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Array:
    """As `torch.nn.functional.rms_norm`."""
    count = len(ints((normalized_shape,))) if not isinstance(normalized_shape, int) else 1
    axes = tuple(range(-count, 0))
    spread = pointwise(np.sqrt, plus(reduced(times(data, data), axes, True, np.mean), eps or 0.0), op="rsqrt")
    return like(_scaled(shared(data, axes), weight), _affine(times(data, spread), weight, None))


def group_norm(data: Array, num_groups: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> Array:
    """As `torch.nn.functional.group_norm`."""
    (count,) = ints((num_groups,))
    groups = data.through(lambda part: part.reshape(data.shape[0], count, -1))
    result, found = (one.through(lambda part: part.reshape(data.shape)) for one in
                     (shared(groups, -1), _standardized(groups, (-1,), eps)))  # fmt: skip
    factors = channels(data, weight), channels(data, bias)
    return like(_scaled(result, *factors), _affine(found, *factors))


def instance_norm(data: Array, *_: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5, **__: Any) -> Array:
    """As `torch.nn.functional.instance_norm`."""
    axes = tuple(range(2, data.ndim))
    factors = channels(data, weight), channels(data, bias)
    return like(_scaled(shared(data, axes), *factors), _affine(_standardized(data, axes, eps), *factors))


def batch_norm(
    data: Array, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None, training: bool = False,
    momentum: Any = 0.1, eps: Any = 1e-5,
) -> Array:  # fmt: skip
    """As `torch.nn.functional.batch_norm`."""
    axes = tuple(axis for axis in range(data.ndim) if axis != 1)
    result = shared(data, axes) if training else data
    factors = (weight, bias) if training else (running_mean, running_var, weight, bias)
    result = _scaled(result, *(channels(data, factor) for factor in factors))
    if training:
        found = _standardized(data, axes, eps)
    else:
        spread = pointwise(np.sqrt, plus(channels(data, running_var), eps), op="rsqrt")
        found = times(minus(data, channels(data, running_mean)), spread)
    return like(result, _affine(found, channels(data, weight), channels(data, bias)))


def normalize(data: Array, p: Any = 2, dim: Any = 1, eps: Any = 1e-12, **_: Any) -> Array:
    """As `torch.nn.functional.normalize`."""
    return like(shared(data, dim), over(data, larger(norm(data, p, dim, True), eps)))


def local_response_norm(data: Array, size: Any, *_: Any, **__: Any) -> Array:
    """As `torch.nn.functional.local_response_norm`: channels depend on their neighbours."""
    (width,) = ints((size,))
    padded = shape_calls.pad(data, [0, 0] * (data.ndim - 2) + [width // 2, (width - 1) // 2])
    return mixed(data, reduced(shape_calls.unfold(padded, 1, width, 1), -1))


def layer_norm_backward(
    grad: Array, data: Array, normalized_shape: Any, mean: Any, rstd: Any, weight: Any = None, *_: Any
) -> tuple[Array, Array, Array]:
    """As `torch.ops.aten.native_layer_norm_backward`."""
    count = len(ints((normalized_shape,))) if not isinstance(normalized_shape, int) else 1
    own = mixed(grad, data, mean, rstd)
    outer = tuple(range(data.ndim - count))
    result = mixed(shared(_scaled(own, weight), tuple(range(-count, 0))))
    return result, reduced(own, outer), reduced(grad, outer)


# --- products ---


def einsum(equation: str, *operands: Any) -> Array:
    """As `torch.einsum`."""
    terms, result, arrays = _indexed(equation, operands)
    return contracted(f"{','.join(terms)}->{result}", *arrays)


def _within_einsum(equation: str, *operands: Any) -> Iterator[Array]:
    """The products of the first operands, and their sums over what no other has."""
    (term, *terms), result, (array, *arrays) = _indexed(equation, operands)
    for place, (other, operand) in enumerate(zip(terms, arrays, strict=True)):
        every = "".join(dict.fromkeys(term + other))
        array = contracted(f"{term},{other}->{every}", array, operand)
        yield array
        wanted = {*result}.union(*terms[place + 1 :])
        term = "".join(letter for letter in every if letter in wanted)
        array = contracted(f"{every}->{term}", array)
        yield array


def _indexed(equation: str, operands: Sequence[Any]) -> tuple[list[str], str, list[Array]]:
    """The indices of each operand and of the result, and the operands, with no ellipsis and no repeated letter."""
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
    terms, result = equation.split("->")
    arrays = [_diagonals(term, as_array(one)) for term, one in zip(terms.split(","), operands, strict=True)]
    return ["".join(dict.fromkeys(term)) for term in terms.split(",")], result, arrays


def _diagonals(term: str, data: Array) -> Array:
    """Takes dims of one letter together, each at the place of its first letter."""
    letters = list(term)
    for letter in dict.fromkeys(term):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            other = letters.index(letter, first + 1)
            data = shape_calls.diagonal(data, 0, first, other).through(lambda part: np.moveaxis(part, -1, first))  # noqa: B023
            del letters[other]
    return data


def bilinear(input1: Array, input2: Array, weight: Any, bias: Any = None) -> Array:
    """As `torch.nn.functional.bilinear`."""
    result = einsum("...i,oij,...j->...o", input1, weight, input2)
    return result if bias is None else plus(result, bias)


def linear(data: Array, weight: Any, bias: Any = None) -> Array:
    """As `torch.nn.functional.linear`."""
    result = product(data, shape_calls.turned(as_array(weight)))
    return result if bias is None else plus(result, bias)


def outer(data: Array, vec2: Array) -> Array:
    """As `torch.outer`."""
    return contracted("n,m->nm", data, vec2)


def vecdot(x: Any, y: Any, dim: int = -1) -> Array:
    """As `torch.linalg.vecdot`."""
    return total(times(x, y), dim)


def cdist(x1: Array, x2: Array, p: Any = 2, **_: Any) -> Array:
    """As `torch.cdist`."""
    one, other = shape_calls.unsqueeze(x1, -2), shape_calls.unsqueeze(x2, -3)
    return like(reduced(mixed(one, other), -1), norm(minus(one, other), p, -1))


def cosine_similarity(x1: Array, x2: Array, dim: int = 1, **_: Any) -> Array:
    """As `torch.nn.functional.cosine_similarity`."""
    found = over(total(times(x1, x2), dim), times(norm(x1, 2, dim), norm(x2, 2, dim)))
    return like(reduced(mixed(x1, x2), dim), found)


def pairwise_distance(x1: Array, x2: Array, *_: Any, keepdim: bool = False, **__: Any) -> Array:
    """As `torch.nn.functional.pairwise_distance`."""
    return reduced(mixed(x1, x2), -1, keepdim)


def attention(
    query: Array, key: Array, value: Array, attn_mask: Any = None, dropout_p: Any = 0.0, is_causal: bool = False,
    scale: Any = None, enable_gqa: bool = False,
) -> Array:  # fmt: skip
    """As `torch.nn.functional.scaled_dot_product_attention`."""
    if enable_gqa:
        value = shape_calls.repeat_interleave(value, query.shape[-3] // value.shape[-3], -3)
    weights = _attended(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa=enable_gqa, scale=scale)[-1]
    return product(weights, value)


def _attended(
    query: Array, key: Array, _value: Array, attn_mask: Any = None, _dropout_p: Any = 0.0, is_causal: bool = False,
    *, enable_gqa: bool = False, scale: Any = None, **_: Any,
) -> tuple[Array, ...]:  # fmt: skip
    """What `attention` computes on its way: scores of all pairs, those that masks leave, and the weights of values."""
    if enable_gqa:
        key = shape_calls.repeat_interleave(key, query.shape[-3] // key.shape[-3], -3)
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = left = times(product(query, shape_calls.turned_matrices(key)), factor)
    if attn_mask is not None:
        mask = as_array(attn_mask)
        left = where(mask, scores, -np.inf) if mask.truth else plus(scores, mask)
    if is_causal:
        left = where(constant(np.tril(np.ones(scores.shape[-2:]))), left, -np.inf)
    return scores, left, softmax(left)


def _products(one: Any, other: Any, **_: Any) -> Iterator[Array]:
    """The products of elements that a product of matrices adds."""
    if isinstance(one, Array) and isinstance(other, Array) and min(one.ndim, other.ndim) > 1:
        yield unknown(one.sources[..., :, :, None] | other.sources[..., None, :, :])


# --- cells ---


def lstm_cell(data: Array, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> tuple[Array, Array]:
    """As `torch.lstm_cell`."""
    before, cell = hx
    gates = plus(linear(data, w_ih, b_ih), linear(before, w_hh, b_hh))
    entrance, forget, fresh, exit_ = shape_calls.chunk(gates, 4, -1)
    entrance, forget, exit_ = (mixed(one, op="sigmoid") for one in (entrance, forget, exit_))
    cell = plus(times(forget, cell), times(entrance, mixed(fresh, op="tanh")))
    return times(exit_, mixed(cell, op="tanh")), cell


def rnn_cell(data: Array, hx: Array, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Array:
    """As `torch.rnn_tanh_cell`."""
    return mixed(plus(linear(data, w_ih, b_ih), linear(hx, w_hh, b_hh)))


def gru_cell(data: Array, hx: Array, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Array:
    """As `torch.gru_cell`."""
    gates = plus(linear(data, w_ih, b_ih), linear(hx, w_hh, b_hh))
    return mixed(*shape_calls.chunk(gates, 3, -1), hx)


CALLS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot"), product),
    "layer_norm": layer_norm, "rms_norm": rms_norm, "group_norm": group_norm, "instance_norm": instance_norm,
    "batch_norm": batch_norm, "normalize": normalize, "einsum": einsum, "linear": linear,
    "outer": outer, "ger": outer, "vecdot": vecdot, "cdist": cdist,
    "cosine_similarity": cosine_similarity, "pairwise_distance": pairwise_distance,
    "scaled_dot_product_attention": attention, "lstm_cell": lstm_cell, "gru_cell": gru_cell,
    "rnn_tanh_cell": rnn_cell, "rnn_relu_cell": rnn_cell, "bilinear": bilinear,
    "native_layer_norm_backward": layer_norm_backward, "local_response_norm": local_response_norm,
}  # fmt: skip
"""The calls by their names."""
WITHIN: dict[str, Callable[..., Iterable[Array]]] = {
    **dict.fromkeys(("matmul", "mm", "bmm"), _products), "einsum": _within_einsum,
    "scaled_dot_product_attention": _attended,
}  # fmt: skip
"""What some calls compute on their way."""
