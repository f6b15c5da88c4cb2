"""Calls are found by name, with arguments by position or by name."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.lms.embedded.influence.arrays import Unread, unknown
from pipeline.lms.embedded.influence.calls import called

X = unknown(np.array([1, 2], np.uint64))


def test_a_tensor_or_a_dim_may_be_named() -> None:
    """`axis` is another name of `dim`."""
    assert called("sum", [], {"input": X, "axis": 0}).sources == 3


def test_an_unknown_call_is_unread() -> None:
    """Whatever it may do."""
    with pytest.raises(Unread):
        called("ctc_loss", [X], {})
