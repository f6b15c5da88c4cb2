"""What one call of PyTorch computes on its way, where functions of tasks compute it step by step.

A reference that calls `softmax` never names the maximum, the exponentials or their sum; a program may make each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor


def steps_of(operator: str, results: Sequence[Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """The intermediate values of an operator, such as `aten.sort.default`, that has these results; none if unknown."""
    steps = _STEPS.get(operator.rpartition(".")[0])
    try:
        return list(steps(results, *args, **kwargs)) if steps else []
    except (RuntimeError, TypeError, IndexError):  # called with arguments that the steps do not know
        return []


def _softmax(_: Sequence[Any], x: Tensor, dim: int | list[int], *__: Any) -> Iterator[Tensor]:
    """With and without the subtraction of the maximum."""
    top = x.amax(dim, keepdim=True)
    yield from (x.logsumexp(dim), x.exp(), x.exp().sum(dim), top, x - top, (x - top).exp(), (x - top).exp().sum(dim))


def _sort(results: Sequence[Any], x: Tensor, dim: int = -1, *_: Any, **kwargs: Any) -> Iterator[Tensor]:
    """The rank of each number."""
    yield results[1].argsort(kwargs.get("dim", dim)).to(torch.float64)


def _picked(_: Sequence[Any], x: Tensor, target: Tensor, *__: Any) -> Iterator[Tensor]:
    """Each row's number at its target."""
    dim = min(x.ndim - 1, 1)
    yield x.gather(dim, target.clamp(min=0).unsqueeze(dim))


def _centered(_: Sequence[Any], x: Tensor, dim: list[int] | None = None, *__: Any, **___: Any) -> Iterator[Tensor]:
    """Mean, distances from it, their squares and the sum of these."""
    dims = tuple(dim) if dim else tuple(range(x.ndim))
    mean = x.mean(dims, keepdim=True)
    square = (x - mean).square()
    yield from (mean, x - mean, square, square.sum(dims), square.mean(dims), square.mean(dims).sqrt(), x.square())


def _rsqrt(_: Sequence[Any], x: Tensor) -> Iterator[Tensor]:
    yield x.sqrt()


def _logistic(_: Sequence[Any], x: Tensor, *__: Any) -> Iterator[Tensor]:
    """Of a sigmoid, and of what multiplies by one."""
    yield from (x.sigmoid(), (-x).exp(), (-x).exp() + 1)


def _layer_norm(_: Sequence[Any], x: Tensor, shape: list[int], *__: Any) -> Iterator[Tensor]:
    yield from _centered(_, x, list(range(-len(shape), 0)))


def _group_norm(_: Sequence[Any], x: Tensor, __: Any, ___: Any, n: int, *sizes: Any) -> Iterator[Tensor]:
    yield from _centered(_, x.reshape(n, sizes[2], -1), [-1])


def _norm(_: Sequence[Any], x: Tensor, order: float = 2, dim: list[int] | None = None, *__: Any) -> Iterator[Tensor]:
    powers = x.abs() ** order
    yield from (powers, powers.sum(tuple(dim) if dim else tuple(range(x.ndim))))


def _attention(
    _: Sequence[Any], q: Tensor, k: Tensor, v: Tensor, dropout: float = 0.0, causal: bool = False, **kwargs: Any
) -> Iterator[Tensor]:
    scores = q @ k.transpose(-1, -2) * (kwargs.get("scale") or q.shape[-1] ** -0.5)
    yield scores
    mask = kwargs.get("attn_mask")
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, -torch.inf)
    yield from (scores, torch.softmax(scores, -1), *_softmax(_, scores, -1))


_STEPS: dict[str, Callable[..., Iterator[Tensor]]] = {
    "aten._softmax": _softmax,
    "aten._safe_softmax": _softmax,
    "aten._log_softmax": _softmax,
    "aten.logsumexp": _softmax,
    "aten.sort": _sort,
    "aten.nll_loss_forward": _picked,
    "aten.nll_loss2d_forward": _picked,
    "aten.rsqrt": _rsqrt,
    "aten.sigmoid": _logistic,
    "aten.silu": _logistic,
    "aten.std": _centered,
    "aten.var": _centered,
    "aten.native_layer_norm": _layer_norm,
    "aten.native_group_norm": _group_norm,
    "aten.linalg_vector_norm": _norm,
    "aten._scaled_dot_product_flash_attention_for_cpu": _attention,
}
