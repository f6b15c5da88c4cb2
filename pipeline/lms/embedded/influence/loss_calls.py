"""What PyTorch's losses do to arrays of sources.

Arguments are named as PyTorch names them; those that change no dependence are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pipeline.lms.embedded.influence.arrays import (
    Array,
    as_array,
    constant,
    like,
    minus,
    over,
    plus,
    pointwise,
    times,
    unknown,
    where,
)
from pipeline.lms.embedded.influence.choice_calls import gather
from pipeline.lms.embedded.influence.dim_calls import log_softmax
from pipeline.lms.embedded.influence.reductions import reduced, total
from pipeline.lms.embedded.influence.shape_calls import axis_of, squeeze, unsqueeze
from pipeline.lms.embedded.influence.value_calls import mixed


def _reduced_loss(loss: Array, reduction: Any) -> Array:
    if reduction == "none":
        return loss
    return reduced(loss, compute=np.sum if reduction == "sum" else np.mean)


def _elements(data: Any, target: Any, weight: Any = None, *_: Any, reduction: Any = "mean", pos_weight: Any = None,
              **__: Any) -> Array:  # fmt: skip
    """A loss that compares element by element."""
    parts = [as_array(one) for one in (data, target, weight, pos_weight) if isinstance(one, Array | list | float)]
    return _reduced_loss(mixed(*parts), reduction)


def _rows(*tensors: Any, reduction: Any = "mean", swap: Any = None, **_: Any) -> Array:
    """A loss that compares rows, such as those of pairs and triplets; targets have a number for each row."""
    arrays = [one for one in tensors if isinstance(one, Array)]
    rank = max(array.ndim for array in arrays)
    rows = [reduced(array, -1) if array.ndim == rank else array for array in arrays]
    return _reduced_loss(mixed(*rows), reduction)


def cross_entropy(data: Array, target: Array, weight: Any = None, *_: Any, reduction: Any = "mean",
                  **named: Any) -> Array:  # fmt: skip
    """As `torch.nn.functional.cross_entropy`; classes are numbers or probabilities."""
    axis = 1 if data.ndim > 1 else 0
    whole = reduced(data, axis)
    own = reduced(target, axis) if target.ndim == data.ndim else target
    factors = [reduced(as_array(weight))] if weight is not None else []
    loss = mixed(whole, own, *factors)
    if weight is None and not named.get("label_smoothing") and "ignore_index" not in named:
        scores = log_softmax(data, axis)
        if target.ndim == data.ndim:
            picked = total(times(target, scores), axis)
        else:
            picked = squeeze(gather(scores, axis, unsqueeze(target, axis)), axis)
        loss = like(loss, times(picked, -1.0))
    return _reduced_loss(loss, reduction)


def nll_loss(data: Array, target: Array, weight: Any = None, *_: Any, reduction: Any = "mean", **named: Any) -> Array:
    """As `torch.nn.functional.nll_loss`."""
    axis = axis_of(1 if data.ndim > 1 else 0, data.ndim)
    own = squeeze(gather(data, axis, unsqueeze(target, axis)), axis)
    factors = [reduced(as_array(weight))] if weight is not None else []
    loss = mixed(own, target, *factors)
    weighed = bool(factors) or "ignore_index" in named
    return _reduced_loss(loss if weighed else like(loss, times(own, -1.0)), reduction)


def ctc_loss(
    log_probs: Array, targets: Any, input_lengths: Any, target_lengths: Any, blank: Any = 0, reduction: Any = "mean",
    *_: Any, **__: Any,
) -> Array:  # fmt: skip
    """As `torch.nn.functional.ctc_loss`."""
    labels, steps, lengths = as_array(targets), as_array(input_lengths), as_array(target_lengths)
    if log_probs.ndim == 2:
        return mixed(reduced(log_probs), reduced(labels), reduced(steps), reduced(lengths))
    time = constant(np.arange(log_probs.shape[0])[:, None, None])
    inside = pointwise(np.less, time, steps.through(lambda part: part[:, None]))
    scores = reduced(where(inside, log_probs, 0.0), (0, 2))
    if labels.ndim == 2:
        place = constant(np.arange(labels.shape[1]))
        counted = pointwise(np.less, place, lengths.through(lambda part: part[:, None]))
        labels = reduced(where(counted, labels, 0.0), 1)
    else:
        labels = unknown(reduced(labels).sources | reduced(lengths).sources)
    return _reduced_loss(mixed(scores, labels, steps, lengths), reduction)


def _squares(data: Any, target: Any, *_: Any, reduction: Any = "mean", **__: Any) -> Array:
    """As `torch.nn.functional.mse_loss`."""
    gap = minus(data, target)
    return _reduced_loss(times(gap, gap), reduction)


def _distances(data: Any, target: Any, *_: Any, reduction: Any = "mean", **__: Any) -> Array:
    """As `torch.nn.functional.l1_loss`."""
    return _reduced_loss(pointwise(np.abs, minus(data, target), op="absolute"), reduction)


def _huber(data: Any, target: Any, *_: Any, reduction: Any = "mean", **named: Any) -> Array:
    """As `torch.nn.functional.huber_loss` and `smooth_l1_loss`."""
    delta = float(named.get("delta", named.get("beta", 1.0)))
    gap = minus(data, target)
    size = pointwise(np.abs, gap)
    near, far = times(times(gap, gap), 0.5), times(minus(size, 0.5 * delta), delta)
    if "beta" in named:
        near, far = over(near, delta), over(far, delta)
    result = where(pointwise(np.less_equal, size, delta), near, far)
    return _reduced_loss(like(mixed(as_array(data), as_array(target)), result), reduction)


def _divergence(data: Any, target: Any, *_: Any, reduction: Any = "mean", **named: Any) -> Array:
    """As `torch.nn.functional.kl_div`."""
    wanted, logs = as_array(target), pointwise(np.log, as_array(target))
    if named.get("log_target"):
        wanted, logs = pointwise(np.exp, target), as_array(target)
    loss = like(mixed(as_array(data), as_array(target)), times(wanted, minus(logs, data)))
    if reduction == "batchmean":
        return times(_reduced_loss(loss, "sum"), 1.0 / loss.shape[0])
    return _reduced_loss(loss, reduction)


def _entropy(data: Any, target: Any, *more: Any, reduction: Any = "mean", **named: Any) -> Array:
    """As `torch.nn.functional.binary_cross_entropy`."""
    ends = times(target, pointwise(np.log, data)), times(minus(1.0, target), pointwise(np.log, minus(1.0, data)))
    return _weighed(data, target, more, times(plus(*ends), -1.0), reduction, named)


def _entropy_of_scores(data: Any, target: Any, *more: Any, reduction: Any = "mean", **named: Any) -> Array:
    """As `torch.nn.functional.binary_cross_entropy_with_logits`."""
    size = pointwise(np.abs, data)
    rest = pointwise(np.log1p, pointwise(np.exp, times(size, -1.0)))
    loss = minus(plus(pointwise(np.maximum, data, 0.0), rest), times(data, target))
    return _weighed(data, target, more, loss, reduction, named)


def _weighed(data: Any, target: Any, more: Sequence[Any], loss: Array, reduction: Any, named: Any) -> Array:
    """A loss with this formula, unless it has weights."""
    result = _elements(data, target, *more, reduction="none", **named)
    if not more and not any(isinstance(one, Array) for one in named.values()):
        result = like(result, loss)
    return _reduced_loss(result, reduction)


_ELEMENTS = """
    soft_margin_loss poisson_nll_loss hinge_embedding_loss
    """.split()  # noqa: SIM905
_ROWS = """
    cosine_embedding_loss triplet_margin_loss triplet_margin_with_distance_loss multi_margin_loss
    multilabel_margin_loss multilabel_soft_margin_loss
    """.split()  # noqa: SIM905
CALLS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(_ELEMENTS, _elements), "mse_loss": _squares, "l1_loss": _distances,
    "huber_loss": _huber, "smooth_l1_loss": _huber, "kl_div": _divergence, "binary_cross_entropy": _entropy,
    "binary_cross_entropy_with_logits": _entropy_of_scores, **dict.fromkeys(_ROWS, _rows),
    **dict.fromkeys(("margin_ranking_loss", "gaussian_nll_loss"),
                    lambda *tensors, reduction="mean", **_: _reduced_loss(mixed(*tensors), reduction)),
    "cross_entropy": cross_entropy, "nll_loss": nll_loss, "ctc_loss": ctc_loss,
}  # fmt: skip
"""The calls by their names."""
