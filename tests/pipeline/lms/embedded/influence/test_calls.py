"""Calls are found by name, with arguments by position or by name."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.lms.embedded.influence.arrays import Unread, Word, unknown
from pipeline.lms.embedded.influence.calls import called, module_named

X = unknown(np.array([1, 2], np.uint64))


def test_a_tensor_or_a_dim_may_be_named() -> None:
    """`axis` is another name of `dim`."""
    assert called("sum", [], {"input": X, "axis": 0}).sources == 3


def test_an_unknown_call_is_unread() -> None:
    """Whatever it may do."""
    with pytest.raises(Unread):
        called("unheard_of", [X], {})


def test_modules_are_calls() -> None:
    """`nn.MaxPool2d` and `nn.MSELoss` are named as classes are."""
    names = ("MaxPool2d", "MSELoss", "KLDivLoss", "BCEWithLogitsLoss", "LeakyReLU")
    assert list(map(module_named, names)) == [
        "max_pool2d", "mse_loss", "kl_div", "binary_cross_entropy_with_logits", "leaky_relu"]  # fmt: skip
    with pytest.raises(Unread):
        module_named("Transformer")


def test_a_type_converts_constants() -> None:
    """Also of a call that takes one."""
    assert called("tensor", [[0.5, 2.5]], {"dtype": Word("long")}).known().tolist() == [0, 2]
    assert called("ones", [2], {"dtype": Word("bool")}).truth
