"""Operators that are written out before a graph becomes a reference, as plain PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

_ATEN = torch.ops.aten


def _scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    x = x if weight is None else x * weight
    return x if bias is None else x + bias


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return _scaled(x @ weight.transpose(-1, -2), None, bias)


def _addmm(bias: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    return _scaled(x @ weight, None, bias)


def _rms_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None, bias: Tensor | None = None
) -> Tensor:
    dims = [-1 - place for place in range(len(shape))]
    power = (x * x).mean(dims, keepdim=True)
    return _scaled(x * torch.rsqrt(power + (torch.finfo(x.dtype).eps if eps is None else eps)), weight, bias)


def _layer_norm(
    x: Tensor, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5, _: bool = False
) -> Tensor:
    return _rms_norm(x - x.mean([-1 - place for place in range(len(shape))], keepdim=True), shape, weight, eps, bias)


def _batch_norm(
    x: Tensor, weight: Any, bias: Any, mean: Tensor, var: Tensor, _: float, eps: float
) -> tuple[Tensor, ...]:
    def spread(each: Tensor) -> Tensor:
        return each.reshape([-1, *[1] * (x.ndim - 2)]) if x.ndim > 2 else each

    normed = (x - spread(mean)) * spread(torch.rsqrt(var + eps))
    return _scaled(normed, *(each if each is None else spread(each) for each in (weight, bias))), mean, var


def _attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, _: float = 0.0, is_causal: bool = False,
    *, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:  # fmt: skip
    if enable_gqa:
        k, v = (each.repeat_interleave(q.shape[-3] // each.shape[-3], -3) for each in (k, v))
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    return torch.softmax(scores, -1) @ v


TABLE: Mapping[Any, Callable[..., Any]] = {
    _ATEN.linear.default: _linear,
    _ATEN.addmm.default: _addmm,
    _ATEN.rms_norm.default: _rms_norm,
    _ATEN.layer_norm.default: _layer_norm,
    _ATEN._native_batch_norm_legit_no_training.default: _batch_norm,
    _ATEN.scaled_dot_product_attention.default: _attention,
}
