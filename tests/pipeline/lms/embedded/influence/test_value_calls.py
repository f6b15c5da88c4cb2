"""Calls that compute depend on what PyTorch's do."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.lms.embedded.influence.arrays import Unread, as_array, constant, unknown
from pipeline.lms.embedded.influence.value_calls import CALLS

X = unknown(np.array([[1, 2, 4], [8, 16, 32]], np.uint64))


def test_element_by_element_nothing_else_is_mixed_in() -> None:
    """Whatever the function is."""
    for name in ("exp", "relu", "gelu", "round", "sqrt"):
        assert CALLS[name](X).sources.tolist() == X.sources.tolist()
    assert CALLS["clamp"](X, min=0).sources.tolist() == X.sources.tolist()
    assert CALLS["clamp_max"](constant([1, 5]), 2).known().tolist() == [1, 2]


def test_along_a_dim_all_of_it_counts() -> None:
    """A pair gives values and indices that depend on the same."""
    assert CALLS["mean"](X, -1, keepdim=True).sources.tolist() == [[7], [56]]
    values, places = CALLS["max"](X, 1)
    assert values.sources.tolist() == places.sources.tolist() == [7, 56]
    assert CALLS["max"](X, as_array(0.0)).sources.tolist() == X.sources.tolist()
    assert CALLS["topk"](X, 2)[0].sources.tolist() == [[7, 7], [56, 56]]
    assert CALLS["cummax"](X, 1)[0].sources.tolist() == [[1, 3, 7], [8, 24, 56]]
    assert CALLS["softmax"](X, 0).sources.tolist() == [[9, 18, 36]] * 2


def test_more_elements_than_there_are_are_unread() -> None:
    """As PyTorch refuses them."""
    with pytest.raises(Unread):
        CALLS["topk"](X, 4)
