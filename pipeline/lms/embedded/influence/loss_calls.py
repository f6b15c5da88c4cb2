"""What PyTorch's losses do to arrays of sources.

Arguments are named as PyTorch names them; those that change no dependence are ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pipeline.lms.embedded.influence.arrays import Array, as_array, constant, pointwise, reduced, unknown, where
from pipeline.lms.embedded.influence.choice_calls import gather
from pipeline.lms.embedded.influence.shape_calls import axis_of, squeeze, unsqueeze
from pipeline.lms.embedded.influence.value_calls import mixed


def _reduced_loss(loss: Array, reduction: Any) -> Array:
    return loss if reduction == "none" else reduced(loss)


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


def cross_entropy(data: Array, target: Array, weight: Any = None, *_: Any, reduction: Any = "mean", **__: Any) -> Array:
    """As `torch.nn.functional.cross_entropy`; classes are numbers or probabilities."""
    axis = 1 if data.ndim > 1 else 0
    whole = reduced(data, axis)
    own = reduced(target, axis) if target.ndim == data.ndim else target
    factors = [reduced(as_array(weight))] if weight is not None else []
    return _reduced_loss(mixed(whole, own, *factors), reduction)


def nll_loss(data: Array, target: Array, weight: Any = None, *_: Any, reduction: Any = "mean", **__: Any) -> Array:
    """As `torch.nn.functional.nll_loss`."""
    axis = axis_of(1 if data.ndim > 1 else 0, data.ndim)
    own = squeeze(gather(data, axis, unsqueeze(target, axis)), axis)
    factors = [reduced(as_array(weight))] if weight is not None else []
    return _reduced_loss(mixed(own, target, *factors), reduction)


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


_ELEMENTS = """
    huber_loss smooth_l1_loss mse_loss l1_loss kl_div binary_cross_entropy binary_cross_entropy_with_logits
    soft_margin_loss poisson_nll_loss hinge_embedding_loss
    """.split()  # noqa: SIM905
_ROWS = """
    cosine_embedding_loss triplet_margin_loss triplet_margin_with_distance_loss multi_margin_loss
    multilabel_margin_loss multilabel_soft_margin_loss
    """.split()  # noqa: SIM905
CALLS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(_ELEMENTS, _elements), **dict.fromkeys(_ROWS, _rows),
    **dict.fromkeys(("margin_ranking_loss", "gaussian_nll_loss"),
                    lambda *tensors, reduction="mean", **_: _reduced_loss(mixed(*tensors), reduction)),
    "cross_entropy": cross_entropy, "nll_loss": nll_loss, "ctc_loss": ctc_loss,
}  # fmt: skip
"""The calls by their names."""
